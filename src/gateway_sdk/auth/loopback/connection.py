"""One connection of a browser: one request, one reply, HTTP by h11, bounded in every way."""

import asyncio
from collections.abc import Callable
from typing import Final

import h11

from gateway_sdk.auth.loopback.desk import Reply, Request

MAX_HEAD: Final = 16 * 1024
"""Bytes of a request's head: those of browsers have one or two thousand."""

MAX_BODY: Final = 80 * 1024
"""Bytes of a request's body: the longest answer that is read, in JSON."""

_MAX_REST: Final = 256 * 1024
"""Bytes that are read and forgotten behind a request that was turned away, so that the reply is
not lost on who is still sending."""

_PIECE: Final = 16 * 1024


class _TurnedAwayError(Exception):
    """The request will not be read to its end."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.reply = reply


async def serve(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    answer: Callable[[Request], Reply],
    replied: Callable[[], None],
) -> None:
    """Read a request, send its reply and close.

    Args:
        reader: What comes.
        writer: What goes.
        answer: Makes the reply.
        replied: Called when the reply is on its way, before the other side has closed.
    """
    http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
    with_body = True
    try:
        request = await _read(http, reader)
        reply = answer(request)
        with_body = request.method != "HEAD"
    except _TurnedAwayError as turned:
        reply = turned.reply
    except EOFError:  # a preconnection that was not needed after all
        return
    writer.write(_frame(http, reply, with_body=with_body))
    await writer.drain()
    writer.write_eof()
    replied()
    await _forget_the_rest(reader)


async def _read(http: h11.Connection, reader: asyncio.StreamReader) -> Request:
    """Read one request.

    Raises:
        _TurnedAwayError: it is no HTTP, or too long.
        EOFError: the other side closed without sending one.
    """
    head = _checked(await _next(http, reader))
    body = b""
    while not isinstance(event := await _next(http, reader), h11.EndOfMessage):
        body += event.data if isinstance(event, h11.Data) else b""
        if len(body) > MAX_BODY:
            raise _TurnedAwayError(Reply(413, b"Too long.\n"))
    return Request(
        method=head.method.decode("ascii"),
        target=head.target.decode("latin-1"),
        headers=tuple((n.decode("ascii"), v.decode("latin-1")) for n, v in head.headers),
        body=body,
    )


def _checked(head: object) -> h11.Request:
    """Return a head that leaves no doubt about where the request ends (RFC 9112, 6.1)."""
    if not isinstance(head, h11.Request):
        raise EOFError  # noqa: TRY004 - it is no wrong type, but the end of the connection
    names = [name for name, _ in head.headers]
    if b"content-length" in names and b"transfer-encoding" in names:
        raise _TurnedAwayError(Reply(400, b"Two lengths.\n"))
    return head


async def _next(http: h11.Connection, reader: asyncio.StreamReader) -> object:
    """Return the next event, reading as much as it takes."""
    try:
        while (event := http.next_event()) is h11.NEED_DATA:
            http.receive_data(await reader.read(_PIECE))
    except h11.RemoteProtocolError as error:
        reply = Reply(error.error_status_hint, b"That is no request.\n")
        raise _TurnedAwayError(reply) from None
    return event


def _frame(http: h11.Connection, reply: Reply, *, with_body: bool) -> bytes:
    """Return the bytes of a reply, which may be one to something that was no request."""
    headers = [*reply.headers.items(), ("Connection", "close")]
    head = http.send(h11.Response(status_code=reply.status, headers=headers))
    return b"".join(filter(None, [head, reply.body if with_body else b""]))


async def _forget_the_rest(reader: asyncio.StreamReader) -> None:
    left = _MAX_REST
    while left > 0 and (piece := await reader.read(_PIECE)):
        left -= len(piece)
