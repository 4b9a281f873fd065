"""The aiohttp engine: httpx's interface, aiohttp's speed.

aiohttp reads replies with a parser written in C, and takes less than half of the CPU time. What it
does by itself and must not be done to orders and documents is off: it sends nothing twice, follows
no redirect, keeps no cookie, rewrites no path, and decompresses nothing.
"""

import ssl
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, cast

import aiohttp
import httpx
from aiohttp import hdrs
from yarl import URL

from gateway_sdk._config import KEEPALIVE_EXPIRY
from gateway_sdk._repr import safe_repr
from gateway_sdk._transport.admission import Admission, RateLimiter
from gateway_sdk._transport.aiohttp_connector import Connector
from gateway_sdk._transport.aiohttp_exchange import (
    CURRENT,
    AiohttpExchange,
    failure_of,
    tell_truth,
)
from gateway_sdk._transport.proxy import forwards
from gateway_sdk._transport.transmission import EXTENSION, Transmission
from gateway_sdk.errors import ConfigurationError

_LONGEST_HEAD: Final = 100 * 1024  # bytes of a reply's line, or field; as on the other engine
_MOST_FIELDS: Final = 1000
_NO_TYPE: Final = (hdrs.CONTENT_TYPE,)
_NO_TIMEOUTS: Final[Mapping[str, float | None]] = MappingProxyType({})


class AiohttpEngine(httpx.AsyncBaseTransport):
    """A transport that is safe to cancel and tells what was sent.

    `ConnectError`, `ConnectTimeout`, `PoolTimeout` and `ProxyError` mean that no byte left.
    """

    def __init__(
        self,
        max_connections: int,
        ssl_context: ssl.SSLContext,
        *,
        proxy: httpx.Proxy | None = None,
        limiter: RateLimiter | None = None,
    ) -> None:
        self._admission = Admission(max_connections, limiter)
        self._proxy = proxy
        self._credentials = _credentials(proxy)
        self._through: dict[str, Any] = (
            {"proxy": str(proxy.url), "proxy_headers": self._credentials} if proxy else {}
        )
        self._session = aiohttp.ClientSession(
            # Its own resolver, not one that happens to be installed.
            connector=Connector(
                ssl=ssl_context,
                keepalive_timeout=KEEPALIVE_EXPIRY,
                resolver=aiohttp.ThreadedResolver(),
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            middlewares=(tell_truth,),
            max_line_size=_LONGEST_HEAD,
            max_field_size=_LONGEST_HEAD,
            max_headers=_MOST_FIELDS,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the reply's stream holds a slot until it is closed.

        Raises:
            httpx.PoolTimeout: no slot came free in time.
            httpx.TransportError: as from `httpx.AsyncHTTPTransport`.
            ConfigurationError: a header is not ASCII.
        """
        timeout = request.extensions.get("timeout", _NO_TIMEOUTS)
        exchange = AiohttpExchange(
            self._fields(request),
            _content_of(request),
            request.extensions.get(EXTENSION) or Transmission(sent=False),
            timeout.get("write"),
        )
        exchange.transmission.forwarded = forwards(self._proxy, request.url)
        await self._admission.enter(request)
        token = CURRENT.set(exchange)
        try:
            reply = await self._session.request(
                request.method,
                URL(str(request.url), encoded=True),
                data=exchange.payload,
                # The one field that aiohttp would add later than anybody can see.
                skip_auto_headers=_NO_TYPE if exchange.payload is None else None,
                allow_redirects=False,
                timeout=_timeout(timeout.get("connect"), timeout.get("read")),
                **self._through,
            )
        except BaseException:
            await self.drop(exchange)
            raise
        finally:
            CURRENT.reset(token)
        return httpx.Response(
            reply.status, headers=reply.raw_headers, stream=_ReplyStream(self, exchange, reply)
        )

    async def aclose(self) -> None:
        """Close every connection, and wait until they are closed."""
        await self._session.close()

    def keep(self) -> None:
        """Give the slot back; aiohttp has the connection, which came to the reply's end."""
        self._admission.leave()

    async def drop(self, exchange: AiohttpExchange) -> None:
        """Give the slot back at once, and cut the connection: its state is not known."""
        exchange.cut()
        self._admission.leave()
        await exchange.stop()

    def _fields(self, request: httpx.Request) -> list[tuple[str, str]]:
        """Return the header fields of a request; a proxy sees its credentials among them.

        Raises:
            ConfigurationError: a field is not ASCII.
        """
        raw = request.headers.raw
        try:
            fields = [(name.decode("ascii"), value.decode("ascii")) for name, value in raw]
        except UnicodeDecodeError:
            name = next(name for name, value in raw if not value.isascii()).decode("ascii")
            raise ConfigurationError(
                f"the header {name} is not ASCII, which the engine 'aiohttp' would send as UTF-8: "
                "use the engine 'httpx'"
            ) from None
        if self._credentials and request.url.scheme == "http":  # else they are sent with CONNECT
            fields += self._credentials.items()
        return fields

    @safe_repr
    def __repr__(self) -> str:
        return f"<AiohttpEngine {self._admission.slots!r}>"


class _ReplyStream(httpx.AsyncByteStream):
    """The body of a reply as it comes, which gives the slot back when it is closed."""

    def __init__(
        self, engine: AiohttpEngine, exchange: AiohttpExchange, reply: aiohttp.ClientResponse
    ) -> None:
        self._engine = engine
        self._exchange = exchange
        self._reply: aiohttp.ClientResponse | None = reply
        self._content = reply.content

    def __aiter__(self) -> "_ReplyStream":
        return self

    async def __anext__(self) -> bytes:
        """Return what came next, at once if it is there."""
        try:
            piece = await self._content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise failure_of(error) from None
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Keep the connection, or drop it if the reply did not come to its end."""
        reply, self._reply = self._reply, None
        if reply is None:
            return
        # Once all of it came, another exchange may have the connection, whoever has read what.
        if reply.closed and self._exchange.is_whole:
            self._engine.keep()
            return
        self._exchange.cut()
        if not reply.closed:
            reply.close()
        await self._engine.drop(self._exchange)


def _content_of(request: httpx.Request) -> httpx.AsyncByteStream | None:
    """Return the content of a request; None if there is none."""
    # A document is asked even if it should be empty: it may no longer be.
    if isinstance(request.stream, httpx.ByteStream) and not b"".join(request.stream):
        return None
    return cast("httpx.AsyncByteStream", request.stream)


def _credentials(proxy: httpx.Proxy | None) -> dict[str, str]:
    if proxy is None or proxy.raw_auth is None:
        return {}
    encoded = b64encode(b":".join(proxy.raw_auth)).decode("ascii")
    return {hdrs.PROXY_AUTHORIZATION: f"Basic {encoded}"}


@lru_cache(maxsize=32)
def _timeout(connect: float | None, read: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=connect, sock_read=read)
