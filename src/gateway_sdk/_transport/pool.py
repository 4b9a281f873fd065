"""The connections of an engine: those that are open, and those that wait for another request."""

import asyncio
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from gateway_sdk._config import KEEPALIVE_EXPIRY
from gateway_sdk._repr import safe_repr
from gateway_sdk._transport.connection import Connection

Sender = TypeVar("Sender")


class _Idle(NamedTuple, Generic[Sender]):
    origin: bytes
    since: float
    sender: Sender


class Pool(Generic[Sender]):
    """Keeps connections between requests.

    `Sender` is what an engine sends with over a connection.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock: Final = clock
        self._open: set[Connection] = set()
        self._idle: dict[Connection, _Idle[Sender]] = {}  # the longest idle one comes first
        self._timer: asyncio.TimerHandle | None = None

    def add(self, connection: Connection) -> None:
        """Keep track of a new connection, in order to close it in the end."""
        if not connection.closed.done():
            self._open.add(connection)

    def forget(self, connection: Connection) -> None:
        """Drop a connection of which nothing is left."""
        self._open.discard(connection)
        self._idle.pop(connection, None)

    def take(self, origin: bytes) -> Sender | None:
        """Return what was kept for an origin for the shortest time and is fit; None if nothing is.

        The others that are met on the way are cut.
        """
        oldest = self._clock() - KEEPALIVE_EXPIRY
        while self._idle:
            connection, (its_origin, since, sender) = self._idle.popitem()
            if its_origin == origin and since > oldest and connection.is_fit():
                return sender
            connection.abort()
        return None

    def keep(self, connection: Connection, origin: bytes, sender: Sender) -> None:
        """Keep a connection for another request to an origin; what comes meanwhile ends it."""
        connection.rest()
        if connection.is_closing:
            return
        self._idle[connection] = _Idle(origin, self._clock(), sender)
        if self._timer is None:
            self._wait_and_prune()

    async def aclose(self) -> None:
        """Cut every connection that is left, and wait until all are closed."""
        if self._timer is not None:
            self._timer.cancel()
        for connection in self._open:
            connection.abort()
        if self._open:
            await asyncio.wait([connection.closed for connection in self._open])

    def _wait_and_prune(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(KEEPALIVE_EXPIRY, self._prune)

    def _prune(self) -> None:
        """Cut what was idle for too long; look again later if anything is left."""
        oldest = self._clock() - KEEPALIVE_EXPIRY
        for connection in [one for one, idle in self._idle.items() if idle.since <= oldest]:
            del self._idle[connection]
            connection.abort()
        self._timer = None
        if self._idle:
            self._wait_and_prune()

    @safe_repr
    def __repr__(self) -> str:
        return f"{len(self._idle)} idle"
