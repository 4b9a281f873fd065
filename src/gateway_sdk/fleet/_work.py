"""What is done with each item: an operation, or a coroutine function."""

from typing import Any

from gateway_sdk.session import GatewaySession


class Work:
    """An operation or a function.

    Attributes:
        name: The name of the operation or of the function.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def dump(self, item: Any) -> str:
        """Return an item as JSON text, after checking it."""
        raise NotImplementedError

    async def call(self, gateway: GatewaySession, item: str) -> Any:
        """Make the call for an item, and return the value."""
        raise NotImplementedError
