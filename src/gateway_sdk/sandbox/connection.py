"""Losing the connection on purpose: on a socket the real one, in process what httpx would raise."""

from collections.abc import AsyncIterator, Callable
from typing import cast

import httpx
from starlette.types import Receive, Scope

# Under this name the scope's extensions carry the function that closes the connection, if any.
HANG_UP = "gateway_sdk.sandbox.hang_up"


async def hang_up(scope: Scope, receive: Receive, in_process: httpx.TransportError) -> None:
    """Close the connection of *scope* and return when it is gone.

    Raises:
        httpx.TransportError: *in_process*, where there is no connection to close.
    """
    close = cast("Callable[[], None] | None", scope.get("extensions", {}).get(HANG_UP))
    if close is None:
        raise in_process
    close()
    # The server must have noticed before the app returns: else it would answer for the app.
    while (await receive())["type"] != "http.disconnect":
        pass


class BodyCutError(httpx.RemoteProtocolError):
    """The reply broke off in its body: what had come until then."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        super().__init__("peer closed connection without sending complete message body")
        self.status = status
        self.headers = headers
        self.body = body


class InProcessTransport(httpx.ASGITransport):
    """An ASGITransport that shows a cut body as a socket does: status and headers, then the error.

    httpx's own runs the app to its end before there is a response, so the status would be lost.
    """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer *request*."""
        try:
            return await super().handle_async_request(request)
        except BodyCutError as cut:
            return httpx.Response(cut.status, headers=cut.headers, stream=_CutStream(cut))


class _CutStream(httpx.AsyncByteStream):
    def __init__(self, cut: BodyCutError) -> None:
        self._cut = cut

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._cut.body
        raise self._cut
