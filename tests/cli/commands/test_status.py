from collections.abc import Callable, Mapping

import pytest

from gateway_sdk.auth import Token
from gateway_sdk.cli.commands.login import describe_scope
from gateway_sdk.cli.config import read_profiles, save_profile
from tests.cli.ended import Ended
from tests.cli.logins import keep, record_path

Call = Callable[..., Ended]
RunInTerminal = Callable[..., tuple[int, str]]
Settings = Mapping[str, str]


def test_granted_scope_is_told(call_gateway: Call, settings: Settings) -> None:
    keep(scope="write read")

    assert "\nScope      read write\n" in call_gateway("status").out


@pytest.mark.parametrize(
    ("granted", "asked", "told"),
    [
        ("", "", None),
        ("read write", "", "read write"),
        ("read write", " write  read", "read write"),
        ("read", "read write delete", "read (not granted: delete write)"),
        ("", "read", "none (not granted: read)"),
        ("read more", "read", "more read"),
    ],
)
def test_narrower_scope_than_asked_is_told(granted: str, asked: str, told: str | None) -> None:
    """`login` knows what was asked for; `status` names what was granted."""
    assert dict(describe_scope(Token("x", scope=granted), asked)).get("Scope") == told


def test_broken_record_is_status_1(call_gateway: Call, settings: Settings) -> None:
    """A record that is none is told in two lines."""
    keep()
    record_path().write_text("{}", encoding="utf-8")

    ended = call_gateway("status")

    assert ended.status == 1
    assert ended.out.endswith(f"Kept in    {record_path()}\n")
    first, second = ended.err.splitlines()
    assert first.endswith(f"has no valid token for {settings['GATEWAY_BASE_URL']}: log in again")
    assert second.startswith("Is GATEWAY_TOKEN_STORE right")


def test_profiles_are_listed_and_forgotten(call_gateway: Call) -> None:
    """The one that counts is marked; its token is left where it is."""
    assert call_gateway("profiles").err.startswith("There are no profiles")
    save_profile("default", {"base_url": "https://a.test"})
    save_profile("other", {"base_url": "https://b.test", "tenant_id": "acme"})

    listed = call_gateway("profiles", "--profile", "other")
    forgotten = call_gateway("profiles", "--remove", "default")

    assert listed.out.splitlines()[1:] == [
        "default\t\thttps://a.test\t\t\t",
        "other\tyes\thttps://b.test\tacme\t\t",
    ]
    assert forgotten == (0, "", "The profile default is deleted.\n")
    assert list(read_profiles()) == ["other"]
