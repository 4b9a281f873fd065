"""The transport of a session, and the one of our own that users give to their clients."""

import asyncio
import os
import ssl
from functools import partial
from typing import Any, Unpack, cast

import httpx

from gateway_sdk._checks import check_names, shown
from gateway_sdk._http.reply import RawReply, index_of
from gateway_sdk._http.request import PreparedRequest, RequestBase
from gateway_sdk._python import safe_repr
from gateway_sdk._transport.engine import Engine
from gateway_sdk._transport.proxy import proxy_for
from gateway_sdk._transport.settings import CONNECTION, ConnectionSettings, EngineConfig
from gateway_sdk._transport.through_httpx import (
    AnyClient,
    ClientTransport,
    CustomTransport,
    library_of,
)
from gateway_sdk._transport.tls import authorities, ssl_context, stamp_of
from gateway_sdk._transport.transmission import (
    EXTENSION,
    Request,
    Transmission,
    Transport,
    hide_frames,
)
from gateway_sdk._url import origin_of
from gateway_sdk.errors import ConfigurationError, misused
from gateway_sdk.rate_limit import RateLimiter


def make_transport(config: EngineConfig, url: httpx.URL) -> Transport:
    rate, client, transport = config.rate_limit, config.http_client, config.transport
    limiter = None if rate is None else RateLimiter(rate)
    if client is not None:
        library = library_of(client, "AsyncClient")
        through = ClientTransport(client, library)
        return CustomTransport(
            through, limiter, library, tells_what_was_sent=_has_ours(client, library)
        )
    if transport is not None:
        return CustomTransport(transport, limiter, library_of(transport, "AsyncBaseTransport"))

    proxy = proxy_for(url, config.proxy, trust_env=config.trust_env)

    def load_tls() -> ssl.SSLContext:
        if proxy is not None and proxy.url.scheme == "https":
            proxy.ssl_context = authorities(config)  # without cert=, which is for the gateway
        return ssl_context(config)

    stamp = partial(stamp_of, config)
    return Engine(url, config.max_connections, load_tls, stamp, proxy=proxy, limiter=limiter)


class GatewayTransport(httpx.AsyncBaseTransport):
    """The SDK's own connections, for an `httpx.AsyncClient` that a session gets as `http_client=`.

    The client keeps its event hooks and what instruments it, and the session still knows what was
    sent: it recognises this transport inside the client. With any other transport, every failure
    has the outcome UNKNOWN.

        async with httpx.AsyncClient(transport=GatewayTransport()) as client:
            gateway = GatewaySession(url, access_token="...", http_client=client)

    Each origin has its own connections. They belong to the event loop and the process of the first
    request; in another one, requests raise `SessionStateError`, and nothing is sent. The arguments
    are those of `GatewaySession`: `max_connections`, `verify`, `cert`, `proxy` and `trust_env`.

    Raises:
        ConfigurationError: an argument is wrong; the message names it.
    """

    @shown()
    def __init__(self, **settings: Unpack[ConnectionSettings]) -> None:
        given = check_names("GatewayTransport", settings, CONNECTION)
        self._config = EngineConfig.of(given)
        self._engines: dict[str, Transport] = {}
        self._place: tuple[asyncio.AbstractEventLoop, int] | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        own: Transmission | None = request.extensions.get(EXTENSION)
        # Once: if something in the client sends the request again, the outcome is unknown.
        if own is None or not own.is_awaited:
            if own is not None:
                own.failed_unsent = own.status = None
            own = Transmission()
        own.is_awaited = own.sent = False
        try:
            self._check_place()
            sent, origin = request_of(request, own), origin_of(request.url)
            if origin not in self._engines:
                self._engines[origin] = make_transport(self._config, request.url)
            return response_of(await self._engines[origin].exchange(sent))
        except BaseException as error:
            hide_frames(error)
            if not own.sent:
                own.failed_unsent, own.sent = error, True
            raise

    async def aclose(self) -> None:
        """Cut all open connections, and wait until they are closed."""
        self._check_place()
        for engine in self._engines.values():
            await engine.aclose()
        self._engines.clear()

    def _check_place(self) -> None:
        place = asyncio.get_running_loop(), os.getpid()
        if self._engines and place != self._place:
            raise misused(
                "the GatewayTransport was first used in another event loop, or in the parent "
                "process: make one for each"
            )
        self._place = place

    @safe_repr
    def __repr__(self) -> str:
        return f"<GatewayTransport {list(self._engines.values())}>"


def request_of(request: httpx.Request, transmission: Transmission) -> Request:
    if library_of(request, "Request") is not httpx:  # nor does a client of httpx2 take our reply
        raise ConfigurationError("a GatewayTransport is for clients of httpx alone")
    if request.url.scheme not in {"http", "https"}:  # its port would be that of http
        raise httpx.UnsupportedProtocol("only http:// and https://")
    fields = request.headers.raw
    index = index_of(fields)
    length = int(index.get(b"content-length", 0)) if b"transfer-encoding" not in index else None
    base = RequestBase(request.method, request.url, fields)
    stream = cast("httpx.AsyncByteStream", request.stream)
    prepared = PreparedRequest(base, request.url.raw_path, stream, length, [])
    timeout = httpx.Timeout(None, **request.extensions.get("timeout", {}))
    return Request(prepared, base, [], timeout, transmission)


def response_of(reply: RawReply) -> httpx.Response:
    stream = reply.stream or httpx.ByteStream(reply.body)
    return httpx.Response(reply.status, headers=reply.fields, stream=stream)


def _has_ours(client: AnyClient, library: Any) -> bool:
    """Tell whether the user's client sends through a `GatewayTransport`, and once."""
    # Exactly: around another transport, in a subclass, or in a client that has its own way to
    # send, it may be one of several that are tried.
    # httpx has no public way to see it; if it renames the attribute, outcomes are UNKNOWN.
    kinds = type(client).__mro__
    changed = client, *kinds[: kinds.index(library.AsyncClient)]
    sends_itself = any("send" in name for one in changed for name in vars(one))
    return type(vars(client).get("_transport")) is GatewayTransport and not sends_itself
