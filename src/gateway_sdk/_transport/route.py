"""The way to the gateway: straight, or through a proxy."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

import httpx

from gateway_sdk._transport.connection import Connection, connect
from gateway_sdk._transport.proxy import is_socks
from gateway_sdk._transport.reason import place_of
from gateway_sdk._transport.transmission import Transmission
from gateway_sdk._transport.tunnel import credentials_of, open_tunnel

_PORTS: Final = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


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
        self.credentials = credentials_of(proxy)

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
        host, port = address_of(url if self.proxy is None else self.proxy.url)
        if self.proxy is not None:
            transmission.proxy = f"the proxy {place_of(host, port)}"
        connection = await connect(host, port, self._lost)
        self._made(connection)
        try:
            if self.proxy is not None:
                await self._pass(connection, self.proxy, url, transmission)
            if url.scheme == "https":
                await connection.start_tls(self._ssl_context, address_of(url)[0])
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
        """Get through the proxy, unless it is one that hands requests on."""
        if proxy.url.scheme == "https":
            context = proxy.ssl_context or httpx.create_ssl_context()
            await connection.start_tls(context, address_of(proxy.url)[0])
        if url.scheme == "https" or is_socks(proxy):
            await open_tunnel(connection, proxy, *address_of(url))
            transmission.proxy = None


def address_of(url: httpx.URL) -> tuple[str, int]:
    """Return the host and the port of a URL."""
    return url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]
