"""Connects to the gateway: to the first of its addresses that answers, or through a proxy."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

import httpx

from gateway_sdk._cancellation import OwnCancellation
from gateway_sdk._transport.connection import Connection
from gateway_sdk._transport.dial import LookUps, dial
from gateway_sdk._transport.proxy import credentials_of, forwards, open_tunnel
from gateway_sdk._transport.transmission import Transmission
from gateway_sdk._url import host_and_port

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
        self._look_ups = LookUps()
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
        proxy, (host, port) = self.proxy, address_of(url)
        connection = await connect(
            *(address_of(proxy.url) if proxy else (host, port)), self._look_ups, self._lost
        )
        self._made(connection)
        try:
            if proxy is not None and proxy.url.scheme == "https":
                context = proxy.ssl_context or httpx.create_ssl_context()
                await connection.start_tls(context, address_of(proxy.url)[0])
            if proxy is not None and not forwards(proxy, url):
                await open_tunnel(connection, proxy, host, port)
                transmission.proxy = None
            if url.scheme == "https":
                await connection.start_tls(self.ssl_context, host)
        except BaseException:
            connection.abort()
            raise
        return connection

    def close(self) -> None:
        self._look_ups.close()


def address_of(url: httpx.URL) -> tuple[str, int]:
    return url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]


async def connect(
    host: str,
    port: int,
    look_ups: LookUps,
    lost: Callable[[Connection], None] | None = None,
) -> Connection:
    """Open a connection; if the caller is cancelled, no socket stays open."""
    end = await dial(host, port, look_ups)
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: Connection(lost), sock=end)
    return connection
