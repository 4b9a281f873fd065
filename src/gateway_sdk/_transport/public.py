"""The transport of a session, and the engine as one for the user's own `httpx.AsyncClient`."""

import asyncio
import logging
from functools import cache
from typing import Unpack, cast

import httpx

from gateway_sdk._checks import check_names
from gateway_sdk._http.reply import RawReply, index_of
from gateway_sdk._http.request import PreparedRequest, RawHeaders, RequestBase
from gateway_sdk._python import safe_repr
from gateway_sdk._transport.config import CONNECTION, ConnectionSettings, EngineConfig, make_engine
from gateway_sdk._transport.custom import AnyClient, CustomTransport, transport_of
from gateway_sdk._transport.transmission import EXTENSION, Request, Transmission, Transport
from gateway_sdk.rate_limit import limiter_of

_logger = logging.getLogger("gateway_sdk")

_PHASES = ("connect", "read", "write", "pool")


class GatewayTransport(httpx.AsyncBaseTransport):
    """The SDK's own connections, for an `httpx.AsyncClient` that a session gets as `http_client=`.

    The client keeps its event hooks and what instruments it, and the session still knows what was
    sent: it recognises this transport inside the client. With any other transport, every failure
    has the outcome UNKNOWN.

        async with httpx.AsyncClient(transport=GatewayTransport()) as client:
            gateway = GatewaySession(url, access_token="...", http_client=client)

    Each origin has its own connections. The arguments are those of `GatewaySession`:
    `max_connections`, `verify`, `cert`, `proxy` and `trust_env`.

    Raises:
        ConfigurationError: an argument is wrong; the message names it.
    """

    def __init__(self, **settings: Unpack[ConnectionSettings]) -> None:
        check_names("GatewayTransport", settings, CONNECTION)
        self._config = EngineConfig.of(settings)
        self._engines: dict[bytes, Transport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        transmission: Transmission | None = request.extensions.get(EXTENSION)
        if transmission is None or not transmission.is_awaited:
            return response_of(await self._exchange(request, Transmission(sent=False)))
        # Once: if something in the client sends the request again, the outcome is unknown.
        transmission.is_awaited = transmission.sent = False
        try:
            return response_of(await self._exchange(request, transmission))
        except BaseException as error:
            if not transmission.sent:
                transmission.failed_unsent, transmission.sent = error, True
            raise

    async def _exchange(self, request: httpx.Request, own: Transmission) -> RawReply:
        sent = request_of(request, own)
        engine = self._engines.get(sent.base.origin)
        if engine is None:
            try:  # in a thread: to load the authorities takes 30 ms
                made = await asyncio.to_thread(make_engine, self._config, request.url)
            except RuntimeError:  # no thread can be started
                made = make_engine(self._config, request.url)
            engine = self._engines.setdefault(sent.base.origin, made)
        return await engine.exchange(sent)

    async def aclose(self) -> None:
        """Cut all open connections, and wait until they are closed."""
        for engine in self._engines.values():
            await engine.aclose()

    @safe_repr
    def __repr__(self) -> str:
        return f"<GatewayTransport {list(self._engines.values())}>"


def request_of(request: httpx.Request, transmission: Transmission) -> Request:
    fields = request.headers.raw
    times = request.extensions.get("timeout", {})
    prepared = PreparedRequest(
        RequestBase(request.method, request.url, fields),
        request.url.raw_path,
        cast("httpx.AsyncByteStream", request.stream),
        _length_of(fields),
        [],
    )
    timeout = httpx.Timeout(**{phase: times.get(phase) for phase in _PHASES})
    return Request(prepared, [], timeout, transmission)


def response_of(reply: RawReply) -> httpx.Response:
    stream = reply.stream or httpx.ByteStream(reply.body)
    return httpx.Response(reply.status, headers=reply.fields, stream=stream)


def _length_of(fields: RawHeaders) -> int | None:
    index = index_of(fields)
    return None if b"transfer-encoding" in index else int(index.get(b"content-length", 0))


def make_transport(config: EngineConfig, base_url: httpx.URL) -> Transport:
    if config.is_ours:
        return make_engine(config, base_url)
    return CustomTransport(
        transport_of(config.transport, config.http_client),
        limiter_of(config.rate_limit),
        tells_what_was_sent=config.http_client is not None and _has_ours(config.http_client),
    )


def _has_ours(client: AnyClient) -> bool:
    """Tell whether the user's client sends through a `GatewayTransport`."""
    # Exactly: around another transport, or in a subclass, it may be one of several that are tried.
    # httpx (allowed: 0.28 to 1) has no public way to see it.
    transport = vars(client).get("_transport")
    if transport is None:
        _warn(type(client).__module__.partition(".")[0])
    return type(transport) is GatewayTransport


@cache
def _warn(library: str) -> None:
    _logger.warning(
        "this release of %s does not show which transport a client has: after a failure, "
        "calls through http_client= have the outcome UNKNOWN",
        library,
    )
