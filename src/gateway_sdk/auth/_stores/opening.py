"""The store that a setting names."""

from pathlib import Path

from gateway_sdk.auth._stores.in_keyring import KeyringStore
from gateway_sdk.auth._stores.in_redis import RedisStore
from gateway_sdk.auth._stores.private_file import PrivateFileStore
from gateway_sdk.auth._stores.store import TokenKey, TokenStore
from gateway_sdk.errors import ConfigurationError


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
    if kind == "file" and (not rest or rest.startswith("~") or Path(rest).is_absolute()):
        return PrivateFileStore(key, rest or None)
    if kind == "keyring" and not rest:
        return KeyringStore(key)
    if kind in ("redis", "rediss", "unix"):
        return RedisStore(str(setting), key)
    raise ConfigurationError(
        "GATEWAY_TOKEN_STORE must be file, file: with an absolute folder, keyring, or the URL of "
        "a Redis"
    )
