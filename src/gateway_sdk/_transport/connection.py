"""A connection of our own to a server: bytes in both directions, without HTTP.

It notices bytes that nobody asked for, and can be cut at once. One task at a time uses a
connection: the task reads and writes, and waits for one thing only.
"""

import asyncio
import math
import operator
import select
import socket
import ssl
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

from gateway_sdk._transport.tls import TlsLayer
from gateway_sdk._transport.trust import SILENCE

MOST_UNREAD: Final = 2**18
"""The limit of received bytes that are not read yet; above it, the server has to wait."""

_LOOK: Final = 2.0
"""Seconds after which a wait looks whether the network is silent."""

# Linux' struct tcp_info, up to what is read: the segments that are not acknowledged, and the
# milliseconds since the last acknowledgement. Every answer to a probe is one.
_TCP_INFO: Final = struct.Struct("@24xI28xI")


class Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._is_full = False
        self.is_ended = self.is_clean = False  # clean over TLS: by a close_notify
        self.failure: OSError | None = None
        self.on_event: Callable[[], None] | None = None
        self._layers: list[TlsLayer] = []  # the innermost one is the last
        self._received: list[bytes] = []
        self._unread = 0
        self._is_idle = False
        self._waiter: asyncio.Future[None] | None = None
        self._late: type[Exception] = TimeoutError  # what it raises
        # One timer serves all waits: it looks at their end, and starts again if that is later.
        self._timer: asyncio.TimerHandle | None = None
        # When it looks; not read from the timer, which may have no time on uvloop.
        self._due = math.inf
        self._until = math.inf  # the end of a wait or a rest, by the loop's clock
        # By the pool's clock: the end of its life and of its rest, and when it was opened, came to
        # rest and was taken again (0.0: never).
        self.ends_at = self._fit_until = math.inf
        self.opened_at = self.rested_at = self.taken_at = 0.0
        self.has_left = False  # whether the server ended it at rest

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._has_news = _watch(transport)

    def data_received(self, data: bytes) -> None:
        """Take received data; data that come while the connection is idle end it."""
        if self._layers:
            data = self._decrypt(data)
        if data:
            self._received.append(data)
            self._unread += len(data)
            if self._is_idle:
                self._leave()
            elif self._unread > MOST_UNREAD:
                self._transport.pause_reading()
        self._wake()

    def _decrypt(self, data: bytes) -> bytes:
        for number, layer in enumerate(self._layers):
            data = layer.decrypt(data)
            self._send(layer.pending(), self._layers[:number])
            if layer.failure is not None:
                self.failure = self.failure or layer.failure
                self.abort()
        # Not before: the ends of an inner and of an outer layer may come together.
        if any(layer.is_ended for layer in self._layers):
            self._end(cleanly=self._layers[-1].is_ended)
        return data

    def eof_received(self) -> None:
        self._end(cleanly=not self._layers)

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self._rescue()
        if isinstance(exc, OSError) and not self.is_ended:
            self.failure = self.failure or exc
        self._end(cleanly=False)
        if self._timer is not None:
            self._timer.cancel()
        self.closed.set_result(None)

    def _rescue(self) -> None:
        """Read what had come when a write failed because the connection broke."""
        # It may be the reply: a server that refuses a request need not read all of it. The event
        # loop does not read it any more.
        try:
            with self._transport.get_extra_info("socket").dup() as end:
                while self._unread <= MOST_UNREAD and (data := end.recv(MOST_UNREAD)):
                    self.data_received(data)
        except (OSError, TypeError):
            pass  # no more data; or the loop is uvloop, which has already closed the socket

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._wake()

    # Called by the user of the connection.

    def is_closing(self) -> bool:
        # A server that has ended TLS sends no reply, even if it has not closed the connection
        # yet.
        return self.is_ended or self._transport.is_closing()

    def can_write(self) -> bool:
        """Whether the system and TLS take more data; if not, `wait` until they do."""
        if self._layers and any(layer.unsent for layer in self._layers):
            return False
        return not self._is_full

    def has_sent_all(self) -> bool:
        """Whether nothing waits for the system or for TLS."""
        return self.can_write() and not self.unsent()

    def unsent(self) -> int:
        """Return how many bytes wait for the system."""
        return self._transport.get_write_buffer_size()

    def limit_unsent(self, size: int | None) -> None:
        """Let `can_write` be true up to so many bytes that wait for the system; None: as usual."""
        self._transport.set_write_buffer_limits(size)

    def is_quiet(self) -> bool:
        """Whether it is open, and no data have come that nobody has read."""
        return not (self._received or self.is_closing())

    def has_news(self) -> bool:
        """Whether `take` returns data, or there will be no more."""
        return bool(self._received) or self.is_ended

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Start TLS, inside the TLS layers that exist already."""
        layer = TlsLayer(context, host)
        data = b""
        try:
            while not layer.shake_hands(data):
                self._send(layer.pending(), self._layers)
                data = await self.read(None)
                if not data:
                    raise ConnectionResetError("the server hung up in the TLS handshake")
        finally:  # after a failure, this sends the alert that tells the server why
            self._send(layer.pending(), self._layers)
        self._layers.append(layer)
        self.data_received(b"")  # decrypts data that came right after the handshake

    def write(self, data: bytes) -> None:
        """Send data, or keep them until the system takes them: see `can_write`."""
        self._is_idle = False
        if self._layers:
            self._send(data, self._layers)
        elif not self.closed.done():
            self._transport.write(data)

    def _send(self, data: bytes, layers: list[TlsLayer]) -> None:
        if data and not self.closed.done():
            for layer in reversed(layers):
                layer.encrypt(data)
                data = layer.pending()
            self._transport.write(data)

    async def read(self, seconds: float | None) -> bytes:
        """Return received data, as soon as there are any; b"" at the end."""
        while not self.has_news():
            await self.wait(seconds)
        if not self._received and self.failure is not None:
            raise self.failure
        return self.take()

    async def read_exactly(self, size: int) -> bytes:
        """Return so many bytes, however they come; what follows them stays unread."""
        data = b""
        while len(data) < size:
            piece = await self.read(None)
            if not piece:
                raise ConnectionResetError("the server hung up")
            data += piece
        if rest := data[size:]:
            self._received, self._unread = [rest], len(rest)
        return data[:size]

    def take(self) -> bytes:
        """Return the data received so far, without waiting; b"" if there are none."""
        if not self._received:
            return b""
        if self._unread > MOST_UNREAD and not self.is_closing():
            self._transport.resume_reading()
        chunks, self._received, self._unread = self._received, [], 0
        return b"".join(chunks)

    def rest(self, seconds: float, at: float) -> bool:
        """Be idle for so long; data that come before the next `write` end it; False if some did."""
        self._is_idle = True
        if self._received or self.is_ended:
            self.abort()
            return False
        self.rested_at = at
        # uvloop's clock is that of the beginning of a turn, however long the turn takes.
        self._fit_until = at + seconds
        self._until = self._loop.time() + seconds
        if self._until < self._due:
            self._start_timer()
        return True

    def end_rest(self, at: float) -> bool:
        """Tell whether it is fit for another request: in time, open, and without unread data."""
        # Whether the last reply allows another request is `Exchange.can_be_reused`. The system is
        # asked too, because the event loop may not have seen the data or the end yet. A few bytes
        # of TLS also make a connection unfit, and a part of a record, which may hold a reply.
        self._until, self.taken_at = math.inf, at
        if at >= self._fit_until or at >= self.ends_at:
            return False
        if self._layers and any(layer.is_in_record for layer in self._layers):
            return False
        if self.is_still():
            return True
        self._leave()
        return False

    def is_still(self) -> bool:
        """Tell whether it is open and nothing has come, as far as the system knows."""
        return not (self._received or self.is_closing() or self._has_news())

    def unheard(self, at: float) -> float:
        """Return the seconds since the peer's system acknowledged something; 0.0 if unknown."""
        # The clock of the system stands still while the machine sleeps, as the loop's does.
        asleep = at - self._loop.time() - (self._fit_until - self._until)
        return asleep + self._acknowledgements()[1]

    def _acknowledgements(self) -> tuple[bool, float]:
        """Return whether data wait for one, and the seconds since the last one."""
        if sys.platform == "linux":
            with suppress(OSError):  # of a socket that is closed already
                end = self._transport.get_extra_info("socket")
                info = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
                waiting, milliseconds = _TCP_INFO.unpack(info)
                return waiting > 0, milliseconds / 1000
        return False, 0.0

    def abort(self) -> None:
        """Cut it at once: data that the system has not taken yet are not sent."""
        self._is_idle = False
        if not self.closed.done():  # else asyncio may raise an AttributeError
            self._transport.abort()

    # Waiting.

    def wait(
        self, seconds: float | None, late: type[Exception] = TimeoutError
    ) -> asyncio.Future[None]:
        """Wait until something happens: data come, the system takes more, the connection ends."""
        # A future, because a coroutine for each reply takes longer.
        self._late = late
        self._waiter = asyncio.Future(loop=self._loop)
        self._until = math.inf if seconds is None else self._loop.time() + seconds
        if self._until < self._due:
            self._start_timer()
        return self._waiter

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        look = math.inf if self._is_idle else self._loop.time() + _LOOK
        self._due = min(self._until, look)
        self._timer = self._loop.call_at(self._due, self._look_at_end)

    def _look_at_end(self) -> None:
        self._timer, self._due = None, math.inf
        if self._loop.time() >= self._until:
            if self._is_idle:
                self.abort()
            else:
                self._wake(self._late(""))
        elif not self._is_idle and self._is_silent():
            self.failure = self.failure or TimeoutError()  # as the system says after its probes
            self.abort()
        elif self._until < math.inf:
            self._start_timer()

    def _is_silent(self) -> bool:
        # A server that pauses reading acknowledges what it takes, and then nothing waits for it.
        is_waiting, seconds = self._acknowledgements()
        return is_waiting and seconds >= SILENCE

    def _wake(self, error: Exception | None = None) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is None or waiter.done():  # done: its task was cancelled
            if self.on_event is not None:
                self.on_event()
        elif error is not None:
            waiter.set_exception(error)
        else:
            waiter.set_result(None)

    def _end(self, *, cleanly: bool) -> None:
        if not self.is_ended:
            self.is_ended, self.is_clean = True, cleanly
        if self._is_idle:
            self._leave()
        self._wake()

    def _leave(self) -> None:
        self.has_left = not isinstance(self.failure, TimeoutError)  # of probes without an answer
        self.abort()


def _watch(transport: asyncio.BaseTransport) -> Callable[[], object]:
    """Return a function that tells whether data have come that the event loop has not read."""
    # On Windows' loop a receive is always under way: the system has no data, that receive has.
    # Only private parts of asyncio tell; without them no connection is used again.
    if isinstance(asyncio.get_running_loop(), getattr(asyncio, "ProactorEventLoop", ())):
        return lambda: not _is_receiving(transport)
    end = transport.get_extra_info("socket")
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(end.fileno(), select.POLLIN)
        return lambda: poll.poll(0)
    return lambda: select.select([end.fileno()], [], [], 0)[0]  # Windows


def _is_receiving(transport: object) -> bool:
    try:
        return bool(operator.attrgetter("_read_fut._ov.pending")(transport))
    except AttributeError:
        return False
