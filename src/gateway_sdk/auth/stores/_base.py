"""What the token stores share: keys, records and claims to log in; and the store in memory."""

import asyncio
import hashlib
import json
import os
import secrets
import threading
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol

from gateway_sdk._url import origin_of, parse_url
from gateway_sdk.auth.token import Token, text_of
from gateway_sdk.errors import ConfigurationError, TokenStoreError

MAX_RECORD: Final = 256 * 1024
"""Bytes: a longer record was not written by this package."""

MARK_BYTES: Final = 32
"""The length of the mark of a failed login."""


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
        """Return the key for the gateway at a base URL.

        Raises:
            ConfigurationError: an argument is invalid; the message names it.
        """
        parse_url("authorization_url", authorization_url)
        if not isinstance(client_id, str) or not client_id:
            raise ConfigurationError("must be a string, and not empty", setting="client_id")
        return cls(authorization_url, client_id, origin_of(parse_url("base_url", base_url)))

    @property
    def digest(self) -> str:
        """A name for files and entries: 32 hexadecimal digits."""
        parts = json.dumps([self.authorization_url, self.client_id, self.gateway])
        return hashlib.sha256(parts.encode()).hexdigest()[:32]


class UnusableRecordError(TokenStoreError):
    """The store works, but its record is invalid, or others could have read it."""


class TokenStore(Protocol):
    """Stores one token; it may also have a method `claim_login`, as `ClaimingTokenStore`."""

    @property
    def key(self) -> TokenKey | None:
        """What the token is for; None if not known."""
        ...

    async def load(self) -> Token | None:
        """Return the token; None if there is none.

        Raises:
            TokenStoreError: it cannot be read.
        """
        ...

    async def save(self, token: Token) -> None:
        """Replace the stored token.

        Raises:
            TokenStoreError: it cannot be stored; the previous one is still stored.
        """
        ...

    async def delete(self) -> None:
        """Delete the token, if there is one.

        Raises:
            TokenStoreError: the store cannot be reached.
        """
        ...


class LoginClaim(Protocol):
    """A claim to log in and to save the token, which one caller at a time is granted.

    Attributes:
        granted: Whether this caller has it; if not, another one is logging in.
        failure: A mark of the last login that failed; "" if there was none.
    """

    granted: bool
    failure: str

    async def keep(self) -> None:
        """Keep a claim for the next 30 s; called every 10 s."""
        ...

    async def end(self, *, failed: bool) -> None:
        """Give a granted claim back.

        Args:
            failed: Whether the login failed; callers that waited for it then get an error.
        """
        ...


class ClaimingTokenStore(TokenStore, Protocol):
    """A token store that lets one of several processes log in at a time."""

    async def claim_login(self) -> LoginClaim:
        """Claim to log in; the claim says whether it is granted. It does not wait.

        Raises:
            TokenStoreError: the store cannot be reached; then the caller logs in without a claim.
        """
        ...


def new_mark() -> str:
    return secrets.token_hex(MARK_BYTES // 2)


def dump(token: Token, key: TokenKey) -> bytes:
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
    try:
        return _read(json.loads(record), key)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UnusableRecordError(
            f"{place} has no valid token for {key.gateway}: log in again"
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


class MemoryClaims:
    """Grants claims within this process, to one event loop at a time."""

    def __init__(self) -> None:
        self.failure = ""
        self._holder: asyncio.AbstractEventLoop | None = None
        self._pid = os.getpid()
        self._taking = threading.Lock()

    def take(self, loop: asyncio.AbstractEventLoop) -> bool:
        with self._taking:
            # A forked process has a copy of its parent's loop, which nothing runs and closes there.
            is_held = self._holder is not None and not self._holder.is_closed()
            if is_held and self._pid == os.getpid():
                return False
            self._holder, self._pid = loop, os.getpid()
            return True

    def give_back(self) -> None:
        self._holder = None


class MemoryClaim:
    def __init__(self, claims: MemoryClaims) -> None:
        self.granted = claims.take(asyncio.get_running_loop())
        self.failure = claims.failure
        self._claims = claims

    async def keep(self) -> None:
        """Do nothing: it lasts until it is given back, or its event loop is closed."""

    async def end(self, *, failed: bool) -> None:
        if failed:
            self._claims.failure = new_mark()
        self._claims.give_back()


class MemoryStore:
    """Stores a token in this process only."""

    def __init__(self, key: TokenKey | None = None) -> None:
        self.key = key
        self._token: Token | None = None
        self._claims = MemoryClaims()

    async def load(self) -> Token | None:
        """Return the token; None if there is none."""
        return self._token

    async def save(self, token: Token) -> None:
        """Replace the stored token."""
        self._token = token

    async def delete(self) -> None:
        """Delete the token."""
        self._token = None

    async def claim_login(self) -> LoginClaim:
        """Claim to log in, for one event loop at a time."""
        return MemoryClaim(self._claims)

    def __repr__(self) -> str:
        return "<MemoryStore>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a MemoryStore holds a secret: it cannot be pickled")
