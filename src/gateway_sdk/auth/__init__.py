"""Where access tokens come from: a string, a function, a login, a store that many share."""

from gateway_sdk.auth.browser import Browser
from gateway_sdk.auth.flow import ImplicitFlow, LoginAttempt
from gateway_sdk.auth.login import Paste, login
from gateway_sdk.auth.loopback import LoopbackReceiver
from gateway_sdk.auth.shared import SharedTokenSource
from gateway_sdk.auth.source import AccessTokenGiven, RejectingTokenSource, TokenSource
from gateway_sdk.auth.stores import (
    KeyringStore,
    MemoryStore,
    PrivateFileStore,
    RedisStore,
    TokenKey,
    TokenStore,
    open_store,
)
from gateway_sdk.auth.terminal import PasteFromTerminal
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
