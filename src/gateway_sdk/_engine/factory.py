"""Make the transport that a session asked for."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import httpx

from gateway_sdk._config import check_count
from gateway_sdk._engine.foreign import ClientTransport
from gateway_sdk._engine.httpx_engine import HttpxEngine
from gateway_sdk.errors import ConfigurationError

ENGINES: Final = ("httpx",)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Which transport is wanted; nothing is made before `make_transport`.

    Attributes:
        engine: One of `ENGINES`.
        transport: The user's own transport in place of an engine, or None.
        http_client: The user's own client in place of an engine, or None.
        max_connections: Of an engine.
        verify: True for the usual authorities, a path of a CA file or folder, or a context.
    """

    engine: str
    transport: httpx.AsyncBaseTransport | None
    http_client: httpx.AsyncClient | None
    max_connections: int
    verify: ssl.SSLContext | str | Path | Literal[True]

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise ConfigurationError(f"engine must be {' or '.join(map(repr, ENGINES))}")
        if self.transport is not None and self.http_client is not None:
            raise ConfigurationError("give transport= or http_client=, not both")
        _check_type("transport", self.transport, httpx.AsyncBaseTransport)
        _check_type("http_client", self.http_client, httpx.AsyncClient)
        check_count("max_connections", self.max_connections)
        if self.verify is not True and not isinstance(self.verify, ssl.SSLContext | str | Path):
            raise ConfigurationError(
                "verify must be True, the path of a CA file or folder, or an ssl.SSLContext"
            )

    @property
    def is_ours(self) -> bool:
        """Whether the transport is one of our engines, which can tell what was sent."""
        return self.transport is None and self.http_client is None


def make_transport(config: EngineConfig, *, tls: bool) -> httpx.AsyncBaseTransport:
    """Return the transport that was asked for.

    Args:
        config: Which one.
        tls: Whether the gateway's address is https; without it no authorities are loaded, which
            takes about 20 ms.

    Raises:
        ConfigurationError: the authorities cannot be read.
    """
    if config.transport is not None:
        return config.transport
    if config.http_client is not None:
        return ClientTransport(config.http_client)
    context = _ssl_context(config.verify) if tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return HttpxEngine(config.max_connections, context)


def _ssl_context(verify: ssl.SSLContext | str | Path | Literal[True]) -> ssl.SSLContext:
    if isinstance(verify, ssl.SSLContext):
        return verify
    if verify is True:
        return httpx.create_ssl_context()
    path = Path(verify)
    try:
        if path.is_dir():
            return ssl.create_default_context(capath=path)
        return ssl.create_default_context(cafile=path)
    except (OSError, ValueError) as error:  # an ssl.SSLError is an OSError
        raise ConfigurationError("verify names no readable CA file or folder") from error


def _check_type(name: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise ConfigurationError(f"{name} must be an httpx.{kind.__name__}")
