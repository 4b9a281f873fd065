"""What a token is made of, what shows it, and until when it is used."""

import copy
import dataclasses
import json
import math
import pickle
import pprint
import time
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr, TypeAdapter, ValidationError

from gateway_sdk import Advice, GatewaySession, Outcome
from gateway_sdk.auth import MemoryStore, RedisStore, SharedTokenSource, Token
from gateway_sdk.auth.token import text_of
from gateway_sdk.errors import ConfigurationError
from tests.auth.responses import CALLBACK, FLOW, NOW, told
from tests.support.calls import CALLS
from tests.support.logins import KEY
from tests.support.scripted import scripted
from tests.support.secrecy import CANARY

FULL = Token(CANARY, expires_at=NOW + 60, obtained_at=NOW, scope="read write")
LAST = 253402300799  # of the year 9999


@pytest.mark.parametrize("text", ["x", "-", "a.b_c~d+e/f", "QUJD=", "QUJD==", "0" * 20_000])
def test_a_bearer_token_is_taken(text: str) -> None:
    """RFC 6750, 2.1: plain or as a SecretStr, it is kept unchanged, and so is its text."""
    for given_as in (text, SecretStr(text), Token(text)):
        assert text_of(given_as) == text
    assert Token(SecretStr(text), obtained_at=1) == Token(text, obtained_at=1)
    assert isinstance(Token(text).value, SecretStr)


BAD_VALUES: dict[str, list[Any]] = {
    "is empty": [""],
    "strip": [f"{CANARY}\n", f"{CANARY}\r\n", f" {CANARY}", f"\t{CANARY}\x1f"],
    "has characters": [
        *(" ", "\n", "=", f"={CANARY}", f"{CANARY}=x", f"{CANARY} {CANARY}", f'"{CANARY}"'),
        *(f"{CANARY}{more}" for more in ("\nX-Evil: 1", "\0", "\x7f", "\xe4", "\u0661", "\ud800")),
    ],
    "begins with the word Bearer": [f"Bearer {CANARY}"],
    "must be a string or a SecretStr": [None, 7, CANARY.encode(), [CANARY], {CANARY: 1}, FULL],
}


@pytest.mark.parametrize("problem", BAD_VALUES)
def test_an_invalid_value_is_refused_and_not_shown(problem: str) -> None:
    for value in BAD_VALUES[problem]:
        for form in (value, SecretStr(value)) if isinstance(value, str) else (value,):
            with pytest.raises(ConfigurationError, match=f"^the access token .*{problem}") as at:
                Token(form)
            assert CANARY not in told(at.value)


class Settings(BaseModel):
    token: Token


def test_a_model_of_the_user_takes_what_a_token_is_made_of() -> None:
    """And gives it again; what is left out has the defaults of a token."""
    given = {
        "value": CANARY,
        "expires_at": NOW + 60,
        "obtained_at": NOW,
        "scope": ["read", "write"],
    }
    assert Settings.model_validate({"token": given}).token == FULL
    assert Settings.model_validate_json(json.dumps({"token": given})).token == FULL
    assert Settings(token=FULL).token is FULL
    for text in (CANARY, SecretStr(CANARY), {"value": CANARY}):
        assert text_of(TypeAdapter(Token).validate_python(text)) == CANARY
    kept = Settings(token=FULL)
    assert Settings(**kept.model_dump()) == kept
    assert CANARY not in kept.model_dump_json() + repr(kept)


BAD_FIELDS: list[Any] = [
    *({}, {"expires_at": 1}, {"value": CANARY, "more": 1}, {7: CANARY}, {"value": None}),
    *({"value": CANARY, "expires_at": moment} for moment in (math.nan, -5, "1")),
    {"value": CANARY, "scope": [f'"{CANARY}']},
]


@pytest.mark.parametrize("whole", [True, False])
def test_a_model_of_the_user_checks_a_token_and_does_not_show_it(whole: bool) -> None:
    """Pydantic sets the attributes of dataclasses without their `__init__`."""
    bad = [value for values in BAD_VALUES.values() for value in values if value is not FULL]
    for value in [*bad, *(BAD_FIELDS if whole else ())]:
        given = value if whole else {"value": value, "expires_at": None, "obtained_at": 1}
        with pytest.raises(ValidationError) as caught:
            Settings.model_validate({"token": given})
        assert CANARY not in told(caught.value) + repr(caught.value.errors())


@dataclasses.dataclass(frozen=True, repr=False)
class Unchecked(Token):
    """Made by an `__init__` of its own."""

    refresh_token: str = ""


@pytest.mark.parametrize("value", ["", "a b", f"{CANARY}\n", f"{CANARY}\xe4"])
@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_token_that_was_not_checked_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, value: str, is_kept: bool
) -> None:
    """From wherever it comes: nothing was sent, and the program is to be corrected."""
    token = Unchecked(SecretStr(value), None, 1.0, frozenset())

    class Source:
        async def token(self, rejected: object = None) -> Token:
            return token

    async def function() -> Token:
        return token

    store = MemoryStore()
    await store.save(token)
    with pytest.raises(ConfigurationError):
        GatewaySession("https://gateway.test", access_token=token)
    shared = [SharedTokenSource(store), SharedTokenSource(MemoryStore(), acquire=function)]
    for source in shared if is_kept else (Source(), function):
        gateway, engine, _ = scripted(monkeypatch, access_token=source)
        for _ in range(2):
            with pytest.raises(ConfigurationError, match=r"access.token") as caught:
                await CALLS["create_customer"](gateway)
            outcome = caught.value.outcome, caught.value.advice, engine.requests
            assert outcome == (Outcome.NOT_SENT, Advice.FIX, [])
            assert CANARY not in told(caught.value)


