"""The six areas of the gateway: coroutine methods that know only how to send."""

from gateway_sdk.areas._area import Send
from gateway_sdk.areas._areas import Areas

__all__ = ["Areas", "Send"]
