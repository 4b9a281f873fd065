"""One request and its reply, over a connection of our own."""

import asyncio
from collections.abc import AsyncIterable
from typing import Final, cast

import httpx

from gateway_sdk._http.request import PIECE
from gateway_sdk._transport.connection import MOST_UNREAD, Connection
from gateway_sdk._transport.reply_reader import ReplyReader
from gateway_sdk._transport.transmission import Transmission, stream_of

_REDIRECTED: Final = 300


class Exchange:
    """Sends a request while it looks for the reply, and reads that.

    Attributes:
        reply: The reply, as far as it has come.
    """

    __slots__ = (
        "_connection",
        "_gives_up",
        "_has_begun",
        "_is_sent",
        "_read_timeout",
        "_transmission",
        "_write_timeout",
        "reply",
    )

    def __init__(
        self,
        connection: Connection,
        transmission: Transmission,
        *,
        write: float | None = None,
        read: float | None = None,
    ) -> None:
        """Prepare.

        Args:
            connection: Used by nothing else until the reply has ended.
            transmission: Is told what was sent, and the status, as soon as that is so.
            write: Seconds for the system to take a piece.
            read: Seconds for a part of the reply to come.
        """
        self._connection = connection
        self._transmission = transmission
        self._write_timeout = write
        self._read_timeout = read
        self.reply = ReplyReader()
        self._has_begun = self._is_sent = self._gives_up = False

    @property
    def can_be_followed(self) -> bool:
        """Whether the connection may serve another request."""
        return self._is_sent and self.reply.can_be_followed

    async def send(
        self, head: bytes, content: bytes | httpx.AsyncByteStream, length: int | None
    ) -> None:
        """Send a request, and wait for the head of its reply.

        A reply that is no success ends the sending. After an early success the rest is sent, too:
        the server may want it. Then the server decides by closing, or the time-out for a piece.

        Args:
            head: All of it.
            content: Bytes, or pieces, which are not closed here. What is there first leaves
                together with the head.
            length: Bytes of the content; None to send it in chunks.

        Raises:
            httpx.ConnectError: the connection was closed before; no byte left.
            httpx.LocalProtocolError: the content has another length.
            httpx.TransportError: it failed later, and the head of a reply did not come.
        """
        if isinstance(content, bytes) and len(content) <= PIECE:
            self._is_sent = await self._write(head + content)
        else:
            await self._send_pieces(head, stream_of(content), length)
        while not self.reply.status:
            await self._read_more()

    async def _send_pieces(
        self, head: bytes, content: AsyncIterable[bytes], length: int | None
    ) -> None:
        caller = cast("asyncio.Task[object]", asyncio.current_task())
        cancelled = caller.cancelling()
        unsent, left = head, length
        async for piece in content:
            if caller.cancelling() > cancelled:  # by the content itself, and it is not thrown yet
                await asyncio.sleep(0)
            if left is None:
                unsent += b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
            elif (left := left - len(piece)) < 0:
                raise httpx.LocalProtocolError("more content than its Content-Length")
            else:
                unsent += piece
            if not await self._write(unsent) or self._is_unwanted:
                break
            unsent = b""
        else:
            if left:
                raise httpx.LocalProtocolError("less content than its Content-Length")
            if left is None:
                unsent += b"0\r\n\r\n"
            self._is_sent = not unsent or await self._write(unsent)

    async def read(self) -> bytes:
        """Return what has come of the body, as soon as there is something; b"" at its end.

        Raises:
            httpx.TransportError: the rest does not come.
        """
        while not self.reply.buffered:
            if self.reply.is_whole:
                return b""
            await self._read_more()
        return self.reply.take()

    @property
    def _is_unwanted(self) -> bool:
        """Whether the rest of the request is of no use (RFC 9112, 9.3)."""
        reply = self.reply
        return (
            reply.status >= _REDIRECTED
            or reply.failure is not None
            or self._gives_up
            or self._connection.is_closing
        )

    async def _write(self, data: bytes) -> bool:
        """Send a piece and return True, unless the reply says that it is of no use."""
        if not self._has_begun:
            self._begin()
        else:
            self._look()
            if self._is_unwanted:
                return False
        self._connection.write(data)
        while not (self._connection.can_write or self._is_unwanted):
            await self._wait_for_writing()
            self._look()
        return True

    async def _wait_for_writing(self) -> None:
        try:
            await self._connection.wait(self._write_timeout)
        except TimeoutError:
            if not self.reply.status:
                raise httpx.WriteTimeout("") from None
            self._gives_up = True

    def _begin(self) -> None:
        """Say that it is sent, unless it cannot be, or something has come that is no reply."""
        if self._connection.is_closing or self._connection.has_unread:
            raise httpx.ConnectError("the connection was closed") from self._connection.failure
        self._has_begun = self._transmission.sent = True

    def _look(self) -> None:
        """Take what has come of the reply while the request is sent; not more than a part of it."""
        if self.reply.buffered > MOST_UNREAD:
            return
        if data := self._connection.take():
            self._receive(data)

    async def _read_more(self) -> None:
        if self.reply.failure is not None:
            raise httpx.RemoteProtocolError(self.reply.failure)
        try:
            data = await self._connection.read(self._read_timeout)
        except TimeoutError:
            raise httpx.ReadTimeout("") from None
        except OSError as error:
            raise httpx.ReadError(type(error).__name__) from error
        if data:
            self._receive(data)
        else:
            self.reply.receive_end(cleanly=self._connection.is_clean)

    def _receive(self, data: bytes) -> None:
        self.reply.receive(data)
        self._transmission.status = self.reply.status or None
