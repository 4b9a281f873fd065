"""The user's own transports and clients, which do not report what was sent."""

import sys
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from typing import Any, Final, Protocol

import httpx

from gateway_sdk._http.reply import RawReply
from gateway_sdk._transport.transmission import (
    Request,
    Transmission,
    send_by_httpx,
    unread,
    with_content,
)
from gateway_sdk.rate_limit import Limiter

_LIBRARIES: Final = ("httpx", "httpx2")


class AnyTransport(Protocol):
    """An `httpx.AsyncBaseTransport`, or that of httpx2, as type checkers see both."""

    async def handle_async_request(self, request: Any, /) -> Any: ...

    async def aclose(self) -> None: ...


class AnyClient(Protocol):
    """An `httpx.AsyncClient`, or that of httpx2, as type checkers see both."""

    @property
    def is_closed(self) -> bool: ...

    async def send(
        self, request: Any, /, *, stream: bool = ..., auth: Any = ..., follow_redirects: Any = ...
    ) -> Any: ...


def library_of(given: object, kind: str) -> Any:
    """Return the library (httpx or httpx2) that has the class of an object; None if none has it."""
    loaded = filter(None, map(sys.modules.get, _LIBRARIES))
    return next((one for one in loaded if isinstance(given, getattr(one, kind))), None)


def transport_of(given: Any, client: Any) -> httpx.AsyncBaseTransport:
    """Return the user's transport, or that of the user's client, as one of httpx."""
    if client is None:
        library = library_of(given, "AsyncBaseTransport")
    else:
        library = library_of(client, "AsyncClient")
        given = ClientTransport(client, library)
    transport: httpx.AsyncBaseTransport = given
    return transport if library is httpx else _Adapter(given, library)


class ClientTransport(httpx.AsyncBaseTransport):
    """Sends through the user's own `AsyncClient`, with its hooks and with tools that patch it."""

    # Redirects and the client's authentication are off. The client is not closed here. Requests
    # and replies are those of the client's library.

    def __init__(self, client: Any, library: Any) -> None:
        self._client = client
        self._library = library

    async def handle_async_request(self, request: Any) -> Any:
        try:
            response = await self._client.send(
                request, auth=None, follow_redirects=False, stream=True
            )
        except self._library.HTTPStatusError as error:  # from a hook: here a status is no error
            response = error.response
            if not response.is_stream_consumed:  # the client has closed it
                return with_content(response, b"", self._library)
        return unread(response, self._library)


class _Adapter(httpx.AsyncBaseTransport):
    """A transport of another library with the same classes, as one of httpx."""

    def __init__(self, transport: Any, library: Any) -> None:
        self._transport = transport
        self._library = library

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request through the transport; errors become those of httpx."""
        stream: Any = request.stream
        theirs = self._library.Request(
            request.method,
            str(request.url),
            headers=request.headers.raw,
            content=b"".join(stream) if isinstance(stream, httpx.ByteStream) else stream,
            extensions=request.extensions,
        )
        with _failures_of(self._library):
            response = unread(await self._transport.handle_async_request(theirs), self._library)
        body = _AdaptedBody(response.stream, self._library)
        return httpx.Response(response.status_code, headers=response.headers.raw, stream=body)

    async def aclose(self) -> None:
        await self._transport.aclose()


class _AdaptedBody(httpx.AsyncByteStream):
    def __init__(self, stream: Any, library: Any) -> None:
        self._stream = stream
        self._library = library

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _failures_of(self._library):
            async for chunk in self._stream:
                yield chunk

    async def aclose(self) -> None:
        with _failures_of(self._library):
            await self._stream.aclose()


@contextmanager
def _failures_of(library: Any) -> Generator[None]:
    """Raise the errors of another library as those of httpx with the same name."""
    try:
        yield
    except (library.RequestError, library.InvalidURL) as error:
        name = next(kind.__name__ for kind in type(error).__mro__ if hasattr(httpx, kind.__name__))
        raise getattr(httpx, name)(str(error)) from None


class CustomTransport:
    def __init__(
        self,
        transport: httpx.AsyncBaseTransport,
        limiter: Limiter | None,
        *,
        tells_what_was_sent: bool = False,
    ) -> None:
        self._transport = transport
        self._limiter = limiter
        self._tells_what_was_sent = tells_what_was_sent

    async def exchange(self, request: Request) -> RawReply:
        transmission = request.transmission
        if self._limiter is not None or transmission.on_admitted is not None:
            await self._admit(transmission)
        transmission.is_awaited = self._tells_what_was_sent
        return await send_by_httpx(self._transport, request)

    async def _admit(self, transmission: Transmission) -> None:
        may_be_sent, transmission.sent = transmission.sent, False  # while it waits, nothing is
        try:
            if self._limiter is not None:
                await transmission.enter(self._limiter)
            if transmission.on_admitted is not None:
                await transmission.on_admitted()
        finally:
            transmission.end_turn()
        transmission.sent = may_be_sent

    async def aclose(self) -> None:
        await self._transport.aclose()
