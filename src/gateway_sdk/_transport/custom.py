"""The user's own transports and clients: they send, but nothing is known of how."""

from typing import Final

import httpx

from gateway_sdk._transport.admission import RateLimiter
from gateway_sdk._transport.transmission import EXTENSION, Transmission

_DECODED: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class ClientTransport(httpx.AsyncBaseTransport):
    """Send through the user's own `httpx.AsyncClient`, for its hooks and whatever patches it.

    Redirects and the client's authentication are off. It is never closed here.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request as it is and return the reply, read or unread."""
        try:
            response = await self._client.send(
                request, auth=None, follow_redirects=False, stream=True
            )
        except httpx.HTTPStatusError as error:  # raised by a hook: to us a status is an answer
            return _read_already(error.response)
        return _read_already(response) if response.is_stream_consumed else response


class PacedTransport(httpx.AsyncBaseTransport):
    """A transport of the user's that sends no faster than a limit allows."""

    def __init__(self, transport: httpx.AsyncBaseTransport, limiter: RateLimiter) -> None:
        self._transport = transport
        self._limiter = limiter

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Wait for the turn of the request, and hand it on."""
        transmission: Transmission = request.extensions[EXTENSION]
        transmission.sent = False  # of what is still in the queue this much is known
        await self._limiter.enter()
        transmission.sent = True
        return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the transport behind."""
        await self._transport.aclose()


def _read_already(response: httpx.Response) -> httpx.Response:
    """Return a reply that a hook is done with, with the content that it read, if it did."""
    content = response.content if response.is_stream_consumed else b""
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name.lower() not in _DECODED
    ]
    return httpx.Response(response.status_code, headers=headers, content=content)
