import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail

from gateway_sdk.auth.token import text_of
from gateway_sdk.cli.commands.login import try_out_store
from gateway_sdk.cli.config import find_settings
from tests.cli.ended import Ended
from tests.cli.logins import CANARY, Tab, keep, kept, record_path

Call = Callable[..., Ended]
Settings = Mapping[str, str]


def cut(path: Path) -> None:
    """Leave half of a record."""
    path.write_bytes(path.read_bytes()[:50])


def open_up(path: Path) -> None:
    """Let everybody read a record."""
    path.chmod(0o644)


def close_down(path: Path) -> None:
    """Replace a record by a link to nothing."""
    path.unlink()
    path.symlink_to("nowhere")


@pytest.mark.parametrize("break_record", [cut, open_up, close_down])
def test_broken_record_is_replaced(
    call_gateway: Call,
    settings: Settings,
    tab: Tab,
    break_record: Callable[[Path], None],
) -> None:
    """What cannot be used is no obstacle to the login that replaces it."""
    keep()
    break_record(record_path())

    ended = call_gateway("login")

    assert ended.status == 0
    assert text_of(kept()) == tab.token
    assert os.name == "nt" or record_path().stat().st_mode & 0o777 == 0o600
    assert list(record_path().parent.iterdir()) == [record_path()]


def blocked(folder: Path) -> str:
    """Put a file where the folder of the store should be."""
    (folder / "file").touch()
    return f"file:{folder}/file/tokens"


def open_to_all(folder: Path) -> str:
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    return f"file:{folder}/open"


def redis_away(_: Path) -> str:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return f"redis://:{CANARY}@127.0.0.1:{closed.getsockname()[1]}"


def no_keyring(_: Path) -> str:
    keyring.set_keyring(fail.Keyring())  # type: ignore[no-untyped-call]
    return "keyring"


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        pytest.param(blocked, "cannot be written: Not a directory", marks=pytest.mark.posix),
        pytest.param(open_to_all, "can be written by others", marks=pytest.mark.posix),
        (redis_away, "cannot be used: Connection"),
        (no_keyring, "the keyring cannot be used here: NoKeyringError"),
    ],
)
def test_store_that_cannot_be_used_costs_nobody_a_login(
    call_gateway: Call,
    settings: Settings,
    tab: Tab,
    tmp_path: Path,
    broken: Callable[[Path], str],
    why: str,
) -> None:
    """It is said before anybody is asked to log in, without the password in its address."""
    ended = call_gateway("login", GATEWAY_TOKEN_STORE=broken(tmp_path))

    first, second = ended.err.splitlines()
    assert (ended.status, ended.out, tab.url) == (1, "", "")
    assert first.startswith("gateway: ")
    assert why in first
    assert second == "Is GATEWAY_TOKEN_STORE right, and can it be used from here?"
    assert CANARY not in ended.err


def test_trial_touches_nothing_of_value(settings: Settings) -> None:
    """Trying out a store leaves the token that it has, and nothing else."""
    keep()

    asyncio.run(try_out_store(find_settings({})))

    assert text_of(kept()) == CANARY
    assert list(record_path().parent.iterdir()) == [record_path()]


class Drawer(KeyringBackend):
    """A keyring in memory that remembers what was done to it."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.held: dict[str, str] = {}
        self.deleted: list[str] = []

    def get_password(self, service: str, username: str) -> str | None:
        return self.held.get(username)

    def set_password(self, service: str, username: str, password: str) -> None:
        self.held[username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.held[username]
        self.deleted.append(username)


def test_keyring_holds_the_token_and_nothing_else(
    call_gateway: Call, settings: Settings, tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial is over, and the token is where status finds it and logout takes it from."""
    drawer = Drawer()
    monkeypatch.setattr(keyring, "get_keyring", lambda: drawer)
    for name in ("get_password", "set_password", "delete_password"):
        monkeypatch.setattr(keyring, name, getattr(drawer, name))
    monkeypatch.setenv("GATEWAY_TOKEN_STORE", "keyring")

    ended = call_gateway("login")

    assert ended.status == 0
    assert "\nKept in    the keyring of this system\n" in ended.out
    assert [tab.token in text for text in drawer.held.values()] == [True]
    assert len(drawer.deleted) == 1
    assert call_gateway("status").status == 0
    assert call_gateway("logout").status == 0
    assert drawer.held == {}
