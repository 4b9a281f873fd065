"""The way to the gateway: straight, or through a proxy."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Callable
from typing import Final

import httpx

from gateway_sdk._transport.connection import Connection, connect
from gateway_sdk._transport.exchange import Exchange, RawFields, request_head
from gateway_sdk._transport.reason import place_of
from gateway_sdk._transport.transmission import Transmission

_PORTS: Final = {"http": 80, "https": 443}
_SUCCESS: Final = range(200, 300)


class Route:
    """Opens connections over which a request can be sent at once.

    Attributes:
        proxy: The proxy on the way, or None.
        credentials: The header fields that a proxy wants to see that hands requests on.
    """

    def __init__(
        self,
        ssl_context: ssl.SSLContext,
        proxy: httpx.Proxy | None,
        *,
        made: Callable[[Connection], None],
        lost: Callable[[Connection], None],
    ) -> None:
        self._ssl_context = ssl_context
        self.proxy = proxy
        self._made, self._lost = made, lost
        self.credentials = _credentials(proxy)

    async def open(
        self,
        url: httpx.URL,
        transmission: Transmission,
        timeout: float | None,  # noqa: ASYNC109 - tells a time-out from an OSError
    ) -> Connection:
        """Open a connection to the gateway.

        Whatever fails here fails before a byte of the request has left.

        Args:
            url: An address at the gateway.
            transmission: Is told while it is the proxy that may fail.
            timeout: Seconds for all of it.

        Raises:
            httpx.ConnectTimeout: the time passed.
            httpx.ConnectError: there is no connection.
            httpx.ProxyError: the proxy refused a tunnel.
        """
        try:
            async with asyncio.timeout(timeout):
                return await self._open(url, transmission)
        except TimeoutError:
            raise httpx.ConnectTimeout("") from None
        except (OSError, UnicodeError) as error:  # an ssl.SSLError is one; the other is of a name
            raise httpx.ConnectError(type(error).__name__) from error

    async def _open(self, url: httpx.URL, transmission: Transmission) -> Connection:
        host, port = _address(url if self.proxy is None else self.proxy.url)
        if self.proxy is not None:
            transmission.proxy = f"the proxy {place_of(host, port)}"
        connection = await connect(host, port, self._lost)
        self._made(connection)
        try:
            if self.proxy is not None and self.proxy.url.scheme == "https":
                await connection.start_tls(_context_of(self.proxy), host)
            if url.scheme == "https":
                await self._secure(connection, url, transmission)
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _secure(
        self, connection: Connection, url: httpx.URL, transmission: Transmission
    ) -> None:
        """Speak TLS with the gateway itself, through a tunnel if there is a proxy."""
        host, port = _address(url)
        if self.proxy is not None:
            await self._tunnel(connection, place_of(host, port).encode("ascii"))
            transmission.proxy = None
        await connection.start_tls(self._ssl_context, host)

    async def _tunnel(self, connection: Connection, authority: bytes) -> None:
        """Ask the proxy for a tunnel (RFC 9110, 9.3.6)."""
        head = request_head(b"CONNECT", authority, [(b"Host", authority), *self.credentials])
        exchange = Exchange(connection, Transmission(sent=False), tunnels=True)
        try:
            await exchange.send(head, httpx.ByteStream(b""), 0)
        except httpx.TransportError as error:
            raise httpx.ProxyError(f"no tunnel: {type(error).__name__}") from None
        if exchange.reply.status not in _SUCCESS:
            raise httpx.ProxyError(f"{exchange.reply.status}")
        if exchange.reply.has_excess:  # in TLS it is the client that speaks first
            raise httpx.ProxyError("no tunnel: it holds something already")


def _address(url: httpx.URL) -> tuple[str, int]:
    return url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]


def _context_of(proxy: httpx.Proxy) -> ssl.SSLContext:
    return proxy.ssl_context or httpx.create_ssl_context()


def _credentials(proxy: httpx.Proxy | None) -> RawFields:
    if proxy is None or proxy.raw_auth is None:
        return ()
    return ((b"Proxy-Authorization", b"Basic " + b64encode(b":".join(proxy.raw_auth))),)
