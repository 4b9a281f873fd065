"""Connects to the gateway: to the first of its addresses that answers, or through a proxy."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import Any, Final, TypeAlias

import httpx

from gateway_sdk._cancellation import OwnCancellation
from gateway_sdk._transport.connection import Connection
from gateway_sdk._transport.proxy import credentials_of, is_socks, open_tunnel
from gateway_sdk._transport.transmission import Transmission
from gateway_sdk._url import host_and_port

SocketAddress: TypeAlias = tuple[Any, ...]
"""One entry of what `socket.getaddrinfo` returns."""

DELAY: Final = 0.25
"""Seconds before the next address is tried too, while earlier attempts go on (RFC 8305, 5)."""

_PORTS: Final = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


class Route:
    def __init__(
        self,
        ssl_context: ssl.SSLContext,
        proxy: httpx.Proxy | None,
        *,
        made: Callable[[Connection], None],
        lost: Callable[[Connection], None],
    ) -> None:
        self.ssl_context = ssl_context
        self.proxy = proxy
        self._made, self._lost = made, lost
        self._is_away = False  # no connection could be made last time
        self._trial: asyncio.Future[httpx.HTTPError | None] | None = None
        self.credentials = credentials_of(proxy)

    async def open(
        self, url: httpx.URL, transmission: Transmission, seconds: float | None
    ) -> Connection:
        # An error here means that no byte of the request was sent. While the server is away, one
        # call at a time tries, and the others wait for what becomes of it.
        if self.proxy is not None:
            place = host_and_port(*address_of(self.proxy.url))
            transmission.proxy = f"the proxy {place}"
        while self._trial is not None:
            done, _ = await asyncio.wait([self._trial], timeout=seconds)
            failures = [trial.result() for trial in done] or [httpx.ConnectTimeout("")]
            if failures[0] is not None:
                raise type(failures[0])(str(failures[0])) from failures[0].__cause__
        trial = asyncio.get_running_loop().create_future()
        if self._is_away:
            self._trial = trial
        failure: httpx.HTTPError | None = None
        try:
            connection = await self._timed(url, transmission, seconds)
        except httpx.HTTPError as error:
            failure = error
            self._is_away = True
            raise
        else:
            self._is_away = False
            return connection
        finally:
            if self._trial is trial:
                self._trial = None
            trial.set_result(failure)

    async def _timed(
        self, url: httpx.URL, transmission: Transmission, seconds: float | None
    ) -> Connection:
        late = OwnCancellation()
        loop = asyncio.get_running_loop()
        timer = None if seconds is None else loop.call_later(seconds, late.cancel)
        try:
            return await self._open(url, transmission)
        except (OSError, UnicodeError) as error:  # an ssl.SSLError is one; the other is of a name
            raise httpx.ConnectError(type(error).__name__) from error
        except asyncio.CancelledError as error:
            if late.take_back(type(error)):
                raise httpx.ConnectTimeout("") from None
            raise
        finally:
            late.take_back(None)
            if timer is not None:
                timer.cancel()

    async def _open(self, url: httpx.URL, transmission: Transmission) -> Connection:
        host, port = address_of(url if self.proxy is None else self.proxy.url)
        connection = await connect(host, port, self._lost)
        self._made(connection)
        try:
            if self.proxy is not None:
                await self._pass(connection, self.proxy, url, transmission)
            if url.scheme == "https":
                await connection.start_tls(self.ssl_context, address_of(url)[0])
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _pass(
        self,
        connection: Connection,
        proxy: httpx.Proxy,
        url: httpx.URL,
        transmission: Transmission,
    ) -> None:
        """Open a tunnel through the proxy, unless it forwards requests."""
        if proxy.url.scheme == "https":
            context = proxy.ssl_context or httpx.create_ssl_context()
            await connection.start_tls(context, address_of(proxy.url)[0])
        if url.scheme == "https" or is_socks(proxy):
            await open_tunnel(connection, proxy, *address_of(url))
            transmission.proxy = None


def address_of(url: httpx.URL) -> tuple[str, int]:
    return url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]


async def connect(
    host: str, port: int, lost: Callable[[Connection], None] | None = None
) -> Connection:
    """Open a connection; if the caller is cancelled, no socket stays open."""
    end = await dial(host, port)
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: Connection(lost), sock=end)
    return connection


# Happy eyeballs (RFC 8305). asyncio's own (`happy_eyeballs_delay=`) leaves sockets open when it is
# cancelled.


async def dial(host: str, port: int) -> socket.socket:
    """Return a connected socket; all other sockets that were tried are closed."""
    addresses = _alternating(await _look_up(host, port))
    if len(addresses) == 1:
        return await _connect(addresses[0])
    return await _Race(addresses).run()


async def _look_up(host: str, port: int) -> Sequence[SocketAddress]:
    try:  # an IP address needs no thread
        return socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        )
    except socket.gaierror:
        pass
    try:
        loop = asyncio.get_running_loop()
        return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except RuntimeError as error:  # the system refuses one more thread
        raise socket.gaierror(socket.EAI_AGAIN, "no thread for the look-up") from error


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


class _Race:
    def __init__(self, addresses: list[SocketAddress]) -> None:
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
        """Start with one more address, and wait until one answers or the next one is due."""
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
