"""The user's own transports and clients: they send, but nothing is known of how."""

from typing import Final

import httpx

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
            return _read_already(error.response, b"")
        if response.is_stream_consumed:  # by a hook, which leaves the content
            return _read_already(response, response.content)
        return response


def _read_already(response: httpx.Response, content: bytes) -> httpx.Response:
    """Return a reply with its content, which is decompressed by now."""
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name.lower() not in _DECODED
    ]
    return httpx.Response(response.status_code, headers=headers, content=content)
