"""Make the transport of a session: the engine, or what the user gave in its place."""

import logging
from functools import cache

import httpx

from gateway_sdk._transport.config import EngineConfig, make_engine
from gateway_sdk._transport.custom import (
    AnyClient,
    CustomTransport,
    transport_of,
    transport_of_client,
)
from gateway_sdk._transport.transmission import Transport
from gateway_sdk.rate_limit import limiter_of

_logger = logging.getLogger("gateway_sdk")


def make_transport(config: EngineConfig, base_url: httpx.URL) -> Transport:
    if config.is_ours:
        return make_engine(config, base_url)
    limiter = limiter_of(config.rate_limit)
    client = config.http_client
    if client is None:
        return CustomTransport(transport_of(config.transport), limiter)
    return CustomTransport(
        transport_of_client(client), limiter, tells_what_was_sent=_has_ours(client)
    )


def _has_ours(client: AnyClient) -> bool:
    """Tell whether the user's client sends through a `GatewayTransport`."""
    # Exactly: around another transport, or in a subclass, it may be one of several that are tried.
    # httpx (allowed: 0.28 to 1) has no public way to see it.
    from gateway_sdk._transport.public import GatewayTransport  # noqa: PLC0415 - few have one

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
