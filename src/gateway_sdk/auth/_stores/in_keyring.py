"""The store in the system's keyring."""

from typing import Any, Final

from gateway_sdk._python import safe_repr
from gateway_sdk._waiting import hiding_frames, in_turn
from gateway_sdk.auth._stores.store import TokenKey, dump, parse
from gateway_sdk.auth.token import Token
from gateway_sdk.errors import GatewayError, TokenStoreError, needing_extra

_SERVICE: Final = "gateway-sdk"


class KeyringStore:
    """Stores a token in the keychain, the credential locker or the secret service.

    Without a keyring it raises an error; it never falls back to a file.
    """

    def __init__(self, key: TokenKey) -> None:
        """Set the key of the entry; MissingExtraError if the extra [keyring] is not installed."""
        with needing_extra("keyring", "the keyring"):
            import keyring  # noqa: PLC0415 - it takes as long as httpx
        self.key = key
        self._keyring = keyring

    @hiding_frames(GatewayError)
    async def load(self) -> Token | None:
        """Return the token; None if there is none."""
        return parse(await self._call("get_password"), self.key, "the keyring")

    @hiding_frames(GatewayError)
    async def save(self, token: Token) -> None:
        """Replace the stored token."""
        await self._call("set_password", dump(token, self.key).decode())

    @hiding_frames(GatewayError)
    async def delete(self) -> None:
        """Delete the token, if there is one."""
        if await self._call("get_password") is None:
            return
        try:
            await self._call("delete_password")
        except TokenStoreError:
            # Another process may have deleted it first.
            if await self._call("get_password") is not None:
                raise

    async def _call(self, name: str, *arguments: str) -> Any:
        """Call a method of the keyring in a thread: it may wait until the user unlocks it."""

        def call() -> Any:
            method = getattr(_usable(self._keyring.get_keyring()), name)
            return method(_SERVICE, self.key.digest, *arguments)

        try:
            what = name, arguments
            return await in_turn("gateway_sdk-keyring", self.key.digest, what, call)
        except TokenStoreError:
            raise
        except Exception as error:  # noqa: BLE001 - each backend raises its own errors
            kind = type(error).__name__
            raise TokenStoreError(f"the keyring cannot be used here: {kind}") from None

    @safe_repr
    def __repr__(self) -> str:
        return f"<KeyringStore {_SERVICE}/{self.key.digest}>"


def _usable(backend: Any) -> Any:
    """Return a keyring: of a chain, the first that is neither a plain file nor switched off."""
    problem = "the keyring here has no backend"
    for part in getattr(backend, "backends", [backend]):
        if "plaintext" in type(part).__name__.lower():
            problem = "the keyring here is a plain file: use PrivateFileStore, or another backend"
        elif type(part).__module__ == "keyring.backends.null":
            problem = "the keyring here is switched off: it stores nothing"
        else:
            return part
    raise TokenStoreError(problem)
