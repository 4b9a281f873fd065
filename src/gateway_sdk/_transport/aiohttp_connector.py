"""Connections of aiohttp that are fit to be used, and errors that say that there is none."""

import select
import socket
from typing import Any
from weakref import WeakSet

import aiohttp
import httpx
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from gateway_sdk._transport.aiohttp_exchange import CURRENT
from gateway_sdk._transport.reason import place_of


class Connector(aiohttp.TCPConnector):
    """Hands out connections, and tells each exchange when it has one.

    Whatever fails here fails before a byte of the request has left, and raises an error of httpx
    that means this.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(limit=0, **options)  # pyright: ignore[reportUnknownMemberType]
        self._used: WeakSet[ResponseHandler] = WeakSet()

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: Any,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109
    ) -> Connection:
        """Return a connection, a new one if there is no good one.

        Raises:
            httpx.ConnectTimeout: the time-out for it passed.
            httpx.ConnectError: there is none.
            httpx.ProxyError: the proxy refused a tunnel.
        """
        try:
            connection = await super().connect(req, traces, timeout)
            while (used := connection.protocol in self._used) and not _is_fit(connection):
                connection.close()
                connection = await super().connect(req, traces, timeout)
        except TimeoutError:
            raise httpx.ConnectTimeout("") from None
        except aiohttp.ClientResponseError as error:  # whose text holds an address
            _blame_proxy(req, error)
            answered = isinstance(error, aiohttp.ClientHttpProxyError)  # else it made no sense
            raise httpx.ProxyError(f"{error.status}" if answered else "no tunnel") from None
        except (aiohttp.ClientError, OSError, UnicodeError) as error:  # the last is of a name
            _blame_proxy(req, error)
            raise httpx.ConnectError(type(error).__name__) from error
        protocol, transport = connection.protocol, connection.transport
        if protocol is None or transport is None:
            connection.close()
            raise httpx.ConnectError("the server hung up at once")
        if not used:
            self._used.add(protocol)
        CURRENT.get().connected(transport)
        return connection


def _blame_proxy(req: aiohttp.ClientRequest, error: Exception) -> None:
    """Tell that the proxy failed, if it was not the gateway behind it."""
    place = getattr(error, "host", None), getattr(error, "port", None)
    if req.proxy is not None and (
        isinstance(error, aiohttp.ClientResponseError) or place == (req.proxy.host, req.proxy.port)
    ):
        proxy = place_of(str(req.proxy.host), req.proxy.port or 0)
        CURRENT.get().transmission.proxy = f"the proxy {proxy}"


def _is_fit(connection: Connection) -> bool:
    """Tell whether a connection that was used before can be used again.

    Not if the server has hung up, and not if it has sent what nobody asked for, which would be
    taken for the next reply. Either may be known only to the system yet.
    """
    protocol, transport = connection.protocol, connection.transport
    return (
        protocol is not None
        and transport is not None
        and not protocol.should_close
        and not is_readable(transport.get_extra_info("socket"))
    )


def is_readable(connection: socket.socket) -> bool:
    """Tell whether something has arrived, or the end."""
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([connection], [], [], 0)[0])
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))
