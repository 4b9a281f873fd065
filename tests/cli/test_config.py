import sys
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import pytest

from gateway_sdk.cli import main
from gateway_sdk.cli.config import find_settings
from gateway_sdk.cli.failure import CommandError

GIVEN = ("https://gateway.test/api", "https://login.test/authorize", "client-1")
VARIABLES = ("GATEWAY_BASE_URL", "GATEWAY_AUTH_URL", "GATEWAY_CLIENT_ID")
OPTIONS = ("--base-url", "--auth-url", "--client-id")


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """Put all settings into the environment."""
    found = dict(zip(VARIABLES, GIVEN, strict=True))
    for name, text in found.items():
        monkeypatch.setenv(name, text)
    return found


@pytest.mark.usefixtures("complete")
@pytest.mark.parametrize(
    "missing", [which for count in (1, 2, 3) for which in combinations(range(3), count)]
)
@pytest.mark.parametrize("empty", [True, False])
def test_every_missing_setting_is_named(
    monkeypatch: pytest.MonkeyPatch, missing: tuple[int, ...], empty: bool
) -> None:
    """Each one that is not set, or is empty, is named with the option for it; no other is."""
    for place in missing:
        if empty:
            monkeypatch.setenv(VARIABLES[place], "")
        else:
            monkeypatch.delenv(VARIABLES[place])

    with pytest.raises(CommandError) as caught:
        find_settings({}).store()

    first, second = str(caught.value).splitlines()
    for place in range(3):
        assert (VARIABLES[place] in first) == (place in missing)
        assert (OPTIONS[place] in second) == (place in missing)
    assert caught.value.status == 2


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ((), "GATEWAY_CLIENT_ID is not set\nSet it in the environment, or give --client-id."),
        (
            ("GATEWAY_AUTH_URL",),
            (
                "GATEWAY_AUTH_URL and GATEWAY_CLIENT_ID are not set\n"
                "Set them in the environment, or give --auth-url and --client-id."
            ),
        ),
    ],
)
def test_names_of_missing_settings_read_as_a_sentence(
    complete: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
    missing: tuple[str, ...],
    words: str,
) -> None:
    """One is one, and several are several."""
    for name in ("GATEWAY_CLIENT_ID", *missing):
        monkeypatch.delenv(name)

    with pytest.raises(CommandError) as caught:
        find_settings({}).store()

    assert str(caught.value) == words


@pytest.mark.usefixtures("complete")
def test_environment_suffices() -> None:
    """What workers read is what logins read, and nothing is left to be exported."""
    settings = find_settings({})

    assert tuple(map(settings.get, ("base_url", "auth_url", "client_id"))) == GIVEN
    assert settings.exports() == []
    assert settings.source("base_url") == "GATEWAY_BASE_URL"


@pytest.mark.usefixtures("complete")
def test_options_go_before_the_environment() -> None:
    """An option is taken, and told as a setting that workers need, in a shell's own spelling."""
    settings = find_settings({"base_url": "https://other.test", "client_id": "it's me"})

    assert settings.get("base_url") == "https://other.test"
    assert settings.get("auth_url") == GIVEN[1]
    assert settings.exports() == [
        "GATEWAY_BASE_URL=https://other.test",
        """GATEWAY_CLIENT_ID='it'"'"'s me'""",
    ]


@pytest.mark.usefixtures("complete")
def test_option_that_says_what_the_environment_says_is_no_news() -> None:
    """An empty option counts as none, and one that repeats a variable needs no export."""
    given = {"base_url": GIVEN[0], "auth_url": "", "client_id": GIVEN[2]}

    assert find_settings(given).exports() == []


@pytest.mark.usefixtures("complete")
@pytest.mark.parametrize(
    ("setting", "place"),
    [
        ("keyring", "the keyring of this system"),
        ("redis://:canary@localhost:6380/1", "Redis at localhost:6380"),
        ("rediss://user:canary@redis.test", "Redis at redis.test"),
        ("unix://user:canary@/run/redis.sock", "Redis at /run/redis.sock"),
        ("redis://", "Redis at localhost"),
    ],
)
def test_place_is_told_without_a_password(
    monkeypatch: pytest.MonkeyPatch, setting: str, place: str
) -> None:
    """Where a token is kept is told in words, of an address only what is no secret."""
    monkeypatch.setenv("GATEWAY_TOKEN_STORE", setting)

    settings = find_settings({})

    assert settings.place() == place
    assert "canary" not in repr(settings)


@pytest.mark.usefixtures("complete")
def test_place_of_a_file_is_its_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The file is the one of the store, in the user's folder or in one that is set."""
    usual = Path(find_settings({}).place())
    monkeypatch.setenv("GATEWAY_TOKEN_STORE", f"file:{tmp_path}/tokens")
    chosen = Path(find_settings({}).place())

    assert usual.parent == tmp_path / "state" / "gateway-sdk" / "tokens"
    assert chosen == tmp_path / "tokens" / usual.name


@pytest.mark.usefixtures("complete")
@pytest.mark.parametrize(
    ("module", "setting"), [("keyring", "keyring"), ("redis", "redis://localhost")]
)
@pytest.mark.parametrize("command", ["login", "status", "logout"])
def test_missing_extra_of_a_store_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    module: str,
    setting: str,
    command: str,
) -> None:
    """Without the extra of its store a command says in one line how to get it."""
    monkeypatch.setenv("GATEWAY_TOKEN_STORE", setting)
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(sys, "argv", ["gateway", command])

    with pytest.raises(SystemExit) as caught:
        main()

    assert caught.value.code == 2
    assert capsys.readouterr() == (
        "",
        f"gateway: this needs the extra [{module}]: pip install 'gateway-sdk[{module}]'\n",
    )
