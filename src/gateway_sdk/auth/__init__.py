"""Sources of access tokens: strings, functions, logins, and stores that processes share."""

from gateway_sdk.auth._environment import open_store
from gateway_sdk.auth._receiver import LoopbackReceiver
from gateway_sdk.auth._shared_source import SharedTokenSource
from gateway_sdk.auth._terminal import PasteFromTerminal
from gateway_sdk.auth.flow import ImplicitFlow, LoginAttempt
from gateway_sdk.auth.login import Browser, Paste, login
from gateway_sdk.auth.source import AccessTokenGiven, RejectingTokenSource, TokenSource
from gateway_sdk.auth.stores import (
    KeyringStore,
    MemoryStore,
    PrivateFileStore,
    RedisStore,
    TokenKey,
    TokenStore,
)
from gateway_sdk.auth.token import AccessToken, Token

__all__ = [
    "AccessToken",
    "AccessTokenGiven",
    "Browser",
    "ImplicitFlow",
    "KeyringStore",
    "LoginAttempt",
    "LoopbackReceiver",
    "MemoryStore",
    "Paste",
    "PasteFromTerminal",
    "PrivateFileStore",
    "RedisStore",
    "RejectingTokenSource",
    "SharedTokenSource",
    "Token",
    "TokenKey",
    "TokenSource",
    "TokenStore",
    "login",
    "open_store",
]
