"""The aiohttp engine: httpx's interface, aiohttp's speed.

aiohttp reads replies with a parser written in C, which costs a third of the CPU time. What it does
by itself and must not be done to orders and documents is off: it sends nothing twice, follows no
redirect, keeps no cookie, rewrites no path, and decompresses nothing.
"""

import ssl
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

import aiohttp
import httpx
from aiohttp import hdrs
from yarl import URL

from gateway_sdk._config import KEEPALIVE_EXPIRY
from gateway_sdk._engine.aiohttp_connector import Connector
from gateway_sdk._engine.aiohttp_exchange import (
    CURRENT,
    AiohttpExchange,
    failure_of,
    tell_truth,
)
from gateway_sdk._engine.entrance import Entrance
from gateway_sdk._engine.progress import EXTENSION, Progress
from gateway_sdk._engine.rate import RateLimiter
from gateway_sdk.errors import ConfigurationError

RawHeaders: TypeAlias = list[tuple[bytes, bytes]]

_LONGEST_HEAD: Final = 100 * 1024  # bytes of a reply's line, or field; as on the other engine
_MOST_FIELDS: Final = 1000
_AUTOMATIC: Final = (hdrs.ACCEPT, hdrs.ACCEPT_ENCODING, hdrs.CONTENT_TYPE, hdrs.USER_AGENT)
"""What aiohttp adds where it is missing."""
_GIVEN: Final = frozenset({b"Accept", b"Accept-Encoding", b"Content-Type", b"User-Agent"})
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
        self._entrance = Entrance(max_connections, limiter)
        self._proxy = proxy
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
        raw = request.headers.raw
        stream = cast("httpx.AsyncByteStream", request.stream) if _has_content(raw) else None
        progress = request.extensions.get(EXTENSION) or Progress(sent=False)
        headers = _as_text(raw)
        exchange = AiohttpExchange(progress, stream, timeout.get("write"))
        await self._entrance.enter(request)
        token = CURRENT.set(exchange)
        try:
            reply = await self._session.request(
                request.method,
                URL(str(request.url), encoded=True),
                headers=headers,
                # Saying so costs 4 us, and most requests have them all.
                skip_auto_headers=None if _GIVEN.issubset(dict(raw)) else _AUTOMATIC,
                data=exchange.payload,
                allow_redirects=False,
                timeout=_timeout(timeout.get("connect"), timeout.get("read")),
                **self._through(request.url, headers),
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

    async def keep(self, exchange: AiohttpExchange) -> None:
        """Give the slot back; aiohttp has the connection, which came to the reply's end."""
        self._entrance.leave()
        await exchange.stop()

    async def drop(self, exchange: AiohttpExchange) -> None:
        """Give the slot back at once, and cut the connection: its state is not known."""
        exchange.cut()
        self._entrance.leave()
        await exchange.stop()

    def _through(self, url: httpx.URL, headers: list[tuple[str, str]]) -> dict[str, Any]:
        """Return what sends a request through the proxy, if there is one."""
        if self._proxy is None:
            return {}
        credentials = {}
        if self._proxy.raw_auth is not None:
            user, password = (bytes(part).decode() for part in self._proxy.raw_auth)
            credentials = {hdrs.PROXY_AUTHORIZATION: aiohttp.encode_basic_auth(user, password)}
        if url.scheme == "http":  # the request itself goes to the proxy
            headers.extend(credentials.items())
            credentials = {}
        return {"proxy": str(self._proxy.url), "proxy_headers": credentials}

    def __repr__(self) -> str:
        return f"<AiohttpEngine {self._entrance.gate!r}>"


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
        """Keep the connection, or drop it if the reply was not read to its end."""
        reply, self._reply = self._reply, None
        if reply is None:
            return
        if self._content.at_eof() and self._content.exception() is None:
            reply.release()
            await self._engine.keep(self._exchange)
        else:
            self._exchange.cut()
            reply.close()
            await self._engine.drop(self._exchange)


def _has_content(headers: RawHeaders) -> bool:
    return any(
        name == b"Transfer-Encoding" or (name == b"Content-Length" and value != b"0")
        for name, value in headers
    )


def _as_text(headers: RawHeaders) -> list[tuple[str, str]]:
    """Return headers as aiohttp wants them; what frames chunks it says itself."""
    try:
        return [
            (name.decode("ascii"), value.decode("ascii"))
            for name, value in headers
            if name != b"Transfer-Encoding"
        ]
    except UnicodeDecodeError:
        raise ConfigurationError(
            "a header is not ASCII, which the engine 'aiohttp' would send as UTF-8: "
            "use the engine 'httpx'"
        ) from None


@lru_cache(maxsize=32)
def _timeout(connect: float | None, read: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=connect, sock_read=read)
