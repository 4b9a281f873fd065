"""Sources of access tokens: strings, functions, logins, and stores that processes share."""

from typing import TYPE_CHECKING

from gateway_sdk._python import lazy
from gateway_sdk.auth.source import AccessTokenGiven, RejectingTokenSource, TokenSource
from gateway_sdk.auth.token import AccessToken, Token

if TYPE_CHECKING:
    from gateway_sdk.auth._login import Browser, Paste, PasteFromTerminal, login
    from gateway_sdk.auth._receiver import LoopbackReceiver
    from gateway_sdk.auth._shared_source import SharedTokenSource
    from gateway_sdk.auth.flow import ImplicitFlow, LoginAttempt
    from gateway_sdk.auth.stores import (
        KeyringStore,
        MemoryStore,
        PrivateFileStore,
        RedisStore,
        TokenKey,
        TokenStore,
        open_store,
    )
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "gateway_sdk.auth._login": ("Browser", "Paste", "PasteFromTerminal", "login"),
            "gateway_sdk.auth._receiver": ("LoopbackReceiver",),
            "gateway_sdk.auth._shared_source": ("SharedTokenSource",),
            "gateway_sdk.auth.flow": ("ImplicitFlow", "LoginAttempt"),
            "gateway_sdk.auth.stores": (
                "KeyringStore",
                "MemoryStore",
                "PrivateFileStore",
                "RedisStore",
                "TokenKey",
                "TokenStore",
                "open_store",
            ),
        },
    )

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
