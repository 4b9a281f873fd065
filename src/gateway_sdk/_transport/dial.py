"""Connects to a host: looks its name up, and takes the first of its addresses that answers."""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, zip_longest
from typing import Any, Final, TypeAlias

SocketAddress: TypeAlias = tuple[Any, ...]
"""One entry of what `socket.getaddrinfo` returns."""

KEPT: Final = 2.0
"""Seconds for which the addresses of a name are kept: callers often come together."""

DELAY: Final = 0.25
"""Seconds before the next address is tried too, while earlier attempts go on (RFC 8305, 5)."""


_Answer: TypeAlias = asyncio.Future[Sequence[SocketAddress]]


async def dial(host: str, port: int, look_ups: "LookUps") -> socket.socket:
    """Return a connected socket; all other sockets that were tried are closed."""
    # Happy eyeballs (RFC 8305). asyncio's own (`happy_eyeballs_delay=`) leaves sockets open when it
    # is cancelled.
    addresses = _alternating(await look_ups.addresses(host, port))
    try:
        if len(addresses) == 1:
            return await _connect(addresses[0])
        return await _race(addresses)
    except OSError:  # the name may have other addresses now
        look_ups.forget(host, port)
        raise


class LookUps:
    """One look-up of a name at a time, for all that wait for it."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, int], _Answer] = {}
        # Not the threads of the event loop, which uploads and journals use too.
        self._thread = ThreadPoolExecutor(1, "gateway_sdk look-up")

    async def addresses(self, host: str, port: int) -> Sequence[SocketAddress]:
        try:  # an IP address needs no thread
            return socket.getaddrinfo(
                host,
                port,
                type=socket.SOCK_STREAM,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
        except socket.gaierror:
            pass
        answer = self._answers.get((host, port)) or self._ask(host, port)
        await asyncio.wait([answer])  # it goes on if this caller is cancelled
        error = answer.exception()
        if error is not None:
            raise type(error)(*error.args)  # its own, because other callers get it too
        return answer.result()

    def _ask(self, host: str, port: int) -> _Answer:
        loop, place = asyncio.get_running_loop(), (host, port)

        def answered(answer: _Answer) -> None:
            if answer.cancelled() or answer.exception() is not None:
                self.forget(host, port)
            else:
                loop.call_later(KEPT, self._drop, place, answer)

        try:
            answer = loop.run_in_executor(self._thread, _system_addresses, host, port)
        except RuntimeError as error:  # the system refuses one more thread
            raise socket.gaierror(socket.EAI_AGAIN, "no thread for the look-up") from error
        self._answers[place] = answer
        answer.add_done_callback(answered)
        return answer

    def _drop(self, place: tuple[str, int], answer: _Answer) -> None:
        if self._answers.get(place) is answer:
            del self._answers[place]

    def forget(self, host: str, port: int) -> None:
        self._answers.pop((host, port), None)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def _system_addresses(host: str, port: int) -> Sequence[SocketAddress]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


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
        await asyncio.get_running_loop().sock_connect(connection, place)
    except BaseException:
        connection.close()
        raise
    return connection


async def _race(addresses: list[SocketAddress]) -> socket.socket:
    """Return the socket of the first address that answers."""
    loop, winner = asyncio.get_running_loop(), None
    attempts: list[asyncio.Task[socket.socket]] = []
    pending: set[asyncio.Task[socket.socket]] = set()
    try:
        while addresses or pending:
            if addresses:
                attempts.append(loop.create_task(_connect(addresses.pop(0))))
                pending.add(attempts[-1])
            # Until one of them ends, or the next one is due.
            delay = DELAY if addresses else None
            _, pending = await asyncio.wait(
                pending, timeout=delay, return_when=asyncio.FIRST_COMPLETED
            )
            if winner := next(filter(_is_connected, attempts), None):
                return winner.result()
        errors = [error for attempt in attempts if (error := attempt.exception())]
        raise OSError("no address answers") from BaseExceptionGroup("of each address", errors)
    finally:
        for attempt in attempts:
            if attempt is not winner and _is_connected(attempt):
                attempt.result().close()
            attempt.cancel()


def _is_connected(attempt: asyncio.Task[socket.socket]) -> bool:
    return attempt.done() and not attempt.cancelled() and attempt.exception() is None