BAD_MOMENTS: list[Any] = [
    *(math.nan, math.inf, -math.inf, -1, -1e-9, 1e300, LAST + 0.5, 10**400),
    *(True, False, "5", b"5", 1j, [5]),
]


@pytest.mark.parametrize("name", ["expires_at", "obtained_at"])
def test_a_moment_is_seconds_since_1970(name: str) -> None:
    """Up to the last second that `datetime` can represent; it is kept as a float."""
    for wrong in BAD_MOMENTS:
        with pytest.raises(ConfigurationError, match=f"^{name} must be"):
            Token(CANARY, **{name: wrong})
    for moment in (0, 0.0, 1, 1.5, LAST):
        given: Any = {name: moment}
        kept = getattr(Token(CANARY, **given), name)
        assert (kept, type(kept)) == (moment, float)


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        ("", ""),
        ("  ", ""),
        (" ab  b ab ", ["ab", "b"]),
        ({"https://as.test/!#[]~": None}, ["https://as.test/!#[]~"]),
        ((name for name in "ab"), "ab"),
    ],
)
def test_a_scope_is_a_set_of_names(scope: Any, names: Any) -> None:
    assert Token(CANARY, scope=scope).scope == frozenset(names)


BAD_SCOPES: list[Any] = [
    *(None, 7, b"read", ["read", 7], ["read", None], ["read", ["write"]], ["read write"]),
    *(["read\n"], "read\twrite", "read\n", 'say"so', "back\\slash", "\xe4", "\x7f"),
]


@pytest.mark.parametrize("scope", BAD_SCOPES, ids=repr)
def test_an_invalid_scope_is_refused(scope: Any) -> None:
    """RFC 6749, 3.3."""
    with pytest.raises(ConfigurationError, match=r"^scope "):
        Token(CANARY, scope=scope)


def test_the_defaults_of_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW)
    token = Token(CANARY)
    assert (token.obtained_at, token.expires_at, token.scope) == (NOW, None, frozenset())


def test_no_text_of_a_token_shows_it() -> None:
    as_dict = dataclasses.asdict(FULL)
    shown = [repr(FULL), f"{FULL}", pprint.pformat(FULL), repr([FULL]), repr(as_dict)]
    shown.append(repr(Unchecked(FULL.value, None, NOW, FULL.scope, refresh_token=CANARY)))
    for text in (*shown, json.dumps(as_dict, default=repr)):
        assert CANARY not in text
        assert "**" in text


def test_each_attribute_counts_for_equality() -> None:
    same = Token(SecretStr(CANARY), expires_at=NOW + 60, obtained_at=NOW, scope=["write", "read"])
    assert (same, hash(same)) == (FULL, hash(FULL))
    assert same != dataclasses.replace(FULL, expires_at=None) != FULL


@pytest.mark.parametrize(
    "held",
    [
        *(FLOW.start(CALLBACK), MemoryStore(KEY), SharedTokenSource(MemoryStore(KEY))),
        RedisStore("redis://", KEY),
    ],
    ids=type,
)
@pytest.mark.parametrize("save", [pickle.dumps, copy.copy, copy.deepcopy])
def test_what_may_hold_a_secret_is_neither_pickled_nor_copied(
    held: object, save: Callable[[object], object]
) -> None:
    with pytest.raises(TypeError, match=rf"{type(held).__name__} .*cannot be pickled"):
        save(held)


def test_a_token_is_its_own_copy() -> None:
    """It never changes, and a model with one is copied too; none is pickled."""
    assert copy.copy(FULL) is copy.deepcopy(FULL) is FULL
    assert Settings(token=FULL).model_copy(deep=True).token is FULL
    with pytest.raises(TypeError, match=r"Token .*cannot be pickled"):
        pickle.dumps(FULL)


def test_a_token_never_changes() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        FULL.expires_at = None  # type: ignore[misc]
    with pytest.raises(ConfigurationError):
        dataclasses.replace(FULL, value=SecretStr(f"{CANARY}\n"))


@pytest.mark.parametrize(
    ("obtained", "life", "leeway", "usable"),
    [
        (NOW, 3600, 30, 3570),
        (NOW, 3600, 0, 3600),
        (NOW, 3600, 361, 3240),
        (NOW, 60, 30, 54),
        (NOW, 10, 1e9, 9),
        (NOW, 0, 30, 0),
        (NOW + 10, 5, 30, 5),  # ended before it was obtained: a wrong clock is no lifetime
    ],
)
def test_a_token_expires_its_leeway_early_to_the_instant(
    obtained: float, life: float, leeway: float, usable: float
) -> None:
    """Until then it is sent, also by a clock that was set back before its time of issue."""
    assert not Token("x").expired(1e12, leeway)  # its end is not known
    token = Token("x", expires_at=NOW + life, obtained_at=obtained)
    assert token.expired(NOW + usable, leeway)
    for moment in (math.nextafter(NOW + usable, 0), NOW - 3600, 0):
        assert not token.expired(moment, leeway)
    if leeway == 30:
        assert token.expired(NOW + usable)
        assert not token.expired(math.nextafter(NOW + usable, 0))


@pytest.mark.posix
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_the_end_reads_the_same_everywhere(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    """In UTC, in any time zone of the machine; an unknown end is empty."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    ends = [Token("x", expires_at=moment).ends for moment in (None, 0, NOW + 0.9, LAST)]
    monkeypatch.undo()
    time.tzset()
    assert ends == [
        *("", "1970-01-01 00:00:00 UTC", "2027-01-15 08:00:00 UTC", "9999-12-31 23:59:59 UTC")
    ]
