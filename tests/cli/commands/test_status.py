import re
from collections.abc import Callable, Mapping

import pytest

from gateway_sdk.auth import Token
from gateway_sdk.cli.commands.login import describe_scope
from gateway_sdk.cli.config import read_profiles, save_profile
from tests.cli.ended import Ended
from tests.cli.logins import CANARY, keep, record_path

Call = Callable[..., Ended]
RunInTerminal = Callable[..., tuple[int, str]]
Settings = Mapping[str, str]

MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


def facts_of(settings: Settings) -> str:
    """Give what is told of any token, as a regular expression."""
    return (
        f"Gateway    {settings['GATEWAY_BASE_URL']} \\(GATEWAY_BASE_URL\\)\n"
        f"Login at   {settings['GATEWAY_AUTH_URL']} \\(GATEWAY_AUTH_URL\\)\n"
        f"Client     {settings['GATEWAY_CLIENT_ID']} \\(GATEWAY_CLIENT_ID\\)\n"
        f"Kept in    {record_path()}\n"
    )


@pytest.mark.parametrize(
    ("life", "age", "since", "until"),
    [
        (7200.0, 900.0, "15 min ago", "in 105 min"),
        (864_000.0, 172_800.0, "2 days ago", "in 8 days"),
    ],
)
def test_usable_token_is_status_0(
    call_gateway: Call, settings: Settings, life: float, age: float, since: str, until: str
) -> None:
    """Everything is told but the token itself: since when it is there, and until when."""
    keep(life=life, age=age)

    ended = call_gateway("status")

    assert (ended.status, ended.err) == (0, "")
    assert re.fullmatch(
        f"{facts_of(settings)}Since      {MOMENT}, {since}\nUntil      {MOMENT}, {until}\n",
        ended.out,
    )
    assert CANARY not in ended.out


def test_token_without_an_end_is_usable(call_gateway: Call, settings: Settings) -> None:
    """If its end is not known, it is good until it is refused."""
    keep(life=None)

    ended = call_gateway("status")

    assert ended.status == 0
    assert "\nUntil      the gateway refuses it: the login did not say" in ended.out


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


def test_settings_are_told_although_others_are_missing(call_gateway: Call) -> None:
    """Errors send people here: what is set has to be seen above all when something is wrong."""
    ended = call_gateway("status", GATEWAY_BASE_URL="127.0.0.1:8080")

    assert (ended.status, ended.out) == (2, "Gateway    127.0.0.1:8080 (GATEWAY_BASE_URL)\n")
    assert "not set: GATEWAY_AUTH_URL, GATEWAY_CLIENT_ID\n" in ended.err


def test_no_token_is_status_1(call_gateway: Call, settings: Settings) -> None:
    """Where there is none, the next step is to log in."""
    ended = call_gateway("status")

    assert ended.status == 1
    assert re.fullmatch(facts_of(settings), ended.out)
    assert ended.err == "gateway: there is no access token\nGet one with `gateway login`.\n"


@pytest.mark.parametrize(("age", "until"), [(3720.0, "2 min ago"), (3585.0, r"in 1?\d s")])
def test_token_that_sessions_do_not_use_is_status_1(
    call_gateway: Call, settings: Settings, age: float, until: str
) -> None:
    """One that has expired, or will before a request arrives, is told with its end."""
    keep(age=age)

    ended = call_gateway("status")

    assert ended.status == 1
    assert re.search(f"\nUntil      {MOMENT}, {until}\n", ended.out)
    first, second = ended.err.splitlines()
    assert first == "gateway: the access token has expired, or is about to"
    assert second == "Get one with `gateway login`."


def test_broken_record_is_status_1(call_gateway: Call, settings: Settings) -> None:
    """A record that is none is told in two lines."""
    keep()
    record_path().write_text("{}", encoding="utf-8")

    ended = call_gateway("status")

    assert ended.status == 1
    assert re.fullmatch(facts_of(settings), ended.out)
    first, second = ended.err.splitlines()
    assert first.endswith(f"has no valid token for {settings['GATEWAY_BASE_URL']}: log in again")
    assert second.startswith("Is GATEWAY_TOKEN_STORE right")


