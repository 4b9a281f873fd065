"""The access token: checked when it is made, and for how long it is used."""

import math
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final, Self, TypeAlias

from pydantic import GetCoreSchemaHandler, SecretStr, ValidationError
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_before_validator_function

from gateway_sdk._python import MASK, NotPickled, safe_repr
from gateway_sdk._waiting import hiding_frames
from gateway_sdk.errors import ConfigurationError

DEFAULT_LEEWAY: Final = 30.0
"""Seconds before its expiry from which a token is renewed: a request takes time to arrive."""

_RENEWAL_INTERVAL: Final = 1.0
"""Seconds between two attempts to renew a token that still works."""

_LEEWAY_SHARE: Final = 0.1
"""The leeway's maximum share of the lifetime: a token of one minute must be usable too."""

# RFC 6750, 2.1. Other characters must not be in the header, above all no newline.
_B64TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
# RFC 6749, 3.3.
_SCOPE_TOKEN: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


@dataclass(frozen=True, slots=True, init=False)
class Token(NotPickled):
    """A valid bearer token with its lifetime.

    Two are equal if all four attributes are. It cannot be pickled. In a model of pydantic, a field
    of this type takes a token, its text, or a mapping with the names of the attributes.

    Attributes:
        value: The token itself.
        expires_at: Seconds since 1970; None if not known.
        obtained_at: Seconds since 1970.
        scope: The granted scope; empty if there are no scopes (RFC 6749, 3.3).
    """

    value: SecretStr
    expires_at: float | None
    obtained_at: float
    scope: frozenset[str]

    @hiding_frames(ConfigurationError)
    def __init__(
        self,
        value: str | SecretStr,
        *,
        expires_at: float | None = None,
        obtained_at: float | None = None,
        scope: str | Iterable[str] = (),
    ) -> None:
        """Check the arguments; ConfigurationError names a wrong one, without showing the value.

        Args:
            value: The token, as text or as a `SecretStr`.
            expires_at: Seconds since 1970; None if not known: it is used until it is refused.
            obtained_at: Seconds since 1970; by default now.
            scope: Names, or one text with spaces between them.
        """
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        if problem := problem_of(text):
            raise ConfigurationError(f"the access token {problem}")
        names = scope_names(scope)
        began = time.time() if obtained_at is None else _moment("obtained_at", obtained_at)
        ends = None if expires_at is None else _moment("expires_at", expires_at)
        object.__setattr__(self, "value", SecretStr(text))
        object.__setattr__(self, "expires_at", ends)
        object.__setattr__(self, "obtained_at", began)
        object.__setattr__(self, "scope", names)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # Else pydantic would set the attributes of a dataclass itself, without any check.
        return no_info_before_validator_function(cls._of, handler(source))

    @classmethod
    def _of(cls, given: Any) -> Self:
        try:
            if isinstance(given, cls):
                return given
            return cls(**given) if isinstance(given, Mapping) else cls(given)
        except (ConfigurationError, TypeError) as error:
            told = "the access token needs a value, and can have expires_at, obtained_at, scope"
            told = str(error) if isinstance(error, ConfigurationError) else told
            kind = PydanticCustomError("token", "{told}", {"told": told})
        # Else the input would be shown.
        raise ValidationError.from_exception_data("Token", [{"type": kind, "input": MASK}])

    def __deepcopy__(self, _: object = None) -> Self:
        return self  # it is frozen

    __copy__ = __deepcopy__

    def expired(self, now: float, leeway: float = DEFAULT_LEEWAY) -> bool:
        """Return whether the token has expired or soon will; False if its expiry is not known.

        Args:
            now: Seconds since 1970.
            leeway: Seconds before its expiry, but at most a tenth of its lifetime.
        """
        return now >= expiry_less(self, leeway)

    @property
    def ends(self) -> str:
        """When it expires, as text in UTC; "" if not known."""
        if self.expires_at is None:
            return ""
        return datetime.fromtimestamp(self.expires_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

    @safe_repr
    def __repr__(self) -> str:
        shown = (f"{it.name}={getattr(self, it.name)!r}" for it in fields(Token))
        return f"Token({', '.join(shown)})"


class CachedToken:
    """A token in memory, and for how long it is used."""

    # If the time of day is set back, a token would count as valid for too long. So the time is also
    # measured from the moment at which the token was received, by a clock that is never set.

    __slots__ = ("_again_at", "_ends_at", "_offset", "_renew_at", "token")

    def __init__(self, token: Token, leeway: float) -> None:
        Token(token.value)  # a dataclass made of Token has its own __init__, which checks nothing
        self.token: Token = token
        self._renew_at: float = expiry_less(token, leeway)
        self._ends_at: float = expiry_less(token, 0.0)
        now = time.time()
        # A token of the future: the clock was set back, or is behind that of another machine. It
        # lasts for its lifetime at most.
        is_of_future = now < token.obtained_at < self._ends_at
        self._offset: float = (token.obtained_at if is_of_future else now) - time.monotonic()
        # Some sources return the same token until its end.
        self._again_at = -math.inf if self.is_fresh() else time.monotonic() + _RENEWAL_INTERVAL

    def is_fresh(self) -> bool:
        """Return whether it need not be renewed yet."""
        return self._now() < self._renew_at

    def is_due(self) -> bool:
        """Return whether to renew it now: near its end, and a second after the last try."""
        if self.is_fresh() or (now := time.monotonic()) < self._again_at:
            return False
        self._again_at = now + _RENEWAL_INTERVAL
        return True

    def lasts(self) -> bool:
        """Return whether it can be sent."""
        return self.left() > 0

    def left(self) -> float:
        """Return for how many seconds it can still be sent."""
        return self._ends_at - self._now()

    def _now(self) -> float:
        return max(time.time(), time.monotonic() + self._offset)


AccessToken: TypeAlias = str | SecretStr | Token


def text_of(token: AccessToken) -> str:
    """Return the token's text, for the header only."""
    if isinstance(token, Token):
        token = token.value
    return token.get_secret_value() if isinstance(token, SecretStr) else token


def expiry_less(token: Token, leeway: float) -> float:
    """Return when a token expires, less a leeway in seconds; infinity if that is not known."""
    if token.expires_at is None:
        return math.inf
    lifetime = max(0.0, token.expires_at - token.obtained_at)
    return token.expires_at - min(leeway, _LEEWAY_SHARE * lifetime)


def problem_of(text: object) -> str | None:
    """Return why a text is not a bearer token, without showing it; None if it is one."""
    if not isinstance(text, str):
        return "must be a string or a SecretStr"
    if not text:
        return "is empty"
    if _B64TOKEN.fullmatch(text):
        return None
    if _B64TOKEN.fullmatch(text.strip()):
        return "has white space around it, as tokens read from files often have: strip() it"
    if text[:7].lower() == "bearer ":
        return "begins with the word Bearer: give the token alone, without it"
    return "has characters that a bearer token cannot have (RFC 6750, 2.1)"


def scope_names(scope: str | Iterable[str]) -> frozenset[str]:
    """Return the names of a scope, given as names or as one text with spaces between them."""
    if not isinstance(scope, Iterable):
        raise ConfigurationError("must be a string or an iterable of strings", setting="scope")
    names = [name for name in (scope.split(" ") if isinstance(scope, str) else scope) if name != ""]
    if not all(isinstance(name, str) and _SCOPE_TOKEN.fullmatch(name) for name in names):
        raise ConfigurationError("has an invalid name (RFC 6749, 3.3)", setting="scope")
    return frozenset(names)


_LAST_MOMENT: Final = 253402300799.0  # of the year 9999, the last that `datetime` can represent


def _moment(name: str, seconds: Any) -> float:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= _LAST_MOMENT:  # refuses NaN too
        raise ConfigurationError("must be seconds since 1970, up to the year 9999", setting=name)
    return float(seconds)
