"""One connection of a browser to the receiver: one request, one reply, HTTP by h11."""

import asyncio
from collections.abc import Callable
from typing import Final

import h11

from gateway_sdk.auth._callback_handler import CallbackReply, CallbackRequest

MAX_HEAD: Final = 16 * 1024
"""Bytes of a request's head: browsers send one or two thousand."""

MAX_BODY: Final = 80 * 1024
"""Bytes of a request's body: the longest response that is read, in JSON."""

_MAX_DISCARDED: Final = 256 * 1024
"""Bytes that are read and discarded after a refused request: a client that is still sending can
then read the reply."""

_PIECE: Final = 16 * 1024


class _RefusedError(Exception):
    """The request is refused before its end was read."""

    def __init__(self, reply: CallbackReply) -> None:
        super().__init__()
        self.reply = reply


async def serve(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    handle: Callable[[CallbackRequest], CallbackReply],
    replied: Callable[[], None],
) -> None:
    """Read a request, send its reply and close.

    Args:
        reader: The connection's input.
        writer: The connection's output.
        handle: Returns the reply to a request.
        replied: Called when the reply was sent, before the browser closes the connection.
    """
    http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
    with_body = True
    try:
        request = await _read(http, reader)
        reply = handle(request)
        with_body = request.method != "HEAD"
    except _RefusedError as refused:
        reply = refused.reply
    except EOFError:  # browsers open connections in advance and close them unused
        return
    writer.write(_encode(http, reply, with_body=with_body))
    await writer.drain()
    writer.write_eof()
    replied()
    await _discard_rest(reader)


async def _read(http: h11.Connection, reader: asyncio.StreamReader) -> CallbackRequest:
    """Read one request.

    Raises:
        _RefusedError: It is not HTTP, or too long.
        EOFError: The browser closed the connection without sending one.
    """
    head = _checked(await _next(http, reader))
    body = b""
    while not isinstance(event := await _next(http, reader), h11.EndOfMessage):
        body += event.data if isinstance(event, h11.Data) else b""
        if len(body) > MAX_BODY:
            raise _RefusedError(CallbackReply(413, b"Too long.\n"))
    return CallbackRequest(
        method=head.method.decode("ascii"),
        target=head.target.decode("latin-1"),
        headers=tuple((n.decode("ascii"), v.decode("latin-1")) for n, v in head.headers),
        body=body,
    )


def _checked(head: object) -> h11.Request:
    """Return the head; refuse one with two lengths, whose end is ambiguous (RFC 9112, 6.1)."""
    if not isinstance(head, h11.Request):
        raise EOFError  # noqa: TRY004 - not a wrong type, but the end of the connection
    names = [name for name, _ in head.headers]
    if b"content-length" in names and b"transfer-encoding" in names:
        raise _RefusedError(CallbackReply(400, b"Two lengths.\n"))
    return head


async def _next(http: h11.Connection, reader: asyncio.StreamReader) -> object:
    """Return the next event; read from the connection as needed."""
    try:
        while (event := http.next_event()) is h11.NEED_DATA:
            http.receive_data(await reader.read(_PIECE))
    except h11.RemoteProtocolError as error:
        reply = CallbackReply(error.error_status_hint, b"Not an HTTP request.\n")
        raise _RefusedError(reply) from None
    return event


def _encode(http: h11.Connection, reply: CallbackReply, *, with_body: bool) -> bytes:
    """Return the bytes of a reply; the input may not have been a valid request."""
    headers = [*reply.headers.items(), ("Connection", "close")]
    head = http.send(h11.Response(status_code=reply.status, headers=headers))
    return b"".join(filter(None, [head, reply.body if with_body else b""]))


async def _discard_rest(reader: asyncio.StreamReader) -> None:
    remaining = _MAX_DISCARDED
    while remaining > 0 and (piece := await reader.read(_PIECE)):
        remaining -= len(piece)
