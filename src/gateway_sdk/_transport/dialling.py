"""Connecting to the first address of a host that answers (RFC 8305, "happy eyeballs").

asyncio's own way (`happy_eyeballs_delay=`) leaves sockets open when it is cancelled.
"""

import asyncio
import socket
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any, Final, TypeAlias

Address: TypeAlias = tuple[Any, ...]
"""As `socket.getaddrinfo` returns them."""

DELAY: Final = 0.25
"""Seconds before the next address is tried beside the ones before (RFC 8305, 5)."""


async def dial(host: str, port: int) -> socket.socket:
    """Return a connected socket; all other sockets that were tried are closed.

    Raises:
        OSError: no address answers; of several addresses, the cause has the errors.
        UnicodeError: it is no name of a host.
    """
    addresses = _alternating(await _look_up(host, port))
    if len(addresses) == 1:
        return await _connect(addresses[0])
    return await _Race(addresses).run()


async def _look_up(host: str, port: int) -> Sequence[Address]:
    try:  # an IP address needs no thread
        return socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        )
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _alternating(addresses: Sequence[Address]) -> list[Address]:
    """Return addresses so that those of IPv6 and IPv4 take turns (RFC 8305, 4)."""
    preferred = addresses[0][0]
    first = [address for address in addresses if address[0] == preferred]
    others = [address for address in addresses if address[0] != preferred]
    return [address for address in chain(*zip_longest(first, others)) if address is not None]


async def _connect(address: Address) -> socket.socket:
    family, kind, protocol, _, place = address
    connection = socket.socket(family, kind, protocol)
    try:
        connection.settimeout(0)
        await asyncio.get_running_loop().sock_connect(connection, place)
    except BaseException:
        connection.close()
        raise
    return connection


class _Race:
    """Attempts to connect, one beside the other."""

    def __init__(self, addresses: list[Address]) -> None:
        self._addresses = addresses
        self._attempts: list[asyncio.Task[socket.socket]] = []
        self._pending: set[asyncio.Task[socket.socket]] = set()

    async def run(self) -> socket.socket:
        """Return the socket of the first address that answers."""
        winner: asyncio.Task[socket.socket] | None = None
        try:
            while (winner := next(filter(_is_connected, self._attempts), None)) is None:
                await self._try_next()
            return winner.result()
        finally:
            for attempt in self._attempts:
                if attempt is not winner and _is_connected(attempt):
                    attempt.result().close()
                attempt.cancel()

    async def _try_next(self) -> None:
        """Begin with one more address, and wait until one answers or it is time for the next."""
        if self._addresses:
            attempt = _connect(self._addresses.pop(0))
            self._attempts.append(asyncio.get_running_loop().create_task(attempt))
            self._pending.add(self._attempts[-1])
        elif not self._pending:
            errors = [error for attempt in self._attempts if (error := attempt.exception())]
            raise OSError("no address answers") from BaseExceptionGroup("of each address", errors)
        _, self._pending = await asyncio.wait(
            self._pending,
            timeout=DELAY if self._addresses else None,
            return_when=asyncio.FIRST_COMPLETED,
        )


def _is_connected(attempt: asyncio.Task[socket.socket]) -> bool:
    return attempt.done() and not attempt.cancelled() and attempt.exception() is None
