"""The kinds of access token that a person may hand out, honest ones and others."""

import secrets
from collections.abc import Mapping
from typing import NamedTuple

from gateway_sdk.sandbox.tokens import TokenRegistry


class TokenKind(NamedTuple):
    """A kind of token: what the page says of it, what the answer says, and what is true.

    *stated* and *lifetime* are in seconds; None is without a statement, and without end.
    """

    label: str
    hint: str
    stated: int | None
    lifetime: float | None
    revoked: bool = False

    def hand_out(self, tokens: TokenRegistry) -> dict[str, str]:
        """Make a token, tell the gateway of it, and give what the client is told."""
        # RFC 6749, section 4.2.2
        token = secrets.token_urlsafe(32)
        tokens.issue(token, self.lifetime)
        if self.revoked:
            tokens.revoke(token)
        told = {"access_token": token, "token_type": "Bearer"}
        return told if self.stated is None else {**told, "expires_in": str(self.stated)}


# By the value of the form's field "token"; the first one is chosen beforehand.
TOKEN_KINDS: Mapping[str, TokenKind] = {
    "hour": TokenKind("Lasts an hour", "What a gateway would usually do", 3600, 3600),
    "minute": TokenKind("Lasts a minute", "To watch it being renewed", 60, 60),
    "unstated": TokenKind("No stated lifetime", "It lasts until it is revoked", None, None),
    "expired": TokenKind("Already expired", "Says an hour, is refused as expired", 3600, 0),
    "revoked": TokenKind(
        "Revoked", "Says an hour, is refused as revoked", 3600, 3600, revoked=True
    ),
}
