"""A token in memory, for as long as the process lives."""

from typing import NoReturn

from gateway_sdk.auth.stores.base import TokenKey
from gateway_sdk.auth.token import Token


class MemoryStore:
    """Keeps a token in this process; another one does not see it."""

    def __init__(self, key: TokenKey | None = None) -> None:
        self.key = key
        self._token: Token | None = None

    async def load(self) -> Token | None:
        """Return the token; None if there is none."""
        return self._token

    async def save(self, token: Token) -> None:
        """Keep a token in place of the one before."""
        self._token = token

    async def delete(self) -> None:
        """Forget the token."""
        self._token = None

    def __repr__(self) -> str:
        return "<MemoryStore>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a MemoryStore holds a secret: it is not pickled")