@pytest.mark.parametrize("logged_in", [True, False])
def test_token_in_the_environment_is_told(
    call_gateway: Call, settings: Settings, logged_in: bool
) -> None:
    """It is the one that sessions use, whether a login left another one; it is never shown."""
    if logged_in:
        keep()

    ended = call_gateway("status", GATEWAY_ACCESS_TOKEN="another")

    assert (ended.status, ended.err) == (0, "")
    assert ended.out.endswith(
        "Token      7 characters, SHA-256 begins with ae448ac8 (GATEWAY_ACCESS_TOKEN)\n"
    )
    assert "another" not in ended.out


@pytest.mark.parametrize(
    "address",
    [
        "https://user:CANARY-PASSWORD@gateway.test",
        "https://user:CANARY/PASSWORD@gateway.test",
        "user:CANARY-PASSWORD@gateway.test",
    ],
)
@pytest.mark.parametrize("name", ["GATEWAY_BASE_URL", "GATEWAY_AUTH_URL"])
@pytest.mark.parametrize("command", ["status", "countries"])
def test_password_in_an_address_is_not_shown(
    call_gateway: Call, name: str, command: str, address: str
) -> None:
    """No address may have one, and it is shown neither as a setting nor in an advice."""
    others = {"GATEWAY_BASE_URL": "http://127.0.0.1:1", "GATEWAY_ACCESS_TOKEN": "another"}

    ended = call_gateway(command, **{**others, name: address})

    assert "CANARY" not in ended.out + ended.err
    assert command != "status" or "…@gateway.test" in ended.out


def test_address_with_an_at_sign_in_its_path_is_shown(call_gateway: Call) -> None:
    """It is no password."""
    address = "https://gateway.test/a@b"

    ended = call_gateway("status", GATEWAY_BASE_URL=address, GATEWAY_ACCESS_TOKEN="another")

    assert address in ended.out


def test_token_of_the_environment_needs_no_login_settings(call_gateway: Call) -> None:
    """Only what is set is shown."""
    ended = call_gateway(
        "status", GATEWAY_BASE_URL="https://gateway.test", GATEWAY_ACCESS_TOKEN="another"
    )

    assert ended.status == 0
    assert "Login at" not in ended.out


def test_status_in_a_terminal_has_bold_names(
    run_in_terminal: RunInTerminal, settings: Settings
) -> None:
    """Names stand out in a terminal, and the exit status is the same there."""
    keep()

    status, shown = run_in_terminal("status")

    assert status == 0
    for name in ("Gateway", "Login at", "Client", "Kept in", "Since", "Until"):
        assert f"\x1b[1m{name:<11}\x1b[0m" in shown
    assert CANARY not in shown


def test_profiles_are_listed_and_forgotten(call_gateway: Call) -> None:
    """The one that counts is marked; its token is left where it is."""
    assert call_gateway("profiles").err.startswith("There are no profiles")
    save_profile("default", {"base_url": "https://a.test"})
    save_profile("other", {"base_url": "https://b.test", "tenant_id": "acme"})

    listed = call_gateway("profiles", "--profile", "other")
    forgotten = call_gateway("profiles", "--remove", "default")

    assert listed.out.splitlines()[1:] == [
        "default\t\thttps://a.test\t\t\t",
        "other\tyes\thttps://b.test\t\t\tacme",
    ]
    assert forgotten == (0, "", "The profile default is deleted.\n")
    assert list(read_profiles()) == ["other"]


def test_profile_that_there_is_not_is_told(call_gateway: Call) -> None:
    """The way out is to list those there are."""
    ended = call_gateway("status", "--profile", "nonsense")

    assert ended.status == 2
    assert ended.err.splitlines()[0] == "gateway: there is no profile 'nonsense'"
