"""The addresses of one host, and which of them answers first."""

import asyncio
import math
import socket
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from importlib import import_module
from itertools import chain, zip_longest
from typing import Any, Final, TypeAlias

from gateway_sdk._transport.connection import Connection
from gateway_sdk._transport.trust import PROBE, SILENCE
from gateway_sdk._waiting import SingleFlight, in_thread

import_module("encodings.idna")  # `getaddrinfo` would load it in the middle of a call

SocketAddress: TypeAlias = tuple[Any, ...]
"""One entry of what `socket.getaddrinfo` returns."""

KEPT: Final = 2.0
"""Seconds for which the addresses of a name are kept: callers often come together."""

DELAY: Final = 0.25
"""Seconds before the next address is tried too, while earlier attempts go on (RFC 8305, 5)."""

AVOIDED: Final = 60.0
"""Seconds for which an address that did not answer in time is tried after the others."""

_PROBES: Final = {
    "TCP_KEEPIDLE": PROBE,
    "TCP_KEEPALIVE": PROBE,  # macOS' name of it
    "TCP_KEEPINTVL": PROBE,
    "TCP_KEEPCNT": SILENCE // PROBE - 1,  # the last one is waited for, too
}


class Dialler:
    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        # A daemon: where no server of names answers, a process would take 10 s and more to end.
        start = partial(in_thread, "gateway_sdk look-up", self._look_up)
        self._finding = SingleFlight[Sequence[SocketAddress]](start)
        self._found: Sequence[SocketAddress] = ()
        self._found_at = -math.inf  # by the loop's clock
        # Until when, of addresses that did not answer in time. The one that did is not preferred:
        # that would be the same replica for ever.
        self._avoided: dict[Any, float] = {}

    async def connect(self) -> tuple[object, Connection]:
        """Open a connection to an address; if the caller is cancelled, no socket stays open."""
        place, end = await self._dial()
        _, connection = await asyncio.get_running_loop().create_connection(Connection, sock=end)
        return place, connection

    def avoid(self, place: object) -> None:
        """Try other addresses first for a while: what was connected to does not answer."""
        self._avoided[place] = asyncio.get_running_loop().time() + AVOIDED

    async def _dial(self) -> tuple[object, socket.socket]:
        """Return an address and its connected socket; all others that were tried are closed."""
        # Happy eyeballs (RFC 8305). asyncio's own (`happy_eyeballs_delay=`) leaves sockets open
        # when it is cancelled.
        addresses, now = _alternating(await self.addresses()), asyncio.get_running_loop().time()
        self._avoided = {place: end for place, end in self._avoided.items() if end > now}
        addresses.sort(key=lambda address: address[4] in self._avoided)
        try:
            if len(addresses) == 1:
                return addresses[0][4], await _connect(addresses[0])
            number, end = await _race(addresses)
        except OSError:  # the name may have other addresses now
            self._found_at = -math.inf
            raise
        self._avoided |= {address[4]: now + AVOIDED for address in addresses[:number]}
        return addresses[number][4], end

    async def addresses(self) -> Sequence[SocketAddress]:
        try:  # an IP address needs no thread
            return self._look_up(socket.AI_NUMERICHOST | socket.AI_NUMERICSERV)
        except socket.gaierror:
            pass
        loop = asyncio.get_running_loop()
        if loop.time() >= self._found_at + KEPT:
            try:
                self._found = await self._finding.join()
            except OSError as error:
                raise copy(error) from error.__cause__  # its own: other callers get it too
            except RuntimeError as error:  # the system refuses one more thread
                raise socket.gaierror(socket.EAI_AGAIN, "no thread for the look-up") from error
            self._found_at = loop.time()
        return self._found

    def _look_up(self, flags: int = 0) -> Sequence[SocketAddress]:
        return socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM, flags=flags)


def _alternating(addresses: Sequence[SocketAddress]) -> list[SocketAddress]:
    """Return the addresses with IPv6 and IPv4 alternating (RFC 8305, 4)."""
    preferred = addresses[0][0]
    first = [address for address in addresses if address[0] == preferred]
    others = [address for address in addresses if address[0] != preferred]
    return [address for address in chain(*zip_longest(first, others)) if address is not None]


async def _connect(address: SocketAddress) -> socket.socket:
    family, kind, protocol, _, place = address
    connection = socket.socket(family, kind, protocol)
    try:
        connection.settimeout(0)
        # Not TCP_USER_TIMEOUT: it also ends an upload to a server that lives and pauses reading.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name in _PROBES.keys() & vars(socket):
            with suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), _PROBES[name])
        await asyncio.get_running_loop().sock_connect(connection, place)
    except BaseException:
        connection.close()
        raise
    return connection


async def _race(addresses: list[SocketAddress]) -> tuple[int, socket.socket]:
    """Return the number and the socket of the first address that answers."""
    loop, winner = asyncio.get_running_loop(), None
    attempts: list[asyncio.Task[socket.socket]] = []
    pending: set[asyncio.Task[socket.socket]] = set()
    left = addresses.copy()
    try:
        while left or pending:
            if left:
                attempts.append(loop.create_task(_connect(left.pop(0))))
                pending.add(attempts[-1])
            # Until one of them ends, or the next one is due.
            delay = DELAY if left else None
            _, pending = await asyncio.wait(
                pending, timeout=delay, return_when=asyncio.FIRST_COMPLETED
            )
            if winner := next(filter(_is_connected, attempts), None):
                return attempts.index(winner), winner.result()
        errors = [error for attempt in attempts if (error := attempt.exception())]
        raise OSError("no address answers") from BaseExceptionGroup("of each address", errors)
    finally:
        for attempt in attempts:
            if attempt is not winner and _is_connected(attempt):
                attempt.result().close()
            attempt.cancel()


def _is_connected(attempt: asyncio.Task[socket.socket]) -> bool:
    return attempt.done() and not attempt.cancelled() and attempt.exception() is None
