"""The access tokens of the sandbox: which are valid, and the kinds that a login can issue."""

import math
import secrets
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

TokenProblem = Literal["is unknown", "expired", "was revoked"]


class TokenRegistry:
    """The access tokens that the gateway knows; *clock* returns seconds, of any origin."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._expiries: dict[str, float] = {}
        self._revoked: set[str] = set()

    def issue(self, token: str, lifetime: float | None = None) -> None:
        """Accept a token from now on, for *lifetime* seconds; None means without end."""
        self._expiries[token] = math.inf if lifetime is None else self._clock() + lifetime
        self._revoked.discard(token)

    def revoke(self, token: str) -> None:
        """Refuse a token from now on; it need not have been issued."""
        self._revoked.add(token)

    def revoke_all(self) -> None:
        """Refuse all tokens issued so far."""
        self._revoked |= self._expiries.keys()

    def check(self, token: str) -> TokenProblem | None:
        """Return what is wrong with a token, None if it is valid."""
        if token in self._revoked:
            return "was revoked"
        if token not in self._expiries:
            return "is unknown"
        return "expired" if self._expiries[token] <= self._clock() else None


class TokenKind(NamedTuple):
    """A kind of token that the user can choose on the login page.

    Attributes:
        label: Its name on the page.
        hint: One more line on the page.
        stated: The lifetime that the authorization response states, in seconds; None states none.
        lifetime: The lifetime that the gateway applies, in seconds; None means without end.
        revoked: The gateway refuses the token from the start.
    """

    label: str
    hint: str
    stated: int | None
    lifetime: float | None
    revoked: bool = False

    def issue(self, tokens: TokenRegistry) -> dict[str, str]:
        """Issue a new token and return the parameters of the authorization response."""
        # RFC 6749, section 4.2.2
        token = secrets.token_urlsafe(32)
        tokens.issue(token, self.lifetime)
        if self.revoked:
            tokens.revoke(token)
        response = {"access_token": token, "token_type": "Bearer"}
        return response if self.stated is None else {**response, "expires_in": str(self.stated)}


# By the value of the form's field "token"; the page preselects the first.
TOKEN_KINDS: Mapping[str, TokenKind] = {
    "hour": TokenKind("Lasts an hour", "What a gateway would usually do", 3600, 3600),
    "minute": TokenKind("Lasts a minute", "To watch it being renewed", 60, 60),
    "unstated": TokenKind("No stated lifetime", "It lasts until it is revoked", None, None),
    "expired": TokenKind("Already expired", "Says an hour, is refused as expired", 3600, 0),
    "revoked": TokenKind(
        "Revoked", "Says an hour, is refused as revoked", 3600, 3600, revoked=True
    ),
}
