"""The token stores: in memory, in a private file, in the system's keyring, in Redis."""

from pathlib import Path

from gateway_sdk.auth.stores._base import MemoryStore, TokenKey, TokenStore
from gateway_sdk.auth.stores._file import PrivateFileStore
from gateway_sdk.auth.stores._keyring import KeyringStore
from gateway_sdk.auth.stores._redis import RedisStore
from gateway_sdk.errors import ConfigurationError

__all__ = [
    "KeyringStore",
    "MemoryStore",
    "PrivateFileStore",
    "RedisStore",
    "TokenKey",
    "TokenStore",
]


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
    match kind:
        case "file" if not rest or rest.startswith("~") or Path(rest).is_absolute():
            return PrivateFileStore(key, rest or None)
        case "keyring" if not rest:
            return KeyringStore(key)
        case "redis" | "rediss" | "unix":
            return RedisStore(str(setting), key)
        case _:
            raise ConfigurationError(
                "GATEWAY_TOKEN_STORE must be file, file: with an absolute folder, keyring, or the "
                "URL of a Redis"
            )
