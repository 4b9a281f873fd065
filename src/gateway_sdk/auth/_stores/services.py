"""The stores that other programs keep, the keyring and Redis, and the one that a setting names."""

import os
import re
import socket
import stat
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from gateway_sdk._files import others_may
from gateway_sdk._peer import listener_of
from gateway_sdk._python import NotPickled, safe_repr
from gateway_sdk._url import is_loopback
from gateway_sdk._waiting import hiding_frames, in_thread, in_turn
from gateway_sdk.auth._stores.store import PrivateFileStore, TokenKey, TokenStore, dump, keyed, load
from gateway_sdk.auth.token import Token
from gateway_sdk.errors import ConfigurationError, GatewayError, TokenStoreError, needing_extra

_SERVICE: Final = "gateway-sdk"  # as the keyring shows it


class KeyringStore:
    """Stores a token in the keychain, the credential locker or the secret service.

    Without a keyring it raises an error; it never falls back to a file.
    """

    def __init__(self, key: TokenKey) -> None:
        """Set the key of the entry; MissingExtraError if the extra [keyring] is not installed."""
        with needing_extra("keyring", "the keyring"):
            import keyring  # noqa: PLC0415 - it takes as long as httpx
        self.key = keyed(key)
        self._keyring = keyring

    @hiding_frames(GatewayError)
    async def load(self) -> Token | None:
        """Return the token; None if there is none."""
        return load(await self._call("get_password"), self.key, "the keyring")

    @hiding_frames(GatewayError)
    async def save(self, token: Token) -> None:
        """Replace the stored token."""
        await self._call("set_password", dump(token, self.key).decode())

    @hiding_frames(GatewayError)
    async def delete(self) -> None:
        """Delete the token, if there is one."""
        if await self._call("get_password") is None:
            return
        try:
            await self._call("delete_password")
        except TokenStoreError:
            # Another process may have deleted it first.
            if await self._call("get_password") is not None:
                raise

    async def _call(self, name: str, *arguments: str) -> Any:
        """Call a method of the keyring in a thread: it may wait until the user unlocks it."""

        def call() -> Any:
            method = getattr(_usable(self._keyring.get_keyring()), name)
            return method(_SERVICE, self.key.digest, *arguments)

        try:
            return await in_turn("gateway_sdk-keyring", self.key.digest, (name, arguments), call)
        except TokenStoreError:
            raise
        except Exception as error:  # noqa: BLE001 - each backend raises its own errors
            kind = type(error).__name__
            raise TokenStoreError(f"the keyring cannot be used here: {kind}") from None

    @safe_repr
    def __repr__(self) -> str:
        return f"<KeyringStore {_SERVICE}/{self.key.digest}>"


def _usable(backend: Any) -> Any:
    """Return a keyring: of a chain, the first that is neither a plain file nor switched off."""
    problem = "the keyring here has no backend"
    for part in getattr(backend, "backends", [backend]):
        if "plaintext" in type(part).__name__.lower():
            problem = "the keyring here is a plain file: use PrivateFileStore, or another backend"
        elif type(part).__module__ == "keyring.backends.null":
            problem = "the keyring here is switched off: it stores nothing"
        else:
            return part
    raise TokenStoreError(problem)


_TIMEOUT: Final = 5.0
"""Seconds to connect, and for each reply: Redis usually replies in milliseconds."""

