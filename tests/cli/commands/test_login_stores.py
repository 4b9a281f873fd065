import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping
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


@pytest.fixture
def no_redis() -> str:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return f"redis://:{CANARY}@127.0.0.1:{closed.getsockname()[1]}"


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
    assert record_path().stat().st_mode & 0o777 == 0o600
    assert list(record_path().parent.iterdir()) == [record_path()]


@pytest.fixture
def block_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Put a file where the folder of the store should be."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("GATEWAY_TOKEN_STORE", f"file:{tmp_path}/file/tokens")


@pytest.fixture
def open_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let everybody write into the folder of the store."""
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("GATEWAY_TOKEN_STORE", f"file:{tmp_path}/open")


@pytest.fixture
def stop_redis(monkeypatch: pytest.MonkeyPatch, no_redis: str) -> None:
    monkeypatch.setenv("GATEWAY_TOKEN_STORE", no_redis)


@pytest.fixture
def lack_keyring(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the store be the keyring of a machine without any."""
    monkeypatch.setenv("GATEWAY_TOKEN_STORE", "keyring")
    before = keyring.get_keyring()
    keyring.set_keyring(fail.Keyring())  # type: ignore[no-untyped-call]
    yield
    keyring.set_keyring(before)


TROUBLES = {
    "block_folder": "cannot be written: Not a directory",
    "open_folder": "can be written by others",
    "stop_redis": "cannot be used: Connection",
    "lack_keyring": "the keyring cannot be used here: NoKeyringError",
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_store_that_cannot_be_used_costs_nobody_a_login(
    call_gateway: Call,
    settings: Settings,
    tab: Tab,
    request: pytest.FixtureRequest,
    trouble: str,
) -> None:
    """It is said before anybody is asked to log in, without the password in its address."""
    request.getfixturevalue(trouble)

    ended = call_gateway("login")

    first, second = ended.err.splitlines()
    assert (ended.status, ended.out, tab.url) == (1, "", "")
    assert first.startswith("gateway: ")
    assert TROUBLES[trouble] in first
    assert second == "Is GATEWAY_TOKEN_STORE right, and can it be used from here?"
    assert CANARY not in ended.err


@pytest.mark.parametrize("command", ["status", "logout"])
def test_store_that_cannot_be_reached_is_said(
    call_gateway: Call, settings: Settings, stop_redis: None, command: str
) -> None:
    """Without its store a command fails in two lines, and shows where that should be."""
    ended = call_gateway(command)

    assert ended.status == 1
    assert "\nKept in    Redis at 127.0.0.1:" in ended.out
    first, second = ended.err.splitlines()
    assert first.startswith("gateway: Redis at 127.0.0.1:")
    assert second == "Is GATEWAY_TOKEN_STORE right, and can it be used from here?"
    assert CANARY not in ended.out + ended.err


def test_store_that_is_none_is_said(call_gateway: Call, settings: Settings) -> None:
    """A setting that names no store is status 2, and is not shown."""
    ended = call_gateway("login", GATEWAY_TOKEN_STORE=f"postgres://{CANARY}")

    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith("gateway: GATEWAY_TOKEN_STORE must be file, ")
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
