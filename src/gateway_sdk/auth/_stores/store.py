"""What a token store is, the key of a token, the record of one, and the store in memory."""

import hashlib
import json
from dataclasses import asdict, astuple, dataclass
from typing import Any, Final, Protocol

from gateway_sdk._python import NotPickled
from gateway_sdk._url import origin_of, parse_url
from gateway_sdk.auth.token import Token, text_of
from gateway_sdk.errors import ConfigurationError, TokenStoreError

MAX_RECORD: Final = 256 * 1024
"""Bytes: a longer record was not written by this package."""


@dataclass(frozen=True, slots=True)
class TokenKey:
    """What a token is for: it is never sent to another gateway.

    Attributes:
        authorization_url: The authorization endpoint that issued it.
        client_id: The client that it was issued to.
        gateway: The origin of the gateway that it is sent to.
    """

    authorization_url: str
    client_id: str
    gateway: str

    @classmethod
    def of(cls, authorization_url: str, client_id: str, base_url: str) -> "TokenKey":
        """Return the key for a gateway's base URL; ConfigurationError names a wrong argument."""
        parse_url("authorization_url", authorization_url)
        if not isinstance(client_id, str) or not client_id:
            raise ConfigurationError("must be a string, and not empty", setting="client_id")
        return cls(authorization_url, client_id, origin_of(parse_url("base_url", base_url)))

    @property
    def digest(self) -> str:
        """A name for files and entries: 32 hexadecimal digits."""
        return hashlib.sha256(json.dumps(astuple(self)).encode()).hexdigest()[:32]


class TokenStore(Protocol):
    """Stores one token."""

    @property
    def key(self) -> TokenKey | None:
        """What the token is for; None if not known."""
        ...

    async def load(self) -> Token | None:
        """Return the token; None if there is none.

        TokenStoreError: the store cannot be reached, is locked or not private, or has an invalid
        record.
        """
        ...

    async def save(self, token: Token) -> None:
        """Replace the stored token; after a TokenStoreError the previous one is still stored."""
        ...

    async def delete(self) -> None:
        """Delete the token, if there is one; TokenStoreError if the store cannot be reached."""
        ...


class UnusableRecordError(TokenStoreError):
    """The store works, but its record is invalid, or others could have read it."""


def dump(token: Token, key: TokenKey) -> bytes:
    record = {
        "access_token": text_of(token),
        "expires_at": token.expires_at,
        "obtained_at": token.obtained_at,
        "scope": sorted(token.scope),
        **asdict(key),
    }
    written = json.dumps(record).encode()
    if len(written) > MAX_RECORD:
        raise TokenStoreError(f"the access token is longer than {MAX_RECORD} bytes")
    return written


def parse(record: bytes | str | None, key: TokenKey, place: str) -> Token | None:
    if record is None:
        return None
    try:
        given: Any = json.loads(record)
        if asdict(key).items() <= given.items():
            times = {name: given[name] for name in ("expires_at", "obtained_at")}
            return Token(given["access_token"], scope=given["scope"], **times)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    raise UnusableRecordError(f"{place} has no valid token for {key.gateway}: log in again")


class MemoryStore(NotPickled):
    """Stores a token in this process only."""

    def __init__(self, key: TokenKey | None = None) -> None:
        self.key = key
        self._token: Token | None = None

    async def load(self) -> Token | None:
        """Return the token; None if there is none."""
        return self._token

    async def save(self, token: Token) -> None:
        """Replace the stored token."""
        self._token = token

    async def delete(self) -> None:
        """Delete the token."""
        self._token = None
