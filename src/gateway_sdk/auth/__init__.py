"""Sources of access tokens: strings, functions, logins, and stores that processes share."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway_sdk._terminal import PasteFromTerminal as PasteFromTerminal
    from gateway_sdk.auth._login import (
        Browser as Browser,
        Paste as Paste,
        login as login,
    )
    from gateway_sdk.auth._receiver import LoopbackReceiver as LoopbackReceiver
    from gateway_sdk.auth._shared_source import SharedTokenSource as SharedTokenSource
    from gateway_sdk.auth.flow import ImplicitFlow as ImplicitFlow, LoginAttempt as LoginAttempt
    from gateway_sdk.auth.source import (
        AccessTokenGiven as AccessTokenGiven,
        TokenSource as TokenSource,
    )
    from gateway_sdk.auth.stores import (
        KeyringStore as KeyringStore,
        MemoryStore as MemoryStore,
        PrivateFileStore as PrivateFileStore,
        RedisStore as RedisStore,
        TokenKey as TokenKey,
        TokenStore as TokenStore,
        open_store as open_store,
    )
    from gateway_sdk.auth.token import AccessToken as AccessToken, Token as Token
else:
    from gateway_sdk._python import lazy

    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "gateway_sdk._terminal": "PasteFromTerminal",
            "gateway_sdk.auth._login": "Browser Paste login",
            "gateway_sdk.auth._receiver": "LoopbackReceiver",
            "gateway_sdk.auth._shared_source": "SharedTokenSource",
            "gateway_sdk.auth.flow": "ImplicitFlow LoginAttempt",
            "gateway_sdk.auth.source": "AccessTokenGiven TokenSource",
            "gateway_sdk.auth.stores": """
                KeyringStore MemoryStore PrivateFileStore RedisStore TokenKey TokenStore
                open_store""",
            "gateway_sdk.auth.token": "AccessToken Token",
        },
    )
