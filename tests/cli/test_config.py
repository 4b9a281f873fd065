import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway_sdk.cli.process import CommandError
from gateway_sdk.cli.session import (
    find_settings,
    profiles_path,
    read_profiles,
    save_profile,
    write_profiles,
)
from tests.cli.support import Call

GIVEN = ("https://gateway.test/api", "https://login.test/authorize", "client-1")
VARIABLES = ("GATEWAY_BASE_URL", "GATEWAY_AUTH_URL", "GATEWAY_CLIENT_ID")


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    found = dict(zip(VARIABLES, GIVEN, strict=True))
    for name, text in found.items():
        monkeypatch.setenv(name, text)
    return found


@pytest.mark.usefixtures("complete")
def test_settings_that_workers_lack_are_told_in_a_shells_spelling() -> None:
    given = {"base_url": "https://other.test", "auth_url": "", "client_id": "it's me"}

    assert find_settings(given).exports() == [
        "GATEWAY_BASE_URL=https://other.test",
        """GATEWAY_CLIENT_ID='it'"'"'s me'""",
    ]


@pytest.mark.usefixtures("complete")
@pytest.mark.parametrize(
    ("setting", "place"),
    [
        ("keyring", "keyring"),
        ("redis://:canary@localhost:6380/1", "redis://localhost:6380/1"),
        ("rediss://user:canary@redis.test?password=canary", "rediss://redis.test"),
        ("unix://user:canary@/run/redis.sock", "unix:///run/redis.sock"),
    ],
)
def test_place_is_told_without_a_password(
    monkeypatch: pytest.MonkeyPatch, setting: str, place: str
) -> None:
    monkeypatch.setenv("GATEWAY_TOKEN_STORE", setting)

    settings = find_settings({})

    assert settings.place() == place
    assert "canary" not in repr(settings)


@pytest.mark.usefixtures("complete")
@pytest.mark.parametrize(
    ("module", "setting"), [("keyring", "keyring"), ("redis", "redis://localhost")]
)
@pytest.mark.parametrize("command", ["login", "status", "logout", "countries"])
def test_missing_extra_of_a_store_is_named(
    monkeypatch: pytest.MonkeyPatch, call_gateway: Call, module: str, setting: str, command: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)

    status, out, err = call_gateway(command, GATEWAY_TOKEN_STORE=setting)

    assert status == 2
    assert err.endswith(f" needs the extra [{module}]: pip install 'gateway-sdk[{module}]'\n")
    assert bool(out) == (command == "status")  # which shows the settings before


@pytest.mark.parametrize(
    ("base_url", "kept"),
    [
        ("https://gateway.test/other-path", True),
        ("https://other.test", False),
        ("http://gateway.test", False),
        ("https://gateway.test:8443", False),
    ],
)
@pytest.mark.parametrize("by_profile", [True, False])
def test_token_of_the_environment_goes_to_no_other_gateway(
    monkeypatch: pytest.MonkeyPatch, base_url: str, kept: bool, by_profile: bool
) -> None:
    """Token, header and tenant are left out where an option or --profile names another one."""
    monkeypatch.setenv("GATEWAY_BASE_URL", GIVEN[0])
    for name in ("GATEWAY_ACCESS_TOKEN", "GATEWAY_TOKEN_HEADER", "GATEWAY_TENANT_ID"):
        monkeypatch.setenv(name, "canary")
    save_profile("named", {"base_url": base_url})

    found = find_settings({}, "named") if by_profile else find_settings({"base_url": base_url})

    assert ("canary" in found.values.values()) == kept


@pytest.mark.posix
def test_profiles_are_private_and_hold_no_token() -> None:
    held = {"base_url": GIVEN[0], "auth_url": GIVEN[1], "client_id": "kept"}
    save_profile("default", {**held, "access_token": "canary", "token_store": "redis://:canary@"})

    assert profiles_path().stat().st_mode & 0o777 == 0o600
    assert "canary" not in profiles_path().read_text(encoding="utf-8")
    assert read_profiles() == {"default": held}


@pytest.mark.posix
@pytest.mark.parametrize("taken", ["config", "config/gateway-sdk/profiles.json/folder"])
def test_profiles_that_cannot_be_written_are_told(tmp_path: Path, taken: str) -> None:
    """A file in the place of the folder for settings, or a folder in theirs, is no traceback."""
    (tmp_path / taken).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / taken).write_text("")

    with pytest.raises(CommandError, match="cannot write"):
        write_profiles({})
