"""What is sent through httpx: by the user's own transports and clients, and in tests with a mock.

They do not report what was sent. respx replaces a method of httpcore's pool; pytest-httpx and vcrpy
replace one of httpx's transport. Tracers wrap the same method in production, and must not change
how a session sends.
"""

import sys
from collections.abc import AsyncIterator, Generator, Iterable
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, Protocol

import httpx

from gateway_sdk._http.reply import RawReply, index_of
from gateway_sdk._python import Log
from gateway_sdk._transport.transmission import EXTENSION, Request
from gateway_sdk.errors import SessionStateError, misused
from gateway_sdk.rate_limit import RateLimiter

_logger = Log("gateway_sdk")

_LIBRARIES: Final = ("httpx", "httpx2")
_MOCKS: Final = frozenset({"pytest_httpx", "respx", "vcr"})
_ORIGINALS: Final = frozenset({"httpcore", "httpx"})
_DECODED: Final = ("content-encoding", "content-length", "transfer-encoding")


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


class ClientTransport:
    """Sends through the user's own `AsyncClient`, with its hooks and with tools that patch it."""

    # Redirects and the client's authentication are off. The client is not closed here.

    def __init__(self, client: Any, library: Any) -> None:
        self._client = client
        self._library = library

    async def handle_async_request(self, request: Any) -> Any:
        if self._client.is_closed:
            closed = client_closed()
            request.extensions[EXTENSION].failed_unsent = closed
            raise closed
        try:
            return await self._client.send(request, auth=None, follow_redirects=False, stream=True)
        except self._library.HTTPStatusError as error:  # from a hook: here a status is no error
            if error.request is not request:  # the status of another request, which the hook made
                raise
            response = error.response
            if response.is_stream_consumed:
                return response
            return with_content(response, b"", self._library)  # the client has closed it

    async def aclose(self) -> None:
        """Leave the client open: it is its owner's."""


def client_closed() -> SessionStateError:
    return misused("the http_client of the session was closed by its owner")


class CustomTransport:
    def __init__(
        self,
        transport: AnyTransport,
        limiter: RateLimiter | None,
        library: Any = httpx,
        *,
        tells_what_was_sent: bool = False,
    ) -> None:
        self._transport = transport
        self._limiter = limiter
        self._library = library  # of the transport: httpx or httpx2
        self._tells_what_was_sent = tells_what_was_sent

    async def prepare(self) -> None:
        """Do nothing: what the user gave is ready."""

    async def connect(self, request: Request) -> bool:  # noqa: ARG002 - it opens none
        """Do nothing, and say so: httpx has no way to open a connection without a request."""
        return False

    async def exchange(self, request: Request) -> RawReply:
        transmission = request.transmission
        may_be_sent, transmission.sent = transmission.sent, False  # while it waits, nothing is
        try:
            await transmission.admit(self._limiter)
            if not self._tells_what_was_sent:  # nor when
                transmission.end_turn()
            transmission.check()
            transmission.sent = may_be_sent
            transmission.is_awaited = self._tells_what_was_sent
            return await send_by_httpx(self._transport, request, self._library)
        finally:
            transmission.end_turn()

    async def aclose(self) -> None:
        await self._transport.aclose()


async def send_by_httpx(
    transport: AnyTransport, request: Request, library: Any = httpx
) -> RawReply:
    base, content = request.base, request.prepared.content
    url = base.address.copy_with(raw_path=request.prepared.target)
    stream = httpx.ByteStream(content) if isinstance(content, bytes) else content
    theirs = library.Request(
        base.method.decode(),
        url if library is httpx else str(url),
        headers=[*base.fields, *request.fields],
        extensions={"timeout": request.timeout.as_dict(), EXTENSION: request.transmission},
        # Another library makes a stream of its own.
        **({"stream": stream} if library is httpx else {"content": content}),
    )
    with _failures_of(library):
        response = unread(await transport.handle_async_request(theirs), library)
    body = response.stream if library is httpx else _Body(response.stream, library)
    fields = response.headers.raw
    return RawReply(response.status_code, fields, index_of(fields), body)


class _Body(httpx.AsyncByteStream):
    """The body of a reply of another library, as one of httpx."""

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
    except (library.HTTPError, library.InvalidURL) as error:
        if library is httpx:
            raise
        # One with a status cannot be made of a text alone: it becomes an HTTPError.
        kinds = (kind for kind in type(error).__mro__ if kind is not library.HTTPStatusError)
        name = next(kind.__name__ for kind in kinds if hasattr(httpx, kind.__name__))
        raise getattr(httpx, name)(str(error)) from None


def unread(response: Any, library: Any) -> Any:
    """Return a reply whose stream can be read: a new one with its content if it was read."""
    # Reading the stream again would wait for bytes on a connection that serves other requests.
    if not response.is_stream_consumed or isinstance(response.stream, library.ByteStream):
        return response
    return with_content(response, response.content, library)


def with_content(response: Any, content: bytes, library: Any) -> Any:
    """Return a reply with this content, which is decompressed already, in place of its stream."""
    headers = response.headers.copy()
    for name in _DECODED:
        headers.pop(name, None)
    return library.Response(response.status_code, headers=headers, content=content)


def has_mock(methods: Iterable[Any]) -> bool:
    """Tell whether one of the methods of httpx's network is that of a known mock."""
    packages = {_package_of(method) for method in methods if method}
    if packages & _MOCKS:
        return True
    for package in packages - _ORIGINALS:
        _warn_once(package)
    return False


def _package_of(method: Any) -> str:
    # wrapt's layers are known by the name of their class, because tracers carry copies of wrapt.
    # `inspect.unwrap` would go on, to what vcrpy has replaced with `functools.wraps`.
    while any(kind.__name__ == "ObjectProxy" for kind in type(method).__mro__):
        method = method.__wrapped__
    # The globals are those of the file that the code comes from, also after `functools.wraps`.
    module: str = getattr(method, "__globals__", {}).get("__name__") or type(method).__module__
    return module.partition(".")[0]


@cache
def _warn_once(package: str) -> None:
    _logger.warning(
        "%s has replaced the network of httpx, and gateway_sdk does not know it: calls still "
        "go to the gateway; to send them through httpx, give the session an http_client=",
        package,
    )
