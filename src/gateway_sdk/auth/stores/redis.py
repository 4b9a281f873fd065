"""A token in Redis, for a fleet; needs the extra [redis]."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import parse_qsl, urlsplit

from gateway_sdk._config import is_loopback
from gateway_sdk._repr import safe_repr
from gateway_sdk.auth.stores.base import TokenKey, dump, parse
from gateway_sdk.auth.token import Token
from gateway_sdk.errors import ConfigurationError, TokenStoreError

if TYPE_CHECKING:
    from redis.asyncio import Redis

_PORT: Final = 6379

_TIMEOUT: Final = 5.0
"""Seconds to connect, and for each answer: Redis answers in milliseconds, or is not there."""

# Of what redis-py takes in an address; not among them: ways to leave out the check of certificates.
_OPTIONS: Final = ("db", "password")
_TLS_OPTIONS: Final = (*_OPTIONS, "ssl_ca_certs", "ssl_certfile", "ssl_keyfile")


# Older versions of redis-py leave the name of the server unchecked by default.
_CHECKED: Final[dict[str, Any]] = {"ssl_cert_reqs": "required", "ssl_check_hostname": True}


class RedisStore:
    """Keeps a token in Redis, until it expires.

    Each use has a connection of its own: tokens are seldom read, and so neither a restart of
    Redis nor another event loop leaves a dead one behind.
    """

    def __init__(self, url: str, key: TokenKey) -> None:
        """Check the address; nothing is sent.

        Args:
            url: rediss:// (TLS), unix://, or redis:// on this machine; with a user name and a
                password, if it has any. `ssl_ca_certs=` in its query names a CA file.
            key: What the token is for; the name in Redis follows from it.

        Raises:
            ConfigurationError: the address is none of these, or the extra [redis] is missing.
        """
        self._place = _checked_place(url)
        try:
            # Imported here, because it comes with an extra and takes longer than httpx.
            from redis import asyncio as client  # noqa: PLC0415
        except ModuleNotFoundError:
            raise ConfigurationError(
                "Redis needs the extra [redis]: pip install 'gateway-sdk[redis]'"
            ) from None
        self.key = key
        self._url = url
        self._client = client
        self._name = f"gateway-sdk:token:{key.digest}"

    async def load(self) -> Token | None:
        """Return the token; None if there is none, or none any more.

        Raises:
            TokenStoreError: Redis cannot be reached, or what it holds is broken.
        """
        async with self._connected() as redis:
            record = await redis.get(self._name)
        if record is None:
            return None
        return parse(record, self.key, f"Redis at {self._place}")

    async def save(self, token: Token) -> None:
        """Keep a token in place of the one before, until it expires.

        Raises:
            TokenStoreError: Redis cannot be reached, or does not take it.
        """
        until = None if token.expires_at is None else int(token.expires_at * 1000)
        async with self._connected() as redis:
            await redis.set(self._name, dump(token, self.key), pxat=until)

    async def delete(self) -> None:
        """Forget the token, if there is one.

        Raises:
            TokenStoreError: Redis cannot be reached.
        """
        async with self._connected() as redis:
            await redis.delete(self._name)

    @asynccontextmanager
    async def _connected(self) -> "AsyncGenerator[Redis]":
        try:
            async with self._client.from_url(
                self._url,
                socket_connect_timeout=_TIMEOUT,
                socket_timeout=_TIMEOUT,
                retry=None,
                single_connection_client=True,
                **(_CHECKED if self._url.startswith("rediss:") else {}),
            ) as redis:
                yield redis
        except (self._client.RedisError, OSError, ValueError) as error:
            # Without its text, which may repeat the address, password and all; redis-py wraps what
            # it met, such as a wrong password or certificate, in an error of the connection.
            kind = type(error.__cause__ or error.__context__ or error).__name__
            raise TokenStoreError(f"Redis at {self._place} cannot be used: {kind}") from None

    @safe_repr
    def __repr__(self) -> str:
        return f"<RedisStore {self._place} {self._name}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a RedisStore may hold a password: it is not pickled")


def _checked_place(url: str) -> str:
    """Return where a Redis is, without credentials, if nobody can listen on the way there.

    Raises:
        ConfigurationError: the address is none, or the token would travel in clear.
    """
    if not isinstance(url, str):
        raise ConfigurationError("the address of Redis must be a string")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port or _PORT
    except ValueError:
        raise ConfigurationError("the address of Redis is not a URL") from None
    options = _TLS_OPTIONS if parts.scheme == "rediss" else _OPTIONS
    if any(name not in options for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        raise ConfigurationError(
            f"the address of Redis takes only {', '.join(options)} in its query"
        )
    # urlsplit also takes what lacks the slashes, for a path.
    kind = parts.scheme if url.lower().startswith(f"{parts.scheme}://") else None
    if kind == "unix" and parts.path:
        return parts.path
    if kind == "rediss" or (kind == "redis" and is_loopback(host)):
        return f"{host}:{port}"
    raise ConfigurationError(
        "the address of Redis must be rediss:// (TLS) or unix://, or redis:// on this machine: "
        "else the token would travel in clear"
    )
