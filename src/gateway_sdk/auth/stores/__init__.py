"""The token stores: in memory, in a private file, in the system's keyring, in Redis."""

from gateway_sdk.auth.stores._base import (
    ClaimingTokenStore,
    LoginClaim,
    MemoryStore,
    TokenKey,
    TokenStore,
)
from gateway_sdk.auth.stores._file import PrivateFileStore
from gateway_sdk.auth.stores._keyring import KeyringStore
from gateway_sdk.auth.stores._redis import RedisStore

__all__ = [
    "ClaimingTokenStore",
    "KeyringStore",
    "LoginClaim",
    "MemoryStore",
    "PrivateFileStore",
    "RedisStore",
    "TokenKey",
    "TokenStore",
]
