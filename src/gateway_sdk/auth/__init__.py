"""Sources of access tokens: strings, functions, logins, and stores that processes share."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway_sdk._terminal import PasteFromTerminal as PasteFromTerminal
    from gateway_sdk.auth._login.login import (
        Browser as Browser,
        LoopbackReceiver as LoopbackReceiver,
        Paste as Paste,
        login as login,
    )
    from gateway_sdk.auth._shared_source import SharedTokenSource as SharedTokenSource
    from gateway_sdk.auth._stores.services import (
        KeyringStore as KeyringStore,
        RedisStore as RedisStore,
        open_store as open_store,
    )
    from gateway_sdk.auth._stores.store import (
        MemoryStore as MemoryStore,
        PrivateFileStore as PrivateFileStore,
        TokenKey as TokenKey,
        TokenStore as TokenStore,
    )
    from gateway_sdk.auth.flow import ImplicitFlow as ImplicitFlow, LoginAttempt as LoginAttempt
    from gateway_sdk.auth.source import (
        AccessTokenGiven as AccessTokenGiven,
        TokenSource as TokenSource,
    )
    from gateway_sdk.auth.token import AccessToken as AccessToken, Token as Token
else:
    from gateway_sdk._python import lazy

    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "gateway_sdk._terminal": "PasteFromTerminal",
            "gateway_sdk.auth._login.login": "Browser LoopbackReceiver Paste login",
            "gateway_sdk.auth._shared_source": "SharedTokenSource",
            "gateway_sdk.auth.flow": "ImplicitFlow LoginAttempt",
            "gateway_sdk.auth.source": "AccessTokenGiven TokenSource",
            "gateway_sdk.auth._stores.services": "KeyringStore RedisStore open_store",
            "gateway_sdk.auth._stores.store": "MemoryStore PrivateFileStore TokenKey TokenStore",
            "gateway_sdk.auth.token": "AccessToken Token",
        },
    )
    del TYPE_CHECKING, lazy  # every other name is public
