"""What every store is: a place for one token, under a key that says what it is for."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final, Protocol

from gateway_sdk._config import origin_of, parse_url
from gateway_sdk.auth.token import Token, text_of
from gateway_sdk.errors import ConfigurationError, TokenStoreError

MAX_RECORD: Final = 256 * 1024
"""Bytes of a stored token at the most: what is longer is not one of ours."""


@dataclass(frozen=True, slots=True)
class TokenKey:
    """What a token is for: it is never sent to another gateway.

    Attributes:
        authorization_url: Where it comes from.
        client_id: For which client.
        gateway: The origin of the gateway that it goes to, made of its base URL.
    """

    authorization_url: str
    client_id: str
    gateway: str

    @classmethod
    def of(cls, authorization_url: str, client_id: str, base_url: str) -> "TokenKey":
        """Make the key for a gateway at a base URL.

        Raises:
            ConfigurationError: an address is none; the message names it.
        """
        parse_url("authorization_url", authorization_url)
        if not isinstance(client_id, str) or not client_id:
            raise ConfigurationError("client_id must be a string, and not empty")
        return cls(authorization_url, client_id, origin_of(parse_url("base_url", base_url)))

    @property
    def digest(self) -> str:
        """A name for it that fits everywhere."""
        parts = json.dumps([self.authorization_url, self.client_id, self.gateway])
        return hashlib.sha256(parts.encode()).hexdigest()[:32]


class UnusableRecordError(TokenStoreError):
    """The store works, but what it holds is no token of ours, or may be known to others."""


class TokenStore(Protocol):
    """Keeps one token."""

    @property
    def key(self) -> TokenKey | None:
        """What the token is for; None if the store does not know."""
        ...

    async def load(self) -> Token | None:
        """Return the token; None if there is none.

        Raises:
            TokenStoreError: it cannot be read.
        """
        ...

    async def save(self, token: Token) -> None:
        """Keep a token in place of the one before.

        Raises:
            TokenStoreError: it cannot be kept; the one before is still there.
        """
        ...

    async def delete(self) -> None:
        """Forget the token, if there is one.

        Raises:
            TokenStoreError: it cannot be reached.
        """
        ...


def dump(token: Token, key: TokenKey) -> bytes:
    """Write a token down, with what it is for.

    Raises:
        TokenStoreError: it is far too long for one, so that it would not be read again.
    """
    record = {
        "access_token": text_of(token),
        "expires_at": token.expires_at,
        "obtained_at": token.obtained_at,
        "scope": sorted(token.scope),
        "authorization_url": key.authorization_url,
        "client_id": key.client_id,
        "gateway": key.gateway,
    }
    written = json.dumps(record).encode()
    if len(written) > MAX_RECORD:
        raise TokenStoreError(f"the access token is longer than {MAX_RECORD} bytes")
    return written


def parse(record: bytes | str, key: TokenKey, place: str) -> Token:
    """Read what `dump` wrote.

    Raises:
        UnusableRecordError: it is broken, or for something else; the message names the place only.
    """
    try:
        return _read(json.loads(record), key)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UnusableRecordError(
            f"{place} holds no token for {key.gateway}: log in again"
        ) from None


def _read(record: Any, key: TokenKey) -> Token:
    given = (record["authorization_url"], record["client_id"], record["gateway"])
    if given != (key.authorization_url, key.client_id, key.gateway):
        raise ValueError
    return Token(
        record["access_token"],
        expires_at=record["expires_at"],
        obtained_at=record["obtained_at"],
        scope=record["scope"],
    )
