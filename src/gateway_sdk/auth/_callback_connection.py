"""One connection of a browser to the receiver: one request, one reply, HTTP by h11."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import h11

from gateway_sdk.auth._callback_handler import CallbackReply, CallbackRequest

MAX_HEAD: Final = 16 * 1024
"""Bytes of a request's head: browsers send one or two thousand."""

_MAX_LINES: Final = 100
"""Lines of a request's head: browsers send twenty, and thousands take milliseconds to parse."""

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
    reply_to_head: Callable[[CallbackRequest], CallbackReply | None],
    reply_to_body: Callable[[CallbackRequest], CallbackReply],
    replied: Callable[[], None],
) -> None:
    """Read a request, send its reply and close.

    Args:
        reader: The connection's input.
        writer: The connection's output.
        reply_to_head: Returns the reply to a request without its body; None to read the body.
        reply_to_body: Returns the reply to a whole request.
        replied: Called when the reply was sent, before the browser closes the connection.
    """
    http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
    with_body = True
    try:
        request = await _read_head(http, reader)
        with_body = request.method != "HEAD"
        reply = reply_to_head(request)
        if reply is None:
            reply = reply_to_body(replace(request, body=await _read_body(http, reader, request)))
    except _RefusedError as refused:
        reply = refused.reply
    except EOFError:  # browsers open connections in advance and close them unused
        return
    writer.write(_encode(http, reply, with_body=with_body))
    await writer.drain()
    writer.write_eof()
    replied()
    await _discard_rest(reader)


async def _read_head(http: h11.Connection, reader: asyncio.StreamReader) -> CallbackRequest:
    """Read a request's head.

    Raises:
        _RefusedError: It is not HTTP, or too long, or its body has no length.
        EOFError: The browser closed the connection without sending one.
    """
    head = await _next(http, reader, MAX_HEAD)
    if not isinstance(head, h11.Request):
        raise EOFError  # noqa: TRY004 - not a wrong type, but the end of the connection
    request = CallbackRequest(
        method=head.method.decode("ascii"),
        target=head.target.decode("latin-1"),
        headers=tuple((n.decode("ascii"), v.decode("latin-1")) for n, v in head.headers),
    )
    # Chunks of one byte cost 3 microseconds each, and no browser sends a page's JSON in chunks.
    if request.header("transfer-encoding") is not None:
        raise _RefusedError(CallbackReply(411, b"Only a body with Content-Length.\n"))
    return request


async def _read_body(
    http: h11.Connection, reader: asyncio.StreamReader, request: CallbackRequest
) -> bytes:
    """Read a request's body.

    Raises:
        _RefusedError: It is too long, or the browser closed the connection before its end.
    """
    if int(request.header("content-length") or 0) > MAX_BODY:
        raise _RefusedError(CallbackReply(413, b"Too long.\n"))
    body = bytearray()
    while isinstance(event := await _next(http, reader, MAX_BODY), h11.Data):
        body += event.data
    return bytes(body)


async def _next(http: h11.Connection, reader: asyncio.StreamReader, limit: int) -> object:
    """Return the next event; read from the connection as needed, up to a limit in bytes."""
    try:
        while (event := http.next_event()) is h11.NEED_DATA:
            # h11 limits what is incomplete only; after the last byte, it needs no data.
            room = limit - len(http.trailing_data[0])
            if not room:
                raise _RefusedError(CallbackReply(431, b"Too long.\n"))
            http.receive_data(await reader.read(min(room, _PIECE)))
            head, _, _ = http.trailing_data[0].partition(b"\r\n\r\n")
            if http.their_state is h11.IDLE and head.count(b"\n") >= _MAX_LINES:
                raise _RefusedError(CallbackReply(431, b"Too many lines.\n"))
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