# The allowed query parameters of redis-py; those that switch off the certificate check are not
# among them.
_OPTIONS: Final = ("db", "password")
_TLS_OPTIONS: Final = (*_OPTIONS, "ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
# Older versions of redis-py do not check the server's name by default.
_CHECKED: Final[dict[str, Any]] = {"ssl_cert_reqs": "required", "ssl_check_hostname": True}


class RedisStore(NotPickled):
    """Stores a token in Redis, until it expires.

    Each operation opens its own connection: tokens are read rarely, and no connection can be
    broken by a restart of Redis or belong to another event loop.
    """

    def __init__(self, url: str, key: TokenKey) -> None:
        """Check the URL; nothing is sent.

        Args:
            url: rediss:// (TLS), unix://, or redis:// on this machine, else ConfigurationError;
                with user name and password if Redis requires them. `ssl_ca_certs=` in its query
                names a CA file.
            key: What the token is for; the name in Redis is made from it.
        """
        self._place = _checked_place(url)
        with needing_extra("redis", "Redis"):
            from redis import asyncio as client  # noqa: PLC0415 - it takes longer than httpx
        self.key = keyed(key)
        self._url = url
        self._client: Any = client  # redis-py 5 has no types for all of it
        self._name = f"gateway-sdk:token:{key.digest}"

    @hiding_frames(GatewayError)
    async def load(self) -> Token | None:
        """Return the token; None if there is none, or it has expired."""
        return load(await self._send("get"), self.key, f"Redis at {self._place}")

    @hiding_frames(GatewayError)
    async def save(self, token: Token) -> None:
        """Replace the stored token; Redis deletes it when it expires."""
        # Not `pxat`, which needs Redis 6.2. The end is a time of this machine's clock, so what is
        # left of it is right for a Redis whose clock differs.
        ends = token.expires_at
        left = None if ends is None else max(1, int((ends - time.time()) * 1000))
        await self._send("set", dump(token, self.key), px=left)

    @hiding_frames(GatewayError)
    async def delete(self) -> None:
        """Delete the token, if there is one."""
        await self._send("delete")

    async def _send(self, command: str, *arguments: bytes, **options: Any) -> Any:
        async def greet(connection: Any) -> None:
            try:
                await self._check_server()  # another program may have come to the port since
                await connection.on_connect()  # sends the password
            except BaseException:  # redis-py disconnects after its own errors only
                await connection.disconnect(nowait=True)
                raise

        try:
            await self._check_server()
            async with self._client.from_url(
                self._url,
                socket_connect_timeout=_TIMEOUT,
                socket_timeout=_TIMEOUT,
                retry=None,
                single_connection_client=True,
                redis_connect_func=greet,
                **(_CHECKED if self._url.lower().startswith("rediss:") else {}),
            ) as redis:
                return await getattr(redis, command)(self._name, *arguments, **options)
        except TokenStoreError:
            raise
        except Exception as error:  # noqa: BLE001 - of an odd reply, redis-py raises any kind
            # Without its message, which may contain the URL with the password. redis-py raises a
            # connection error from the actual one, such as a wrong password or certificate.
            kind = type(error.__cause__ or error.__context__ or error).__name__
            raise TokenStoreError(f"Redis at {self._place} cannot be used: {kind}") from None

    async def _check_server(self) -> None:
        """Raise TokenStoreError if another user of this machine gets what is sent without TLS."""
        scheme = self._url.partition(":")[0].lower()
        if scheme == "unix":
            _check_socket(Path(self._place))
        elif scheme == "redis":
            host, _, port = self._place.rpartition(":")
            # Not in the threads of the event loop: all of them may wait for this token.
            look_up = partial(socket.getaddrinfo, host, int(port))
            for place in {info[4] for info in await in_thread("gateway_sdk-redis", look_up)}:
                _check_owner(f"the program at {self._place}", listener_of(place))

    @safe_repr
    def __repr__(self) -> str:
        return f"<RedisStore {self._place} {self._name}>"


_ACCOUNTS: Final = frozenset({"redis", "valkey", "keydb"})
"""The users that packages of Redis make for it; only root can give these names."""


def _check_socket(path: Path) -> None:
    folder, found = path.parent.stat(), path.lstat()
    if not stat.S_ISSOCK(found.st_mode):
        raise TokenStoreError(f"{path} is not a socket")
    if others_may(stat.S_IWOTH, folder):
        raise TokenStoreError(
            f"the folder {path.parent} can be written by others, who could take the place of "
            "Redis: let it listen in a folder of its own"
        )
    _check_owner(f"the folder {path.parent}", folder.st_uid)
    _check_owner(f"the socket {path}", found.st_uid)


def _check_owner(what: str, user: int | None) -> None:
    """Accept this user, root and Redis's own; and an owner whom the system does not tell."""
    if user is None or user in (0, os.geteuid()):
        return
    import pwd  # noqa: PLC0415 - Windows has none, and tells no owner

    with suppress(KeyError):
        if pwd.getpwuid(user).pw_name in _ACCOUNTS:
            return
    raise TokenStoreError(
        f"{what} belongs to another user (id {user}), who would get the token: run Redis as this "
        "user, as root or as the user redis, or use rediss:// (TLS)"
    )


def _checked_place(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port or 6379
        # urlsplit accepts a URL without the slashes too.
        kind = parts.scheme if url.lower().startswith(f"{parts.scheme}://") else None
    except (AttributeError, TypeError, ValueError):
        raise ConfigurationError("the URL of Redis is invalid") from None
    options = _TLS_OPTIONS if parts.scheme == "rediss" else _OPTIONS
    if any(name not in options for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        raise ConfigurationError(
            f"the URL of Redis can have only {', '.join(options)} in its query"
        )
    if kind == "unix" and parts.path:
        return parts.path
    # A slash in a password ends the host: what is before it would be taken for host and port.
    if kind in ("redis", "rediss") and not re.fullmatch(r"(/[0-9]*)?", parts.path):
        raise ConfigurationError(
            "the URL of Redis can have only the number of a database after its host: write a / in "
            "a password as %2F"
        )
    if kind == "rediss" or (kind == "redis" and is_loopback(host)):
        return f"{host}:{port}"
    raise ConfigurationError(
        "the URL of Redis must be rediss:// (TLS) or unix://, or redis:// on this machine: "
        "otherwise the token would be sent unencrypted"
    )


def open_store(setting: str | None, key: TokenKey) -> TokenStore:
    """Return the store that a setting names.

    Args:
        setting: None or "file" for the default, a private file in this user's folder; "file:"
            with an absolute folder for another one; "keyring"; or the URL of a Redis.
        key: What the token is for.

    Raises:
        ConfigurationError: the setting names no store, or its extra is not installed.
    """
    kind, _, rest = str(setting or "file").partition(":")
    is_place = not rest or rest.startswith("~") or Path(rest).is_absolute()
    if kind == "file" and is_place and rest == rest.strip():
        return PrivateFileStore(key, rest or None)
    if kind == "keyring" and not rest:
        return KeyringStore(key)
    if kind in ("redis", "rediss", "unix"):
        return RedisStore(str(setting), key)
    raise ConfigurationError(
        "must be file, file: with an absolute folder, keyring, or the URL of a Redis",
        setting="GATEWAY_TOKEN_STORE",
    )
