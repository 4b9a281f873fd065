"""Where tokens are kept: in memory, in a private file, in the system's keyring, in Redis."""

from gateway_sdk.auth.stores.base import TokenKey, TokenStore
from gateway_sdk.auth.stores.choice import open_store
from gateway_sdk.auth.stores.file import PrivateFileStore
from gateway_sdk.auth.stores.keyring import KeyringStore
from gateway_sdk.auth.stores.memory import MemoryStore
from gateway_sdk.auth.stores.redis import RedisStore

__all__ = [
    "KeyringStore",
    "MemoryStore",
    "PrivateFileStore",
    "RedisStore",
    "TokenKey",
    "TokenStore",
    "open_store",
]
