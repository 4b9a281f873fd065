"""How a token is made: accepted and refused values, and its repr."""

import copy
import dataclasses
import json
import pickle
import pprint
import time
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from gateway_sdk.auth import Token
from gateway_sdk.auth.token import text_of
from gateway_sdk.errors import ConfigurationError
from tests.auth.responses import CANARY, NOW, clear, told

FULL = Token(CANARY, expires_at=NOW + 60, obtained_at=NOW, scope="read write")
SHOWS: dict[str, Callable[[Token], str]] = {
    "repr": repr,
    "str": str,
    "format": "{}".format,
    "pprint": pprint.pformat,
    "list": lambda token: repr([token]),
    "asdict": lambda token: repr(dataclasses.asdict(token)),
    "astuple": lambda token: repr(dataclasses.astuple(token)),
    "json": lambda token: json.dumps(dataclasses.asdict(token), default=repr),
}


@pytest.mark.parametrize("text", ["x", "-", "a.b_c~d+e/f", "QUJD=", "QUJD==", "0" * 20_000])
@pytest.mark.parametrize("wrap", [str, SecretStr])
def test_a_bearer_token_is_taken(text: str, wrap: Callable[[str], str | SecretStr]) -> None:
    """Every text that RFC 6750 allows is accepted, plain or as a SecretStr, and unchanged."""
    token = Token(wrap(text))

    assert clear(token) == text
    assert isinstance(token.value, SecretStr)


@pytest.mark.parametrize("wrap", [str, SecretStr])
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        (f"{CANARY}\n", "strip"),
        (f"{CANARY}\r\n", "strip"),
        (f" {CANARY}", "strip"),
        (f"\t{CANARY}\x1f", "strip"),
        (" ", "has characters"),
        ("\n", "has characters"),
        (f"{CANARY} {CANARY}", "has characters"),
        (f"{CANARY}\nX-Evil: 1", "has characters"),
        (f"{CANARY}\x00", "has characters"),
        (f"{CANARY}\x7f", "has characters"),
        (f"{CANARY}\xe4", "has characters"),
        (f"{CANARY}\u0661", "has characters"),
        (f"{CANARY}\ud800", "has characters"),
        ("=", "has characters"),
        (f"={CANARY}", "has characters"),
        (f"{CANARY}=x", "has characters"),
        (f"Bearer {CANARY}", "begins with the word Bearer"),
        (f'"{CANARY}"', "has characters"),
        (f"{CANARY},", "has characters"),
    ],
)
def test_an_invalid_header_value_is_refused(
    text: str, problem: str, wrap: Callable[[str], str | SecretStr]
) -> None:
    """A text that is not a bearer token is refused from any source, and not shown."""
    given = wrap(text)

    with pytest.raises(ConfigurationError, match=f"^the access token .*{problem}") as caught:
        Token(given)

    assert CANARY not in told(caught.value)


@pytest.mark.parametrize("value", [None, 7, CANARY.encode(), [CANARY], {CANARY: 1}, FULL])
def test_a_value_of_another_type_is_refused(value: Any) -> None:
    """Only a string and a SecretStr can be a token."""
    with pytest.raises(ConfigurationError, match="must be a string or a SecretStr") as caught:
        Token(value)

    assert CANARY not in told(caught.value)


@pytest.mark.parametrize("name", ["expires_at", "obtained_at"])
@pytest.mark.parametrize(
    "moment",
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        -1,
        -1e-9,
        1e300,
        253402300799.5,
        True,
        False,
        "5",
        b"5",
        1j,
        [5],
        pytest.param(10**400, id="huge"),
    ],
)
def test_an_invalid_moment_is_refused(name: str, moment: Any) -> None:
    """A moment is a number of seconds since 1970, up to the last date that Python can show."""
    with pytest.raises(ConfigurationError, match=f"^{name} must be"):
        Token(CANARY, **{name: moment})


@pytest.mark.parametrize("moment", [0, 0.0, 1, 1.5, 253402300799])
def test_a_moment_is_kept_as_a_float(moment: float) -> None:
    """Whole and fractional seconds up to the end of the year 9999 are accepted."""
    token = Token(CANARY, expires_at=moment, obtained_at=moment)

    assert (token.expires_at, token.obtained_at) == (moment, moment)
    assert type(token.expires_at) is type(token.obtained_at) is float


