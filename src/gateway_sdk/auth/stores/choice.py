"""Which store, as one setting says it, so that those who log in and those who work agree."""

from pathlib import Path

from gateway_sdk.auth.stores.base import TokenKey, TokenStore
from gateway_sdk.auth.stores.file import PrivateFileStore
from gateway_sdk.auth.stores.keyring import KeyringStore
from gateway_sdk.auth.stores.redis import RedisStore
from gateway_sdk.errors import ConfigurationError


def open_store(setting: str | None, key: TokenKey) -> TokenStore:
    """Return the store that a setting names.

    Args:
        setting: None or "file" for the default, a private file in this user's own folder;
            "file:" and an absolute folder for another one; "keyring"; or the address of a Redis.
        key: What the token is for.

    Raises:
        ConfigurationError: it names none, or the extra for it is missing.
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
                "GATEWAY_TOKEN_STORE must be file, file: and an absolute folder, keyring, or the "
                "address of a Redis"
            )
