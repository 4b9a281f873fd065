"""An access token as it is held: checked when it is made, whatever it comes from."""

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NoReturn, TypeAlias

from pydantic import SecretStr

from gateway_sdk._repr import safe_repr
from gateway_sdk.errors import ConfigurationError

DEFAULT_LEEWAY: Final = 30.0
"""Seconds before its end from which a token is not sent: a request takes a while to arrive."""

_LEEWAY_SHARE: Final = 0.1
"""Of the token's life at the most, so that one that lasts a minute is not born expired."""

# RFC 6750, 2.1. Nothing else may stand in the header, above all no newline.
_B64TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
# RFC 6749, 3.3.
_SCOPE_TOKEN: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


@dataclass(frozen=True, slots=True, init=False)
class Token:
    """An access token that may stand in a header, and what is known of its life.

    It is equal to another by all four attributes, and it is never pickled.

    Attributes:
        value: The token itself.
        expires_at: Seconds since 1970; None if the authorization server did not say.
        obtained_at: Seconds since 1970.
        scope: What it was granted for; empty where there are no scopes (RFC 6749, 3.3).
    """

    value: SecretStr
    expires_at: float | None
    obtained_at: float
    scope: frozenset[str]

    def __init__(
        self,
        value: str | SecretStr,
        *,
        expires_at: float | None = None,
        obtained_at: float | None = None,
        scope: str | Iterable[str] = (),
    ) -> None:
        """Check everything.

        Args:
            value: The token in clear, or as a `SecretStr`.
            expires_at: Seconds since 1970, or None if it is not known: then the token is used
                until it is refused.
            obtained_at: Seconds since 1970; now, if it is left out.
            scope: Names, or one text with spaces between them.

        Raises:
            ConfigurationError: the value is no bearer token, or one of the others is wrong. The
                message does not show it.
        """
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        problem = problem_of(text)
        if problem:
            raise ConfigurationError(f"the access token {problem}")
        names = scope_names(scope)
        began = time.time() if obtained_at is None else _moment("obtained_at", obtained_at)
        ends = None if expires_at is None else _moment("expires_at", expires_at)
        object.__setattr__(self, "value", SecretStr(text))
        object.__setattr__(self, "expires_at", ends)
        object.__setattr__(self, "obtained_at", began)
        object.__setattr__(self, "scope", names)

    def expired(self, now: float, leeway: float = DEFAULT_LEEWAY) -> bool:
        """Tell whether the token should not be sent any more; False if its end is not known.

        Args:
            now: Seconds since 1970.
            leeway: Seconds that it ends earlier for us, but never more than a tenth of its life.
        """
        if self.expires_at is None:
            return False
        life = max(0.0, self.expires_at - self.obtained_at)
        return now >= self.expires_at - min(leeway, _LEEWAY_SHARE * life)

    @property
    def ends(self) -> str:
        """When it expires, as a person reads it, in UTC; "" if that is not known."""
        if self.expires_at is None:
            return ""
        return datetime.fromtimestamp(self.expires_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

    @safe_repr
    def __repr__(self) -> str:
        return (
            f"Token(value={self.value!r}, expires_at={self.expires_at!r}, "
            f"obtained_at={self.obtained_at!r}, scope={self.scope!r})"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Token is a secret: it is not pickled")


AccessToken: TypeAlias = str | SecretStr | Token


def text_of(token: AccessToken) -> str:
    """Return the token in clear, for the header and for nothing else."""
    if isinstance(token, Token):
        token = token.value
    return token.get_secret_value() if isinstance(token, SecretStr) else token


def problem_of(text: object) -> str | None:
    """Say what keeps a text from being a bearer token, without showing it; None if nothing does."""
    if not isinstance(text, str):
        return "must be a string or a SecretStr"
    if not text:
        return "is empty"
    if _B64TOKEN.fullmatch(text):
        return None
    if _B64TOKEN.fullmatch(text.strip()):
        return "has white space around it, as a token read from a file often has: strip() it"
    return "holds characters that no bearer token may hold (RFC 6750, 2.1)"


def scope_names(scope: str | Iterable[str]) -> frozenset[str]:
    """Return the names of a scope, given one by one or as a text with spaces between them.

    Raises:
        ConfigurationError: one of them is no name that a scope can have.
    """
    if not isinstance(scope, Iterable):
        raise ConfigurationError("scope must be a string or an iterable of strings")
    names = [name for name in (scope.split(" ") if isinstance(scope, str) else scope) if name != ""]
    if not all(isinstance(name, str) and _SCOPE_TOKEN.fullmatch(name) for name in names):
        raise ConfigurationError("scope holds a name that no scope can have (RFC 6749, 3.3)")
    return frozenset(names)


# The last second of the year 9999, beyond which no date can be written.
_LAST_MOMENT: Final = 253402300799.0


def _moment(name: str, seconds: object) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise ConfigurationError(f"{name} must be a number of seconds since 1970")
    if not 0 <= seconds <= _LAST_MOMENT:  # NaN is neither
        raise ConfigurationError(f"{name} must be seconds since 1970, up to the year 9999")
    return float(seconds)
