"""A token in the keyring of the operating system; needs the extra [keyring]."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from gateway_sdk._repr import safe_repr
from gateway_sdk.auth.stores.base import TokenKey, dump, parse
from gateway_sdk.auth.token import Token
from gateway_sdk.errors import ConfigurationError, TokenStoreError

T = TypeVar("T")

SERVICE: Final = "gateway-sdk"


class KeyringStore:
    """Keeps a token in the keychain, the credential locker or the secret service.

    There is no other place: where there is no keyring, it says so.
    """

    def __init__(self, key: TokenKey) -> None:
        """Take the key under which the keyring keeps the token.

        Raises:
            ConfigurationError: the extra [keyring] is not installed.
        """
        try:
            # Imported here, because it comes with an extra and takes as long as httpx.
            import keyring  # noqa: PLC0415
        except ModuleNotFoundError:
            raise ConfigurationError(
                "the keyring needs the extra [keyring]: pip install 'gateway-sdk[keyring]'"
            ) from None
        self.key = key
        self._keyring = keyring

    async def load(self) -> Token | None:
        """Return the token; None if there is none.

        Raises:
            TokenStoreError: there is no keyring, it is locked, or what it holds is broken.
        """
        text = await self._do(self._keyring.get_password)
        if text is None:
            return None
        return parse(text, self.key, "the keyring")

    async def save(self, token: Token) -> None:
        """Keep a token in place of the one before.

        Raises:
            TokenStoreError: the keyring does not take it.
        """
        await self._do(self._keyring.set_password, dump(token, self.key).decode())

    async def delete(self) -> None:
        """Forget the token, if there is one.

        Raises:
            TokenStoreError: the keyring cannot be reached.
        """
        if await self._do(self._keyring.get_password) is not None:
            await self._do(self._keyring.delete_password)

    async def _do(self, what: Callable[..., T], *arguments: str) -> T:
        return await asyncio.to_thread(self._locked, what, *arguments)

    def _locked(self, what: Callable[..., T], *arguments: str) -> T:
        """Use the keyring; it may ask the person to unlock it, so not in the event loop."""
        try:
            self._refuse_pretenders(self._keyring.get_keyring())
            return what(SERVICE, self.key.digest, *arguments)
        except TokenStoreError:
            raise
        except Exception as error:  # noqa: BLE001 - each backend has its own
            kind = type(error).__name__
            raise TokenStoreError(f"the keyring cannot be used here: {kind}") from None

    def _refuse_pretenders(self, backend: Any) -> None:
        """Refuse what only looks like a keyring: whoever wants a file has one that is private."""
        for part in getattr(backend, "backends", [backend]):
            if "plaintext" in type(part).__name__.lower():
                raise TokenStoreError(
                    "the keyring here is a plain file: use PrivateFileStore, or another backend"
                )
            if type(part).__module__ == "keyring.backends.null":
                raise TokenStoreError("the keyring here is switched off: it would keep nothing")

    @safe_repr
    def __repr__(self) -> str:
        return f"<KeyringStore {SERVICE}/{self.key.digest}>"
