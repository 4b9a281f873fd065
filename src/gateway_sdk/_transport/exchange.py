"""One request and its reply on a connection: sends, looks for an early reply, and reads."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Final

import httpx

from gateway_sdk._transport.connection import MOST_UNREAD, Connection
from gateway_sdk._transport.reply_reader import ReplyReader
from gateway_sdk._transport.transmission import Transmission, UnreadableReplyError
from gateway_sdk._waiting import OwnCancellation

_REDIRECTED: Final = 300
_REFUSED: Final = 400
_SMALL: Final = 2**16  # bytes of head and content that a server reads at once


class Exchange(httpx.AsyncByteStream):
    # As a stream, it gives the body of the reply.

    on_end: Callable[["Exchange"], None] | None = None  # called once, when the stream is closed

    def __init__(
        self, connection: Connection, transmission: Transmission, timeout: httpx.Timeout
    ) -> None:
        self.connection = connection  # used by nobody else until the reply has ended
        self._transmission = transmission
        self._timeout = timeout
        self.reply = ReplyReader()
        self._has_begun = self._is_sent = self._gives_up = self._left_at_once = False

    def can_be_reused(self) -> bool:
        # After an early refusal, servers close a connection whose upload they have not read. What
        # left in one small write was read with the head: a 404 must not cost a TLS handshake.
        was_read = self.reply.status < _REFUSED or self._left_at_once
        is_sent = self._is_sent and (self._left_at_once or self.connection.has_sent_all())
        return is_sent and was_read and self.reply.can_be_reused()

    async def send(
        self, head: bytes, content: bytes | httpx.AsyncByteStream, length: int | None
    ) -> None:
        # An early reply with an error status ends the sending. After an early success the rest is
        # sent too, because the server may need it, until the server closes the connection or the
        # time-out for a chunk passes. The first chunk leaves together with the head.
        if isinstance(content, bytes):
            self._is_sent = self._put(head + content)
            if not self.connection.can_write():
                await self._flush()
        else:
            with suppress(_OvertakenError):
                await self._send_chunks(head, content, length)
        while not self.reply.status:
            if (news := self._read_on()) is not None:
                await news
        if not (self._left_at_once or self._reply_is_final or self.connection.has_sent_all()):
            self.connection.limit_unsent(0)
            await self._flush()
            self.connection.limit_unsent(None)

    async def _send_chunks(
        self, head: bytes, content: AsyncIterable[bytes], length: int | None
    ) -> None:
        # Not before: content that has begun may be impossible to send again.
        chunks, cut = aiter(content), OwnCancellation()
        unsent, left = head, length
        while True:
            chunk = await self._next_chunk(chunks, cut)
            await cut.raise_that_of_others()  # of content that cancels its own caller
            if chunk is None:
                break
            if left is None:
                unsent += b"%x\r\n%b\r\n" % (len(chunk), chunk) if chunk else b""
            elif (left := left - len(chunk)) < 0:
                raise httpx.LocalProtocolError("more content than its Content-Length")
            else:
                unsent += chunk
            if not await self._write(unsent) or self._reply_is_final:
                return
            unsent = b""
        if left:
            raise httpx.LocalProtocolError("less content than its Content-Length")
        if left is None:
            unsent += b"0\r\n\r\n"
        self._is_sent = not unsent or await self._write(unsent)

    async def _next_chunk(self, chunks: AsyncIterator[bytes], cut: OwnCancellation) -> bytes | None:
        """Wait for a chunk, until the reply makes it unnecessary; None after the last one."""
        # Cancelled as by a time-out: the task itself reads the chunks.
        self.connection.on_event = partial(self._cut_if_final, cut)
        try:
            return await anext(chunks, None)
        except asyncio.CancelledError as error:
            if cut.take_back(type(error)):
                raise _OvertakenError from None
            raise  # it comes from others
        finally:
            self.connection.on_event = None
            cut.take_back(None)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self.on_end is None:
            raise httpx.StreamClosed
        while not self.reply.buffered:
            if self.reply.is_whole:
                raise StopAsyncIteration
            if (news := self._read_on()) is not None:
                await news
        return self.reply.take()

    async def aclose(self) -> None:
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            self.reply.stream = None  # a cycle, which would keep the body for a while
            on_end(self)

    @property
    def _reply_is_final(self) -> bool:
        """Whether the rest of the request need not be sent (RFC 9112, 9.3)."""
        reply = self.reply
        return (
            reply.status >= _REDIRECTED
            or reply.failure is not None
            or self._gives_up
            or self.connection.is_closing()
        )

    def _cut_if_final(self, wait: OwnCancellation) -> None:
        if self._has_begun:  # else there is no reply to it
            self._receive_early()
            if self._reply_is_final:
                wait.cancel()

    async def _write(self, data: bytes) -> bool:
        is_wanted = self._put(data)
        await self._flush()
        return is_wanted

    def _put(self, data: bytes) -> bool:
        """Send a chunk and return True; return False if the reply makes it unnecessary."""
        self._left_at_once = not self._has_begun and len(data) <= _SMALL
        if not self._has_begun:
            self._begin()
        else:
            self._receive_early()
            if self._reply_is_final:
                return False
        self.connection.write(data)
        return True

    async def _flush(self) -> None:
        """Wait until the system takes more data, unless the reply makes that unnecessary."""
        while not (self.connection.can_write() or self._reply_is_final):
            try:
                await self.connection.wait_to_write(self._timeout.write)
            except TimeoutError:
                if not self.reply.status:
                    raise httpx.WriteTimeout("") from None
                self._gives_up = True
            self._receive_early()

    def _begin(self) -> None:
        connection = self.connection
        if not connection.is_quiet():
            if early := connection.take():  # it cannot be the reply
                self.reply.receive(early)
                reason = self.reply.failure or "it sent bytes before the request"
                raise httpx.ConnectError("") from UnreadableReplyError(reason)
            raise httpx.ConnectError("the connection was closed") from connection.failure
        self._transmission.check()
        if self._transmission.on_sent is not None:
            self._transmission.end_turn()  # if the limiter raises an error, nothing is sent
        self._has_begun = self._transmission.sent = True

    def _receive_early(self) -> None:
        """Take received bytes of the reply while the request is sent, up to a limit."""
        if self.reply.buffered > MOST_UNREAD:
            return
        if data := self.connection.take():
            self._receive(data)

    def _read_on(self) -> asyncio.Future[None] | None:
        """Read what has come; if there is nothing, return what to wait for."""
        if self.reply.failure is not None:
            raise UnreadableReplyError(self.reply.failure)
        connection = self.connection
        if not connection.has_news():
            return connection.wait(self._timeout.read, httpx.ReadTimeout)
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
    """The reply came while a chunk was waited for: the rest is of no use."""