def test_the_defaults_of_a_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The defaults are the present time, an unknown end, and no scope."""
    monkeypatch.setattr(time, "time", lambda: NOW)

    token = Token(CANARY)

    assert (token.obtained_at, token.expires_at, token.scope) == (NOW, None, frozenset())


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        ("", set()),
        ("  ", set()),
        ("read", {"read"}),
        (" read  write read ", {"read", "write"}),
        (["read", "", "write"], {"read", "write"}),
        (("read", "read"), {"read"}),
        ({"https://as.test/!#[]~": None}, {"https://as.test/!#[]~"}),
        ((name for name in "ab"), {"a", "b"}),
    ],
)
def test_a_scope_is_a_set_of_names(scope: Any, names: set[str]) -> None:
    """Names may be given one by one or as one text; order and repetition do not count."""
    assert Token(CANARY, scope=scope).scope == frozenset(names)


@pytest.mark.parametrize(
    "scope",
    [
        None,
        7,
        b"read",
        ["read", 7],
        ["read", None],
        ["read", ["write"]],
        ["read write"],
        ["read\n"],
        "read\twrite",
        "read\n",
        'say"so',
        "back\\slash",
        "\xe4",
        "\x7f",
    ],
    ids=repr,
)
def test_an_invalid_scope_is_refused(scope: Any) -> None:
    """A scope that RFC 6749 does not allow is refused."""
    with pytest.raises(ConfigurationError, match=r"^scope "):
        Token(CANARY, scope=scope)


@pytest.mark.parametrize("show", SHOWS.values(), ids=SHOWS)
@pytest.mark.parametrize("token", [FULL, Token(CANARY), Token(SecretStr(CANARY))])
def test_no_text_of_a_token_shows_it(token: Token, show: Callable[[Token], str]) -> None:
    """In every text of a token, its value is masked."""
    shown = show(token)

    assert CANARY not in shown
    assert "**" in shown


@pytest.mark.parametrize(
    "other",
    [
        Token(CANARY + "x", expires_at=NOW + 60, obtained_at=NOW, scope="read write"),
        Token(CANARY, expires_at=NOW + 61, obtained_at=NOW, scope="read write"),
        Token(CANARY, expires_at=None, obtained_at=NOW, scope="read write"),
        Token(CANARY, expires_at=NOW + 60, obtained_at=NOW + 1, scope="read write"),
        Token(CANARY, expires_at=NOW + 60, obtained_at=NOW, scope="read"),
        CANARY,
        SecretStr(CANARY),
        None,
    ],
)
def test_tokens_that_differ_in_anything_are_not_equal(other: object) -> None:
    """Each of the four attributes counts, and only a token equals a token."""
    assert other != FULL


def test_tokens_made_of_the_same_are_equal() -> None:
    """Equal tokens have the same hash, in whichever form the arguments were given."""
    same = Token(
        SecretStr(CANARY), expires_at=int(NOW) + 60, obtained_at=int(NOW), scope=["write", "read"]
    )

    assert same == FULL
    assert hash(same) == hash(FULL)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("around", [lambda token: token, lambda token: {"deep": [token]}])
def test_a_token_is_never_pickled(protocol: int, around: Callable[[Token], object]) -> None:
    """A token is not pickled, alone or within another object."""
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(around(FULL), protocol)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_token_is_not_copied_either(duplicate: Callable[[Token], Token]) -> None:
    """Copying uses pickling; a token never changes, so no copy is needed."""
    with pytest.raises(TypeError, match="a Token may hold a secret"):
        duplicate(FULL)


@pytest.mark.parametrize("name", ["value", "expires_at", "obtained_at", "scope"])
def test_a_token_never_changes(name: str) -> None:
    """No attribute can be set or deleted."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(FULL, name, "x")
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(FULL, name)


def test_a_replaced_token_is_checked_anew() -> None:
    """`replace` checks the new token too."""
    assert dataclasses.replace(FULL, obtained_at=1).obtained_at == 1
    with pytest.raises(ConfigurationError):
        dataclasses.replace(FULL, value=SecretStr(f"{CANARY}\n"))


@pytest.mark.parametrize("given", [CANARY, SecretStr(CANARY), FULL])
def test_the_text_of_a_token_is_the_same_for_every_kind(given: str | SecretStr | Token) -> None:
    """In whichever form a token was given, the header gets its text."""
    assert text_of(given) == CANARY
