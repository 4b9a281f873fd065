"""One request and its reply on a connection: sends, looks for an early reply, and reads."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import suppress
from typing import Final, NoReturn, Self, cast

import httpx

from gateway_sdk._cancellation import OwnCancellation
from gateway_sdk._transport.connection import MOST_UNREAD, Connection
from gateway_sdk._transport.reply_reader import ReplyReader
from gateway_sdk._transport.transmission import Transmission, UnreadableReplyError

_REDIRECTED: Final = 300
_REFUSED: Final = 400
_SMALL: Final = 2**16  # bytes of head and content that a server reads at once


class Exchange:
    __slots__ = (
        "_connection",
        "_gives_up",
        "_has_begun",
        "_is_sent",
        "_left_at_once",
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
        self._connection = connection  # used by nobody else until the reply has ended
        self._transmission = transmission
        self._write_timeout = write
        self._read_timeout = read
        self.reply = ReplyReader()
        self._has_begun = self._is_sent = self._gives_up = self._left_at_once = False

    @property
    def can_be_reused(self) -> bool:
        # After an early refusal, servers close a connection whose upload they have not read. What
        # left in one small write was read with the head: a 404 must not cost a TLS handshake.
        was_read = self.reply.status < _REFUSED or self._left_at_once
        return self._is_sent and was_read and self.reply.can_be_reused

    async def send(
        self, head: bytes, content: bytes | httpx.AsyncByteStream, length: int | None
    ) -> None:
        # An early reply with an error status ends the sending. After an early success the rest is
        # sent too, because the server may need it, until the server closes the connection or the
        # time-out for a piece passes. The first piece leaves together with the head.
        if isinstance(content, bytes):
            self._is_sent = self._put(head + content)
            if not self._connection.can_write:
                await self._flush()
        else:
            pieces = _WatchedPieces(content, self._connection, self._is_overtaken)
            with suppress(_OvertakenError):
                await self._send_pieces(head, pieces, length)
        while not self.reply.status:
            if (news := self._read_on()) is not None:
                await news

    async def _send_pieces(
        self, head: bytes, content: AsyncIterable[bytes], length: int | None
    ) -> None:
        caller = cast("asyncio.Task[object]", asyncio.current_task())
        cancelled = caller.cancelling()
        unsent, left = head, length
        async for piece in content:
            # A content that cancels its own caller: the error is raised at the next wait.
            if caller.cancelling() > cancelled:
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
        while not self.reply.buffered:
            if self.reply.is_whole:
                return b""
            if (news := self._read_on()) is not None:
                await news
        return self.reply.take()

    @property
    def _is_unwanted(self) -> bool:
        """Whether the rest of the request need not be sent (RFC 9112, 9.3)."""
        reply = self.reply
        return (
            reply.status >= _REDIRECTED
            or reply.failure is not None
            or self._gives_up
            or self._connection.is_closing
        )

    def _is_overtaken(self) -> bool:
        """Look for the reply while the content is waited for; what was not begun has none."""
        if self._has_begun:
            self._look()
        return self._has_begun and self._is_unwanted

    async def _write(self, data: bytes) -> bool:
        is_wanted = self._put(data)
        await self._flush()
        return is_wanted

    def _put(self, data: bytes) -> bool:
        """Send a piece and return True; return False if the reply makes it unnecessary."""
        self._left_at_once = not self._has_begun and len(data) <= _SMALL
        if not self._has_begun:
            self._begin()
        else:
            self._look()
            if self._is_unwanted:
                return False
        self._connection.write(data)
        return True

    async def _flush(self) -> None:
        """Wait until the system takes more data, unless the reply makes that unnecessary."""
        while not (self._connection.can_write or self._is_unwanted):
            await self._wait_for_writing()
            self._look()

    async def _wait_for_writing(self) -> None:
        try:
            await self._connection.wait_to_write(self._write_timeout)
        except TimeoutError:
            if not self.reply.status:
                raise httpx.WriteTimeout("") from None
            self._gives_up = True

    def _begin(self) -> None:
        if not self._connection.is_quiet:
            self._refuse()
        self._transmission.check()
        self._has_begun = self._transmission.sent = True
        if self._transmission.on_sent is not None:
            self._transmission.end_turn()

    def _refuse(self) -> NoReturn:
        if early := self._connection.take():  # it cannot be the reply
            self.reply.receive(early)
            reason = self.reply.failure or "it sent bytes before the request"
            raise httpx.ConnectError("") from UnreadableReplyError(reason)
        raise httpx.ConnectError("the connection was closed") from self._connection.failure

    def _look(self) -> None:
        """Take received bytes of the reply while the request is sent, up to a limit."""
        if self.reply.buffered > MOST_UNREAD:
            return
        if data := self._connection.take():
            self._receive(data)

    def _read_on(self) -> asyncio.Future[None] | None:
        """Read what has come; if there is nothing, return what to wait for."""
        if self.reply.failure is not None:
            raise UnreadableReplyError(self.reply.failure)
        connection = self._connection
        if not connection.has_news:
            return connection.wait(self._read_timeout, httpx.ReadTimeout)
        if data := connection.take():
            self._receive(data)
        elif connection.failure is not None:
            raise httpx.ReadError(type(connection.failure).__name__) from connection.failure
        else:
            self.reply.receive_end(cleanly=connection.is_clean)
        return None

    def _receive(self, data: bytes) -> None:
        self.reply.receive(data)
        self._transmission.status = self.reply.status or None


class _OvertakenError(Exception):
    """The reply came while a piece was waited for: the rest is of no use."""


class _WatchedPieces(AsyncIterator[bytes]):
    """Pieces to send over a connection; the wait for one ends when it is of no use any more."""

    __slots__ = (
        "_cancellation",
        "_connection",
        "_is_useless",
        "_next",
        "_pieces",
    )

    def __init__(
        self,
        pieces: AsyncIterable[bytes],
        connection: Connection,
        is_useless: Callable[[], bool],
    ) -> None:
        self._pieces = pieces
        self._connection = connection
        self._is_useless = is_useless  # asked when something happens on the connection
        self._cancellation = OwnCancellation()

    def __aiter__(self) -> Self:
        # Not before: content that has begun may be impossible to send again.
        self._next = aiter(self._pieces).__anext__
        return self

    async def __anext__(self) -> bytes:
        self._connection.on_event = self._cut
        try:
            return await self._next()
        except asyncio.CancelledError as error:
            if self._cancellation.take_back(type(error)):
                raise _OvertakenError from None
            raise  # it comes from others
        finally:
            self._connection.on_event = None
            self._cancellation.take_back(None)

    def _cut(self) -> None:
        """Cancel the wait, as a time-out does: the task itself reads the pieces."""
        if self._is_useless():
            self._cancellation.cancel()
