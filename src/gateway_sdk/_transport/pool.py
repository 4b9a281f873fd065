"""The connections of an engine: which are open, which are idle, and which one a request gets."""

import asyncio
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import httpx

from gateway_sdk._transport.connection import Connection
from gateway_sdk._transport.transmission import Transmission
from gateway_sdk._transport.trust import MOST_REST, ON_THE_WAY, PROVED, SIGN_OF_LIFE, Trust

_TIMEOUT: Final = re.compile(rb"timeout=([0-9]{1,6})", re.IGNORECASE)
_BROKEN: Final = (httpx.NetworkError, httpx.RemoteProtocolError)
_SLOW: Final = 2.0
"""Seconds without a reply that are a sign, whoever has ended the call."""


# It runs on while the machine sleeps, as the clocks of servers do; `time.monotonic` stands still
# then, but on Windows.
_CLOCK: Final = {"linux": "CLOCK_BOOTTIME", "darwin": "CLOCK_MONOTONIC"}.get(sys.platform)
now: Callable[[], float] = (
    partial(time.clock_gettime, getattr(time, _CLOCK)) if _CLOCK else time.monotonic
)


class Pool:
    def __init__(self, trust: Trust, size: int) -> None:
        self.open: set[Connection] = set()
        self.idle: dict[Connection, None] = {}  # the longest idle one comes first
        self._trust, self._size = trust, size

    def add(self, connection: Connection) -> None:
        self.open.add(connection)
        if len(self.open) > self._size and self.idle:  # one that is not trusted, and has stayed
            oldest = next(iter(self.idle))
            del self.idle[oldest]
            oldest.abort()
        connection.opened_at = now()
        connection.ends_at = connection.opened_at + self._trust.life()
        connection.closed.add_done_callback(partial(self._forget, connection))

    def _forget(self, connection: Connection, _: object) -> None:
        self.open.remove(connection)
        self.idle.pop(connection, None)
        if connection.has_left:
            at = now()
            self._trust.note_end(at, at - connection.rested_at)

    def take(self, transmission: Transmission) -> Connection | None:
        """Return the last used idle connection that may carry a request, or None."""
        if not self.idle:
            return None
        at, trust = now(), self._trust
        if trust.has_learned:
            oldest = next(iter(self.idle))
            if oldest.is_still() and oldest.unheard(at) < SIGN_OF_LIFE:
                trust.note_rest(at, at - oldest.rested_at)
        while self.idle:
            connection, _ = self.idle.popitem()
            rest = at - connection.rested_at
            is_once = transmission.is_once
            if rest >= trust.most or (
                rest >= PROVED and not trust.allows(at, rest, connection.unheard, once=is_once)
            ):
                # A new one takes its place. The last one stays: what becomes of it is learned.
                if self.idle:
                    connection.abort()
                else:
                    self.idle[connection] = None
                return None
            if connection.end_rest(at):
                return connection
            connection.abort()
        return None

    def lose(self, connection: Connection, error: BaseException) -> None:
        """Note that no reply came on a connection: if it had rested, others may be like it."""
        at, taken_at = now(), connection.taken_at
        # A call that was ended by somebody else, such as its deadline, is a sign if that was late.
        is_late = isinstance(error, httpx.TimeoutException) or (
            isinstance(error, asyncio.CancelledError) and at - taken_at >= _SLOW
        )
        if not taken_at or not (is_late or isinstance(error, _BROKEN)):
            return
        if not is_late:
            self._trust.note_end(at, taken_at - connection.rested_at)
        elif any(one.opened_at < taken_at < one.rested_at for one in self.open):
            return  # one that had rested, too, has served meanwhile: it is the server that is slow
        self._trust.note_loss(at)
        for other in [one for one in self.idle if one.rested_at <= taken_at]:
            del self.idle[other]
            other.abort()

    def keep(self, connection: Connection, hint: bytes | None = None) -> None:
        """Keep a connection for another request; data that come meanwhile end it."""
        # The hint is the field Keep-Alive of the last reply (RFC 2068, 19.7.1.1).
        seconds = MOST_REST
        if hint is not None and (found := _TIMEOUT.search(hint)):
            seconds = min(seconds, float(found[1]) - ON_THE_WAY)
        if connection.rest(seconds, now()):
            self.idle[connection] = None

    async def aclose(self) -> None:
        for connection in self.open:
            connection.abort()
        if self.open:
            await asyncio.wait([connection.closed for connection in self.open])
