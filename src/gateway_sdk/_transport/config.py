"""The settings of connections, and the engine that they make."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

import httpx

from gateway_sdk._config import DEFAULT_MAX_CONNECTIONS, UNSET, check_count, check_switch
from gateway_sdk._transport.custom import AnyClient, AnyTransport, library_of
from gateway_sdk._transport.rate_limit import AnyRateLimit
from gateway_sdk._transport.transmission import Transport
from gateway_sdk.errors import ConfigurationError

Certificate: TypeAlias = (
    str | Path | tuple[str | Path, str | Path] | tuple[str | Path, str | Path, str]
)
_CERT_SIZES: Final = (1, 2, 3)

DEFAULTS: Final[dict[str, Any]] = {
    "max_connections": DEFAULT_MAX_CONNECTIONS,
    "verify": True,
    "cert": None,
    "proxy": None,
    "trust_env": True,
}
"""The settings of an engine's connections; a transport or client of the user has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Which transport a session has."""

    transport: AnyTransport | None
    http_client: AnyClient | None
    max_connections: int
    verify: ssl.SSLContext | str | Path | Literal[True]
    cert: Certificate | None = field(repr=False)
    proxy: str | None = field(repr=False)
    trust_env: bool
    rate_limit: AnyRateLimit | None

    @classmethod
    def of(
        cls,
        *,
        transport: AnyTransport | None,
        http_client: AnyClient | None,
        rate_limit: AnyRateLimit | None,
        **given: Any,
    ) -> Self:
        """Replace UNSET by the defaults; refuse what has no effect."""
        chosen = {name: value for name, value in given.items() if value is not UNSET}
        _check_effect(chosen, transport, http_client)
        return cls(
            transport=transport,
            http_client=http_client,
            rate_limit=rate_limit,
            **{**DEFAULTS, **chosen},
        )

    def __post_init__(self) -> None:
        _check_type("transport", self.transport, "AsyncBaseTransport")
        _check_type("http_client", self.http_client, "AsyncClient")
        check_count("max_connections", self.max_connections)
        if self.verify is not True and not isinstance(self.verify, ssl.SSLContext | str | Path):
            raise ConfigurationError(
                "verify must be True, the path of a CA file or folder, or an ssl.SSLContext"
            )
        _check_cert(self.cert, self.verify)
        check_switch("trust_env", self.trust_env)
        if self.proxy is not None:
            from gateway_sdk._transport.proxy import parse_proxy  # noqa: PLC0415 - few have one

            parse_proxy("proxy", self.proxy)
        if self.rate_limit is not None and not isinstance(self.rate_limit, AnyRateLimit):
            raise ConfigurationError("rate_limit must be a RateLimit, or None for no limit")

    @property
    def is_ours(self) -> bool:
        """Whether the transport is our engine, which reports what was sent."""
        return self.transport is None and self.http_client is None


def make_engine(config: EngineConfig, url: httpx.URL) -> Transport:
    """Make an engine; certificate authorities are loaded for https only: that takes 30 ms."""
    # Here: a program that makes no call does not load what opens connections.
    from gateway_sdk._transport.engine import Engine  # noqa: PLC0415
    from gateway_sdk._transport.proxy import proxy_for  # noqa: PLC0415

    limiter = None if config.rate_limit is None else config.rate_limit.make_limiter()
    proxy = proxy_for(url, config.proxy, trust_env=config.trust_env)
    if proxy is not None and proxy.url.scheme == "https":
        proxy.ssl_context = _authorities(config)  # without cert=, which is for the gateway
    tls = url.scheme == "https"
    context = _ssl_context(config) if tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return Engine(config.max_connections, context, proxy=proxy, limiter=limiter)


def _ssl_context(config: EngineConfig) -> ssl.SSLContext:
    context = _authorities(config)
    if config.cert is not None:
        parts = config.cert if isinstance(config.cert, tuple) else (config.cert,)
        certificate, key, password, *_ = (*map(str, parts), None, None)
        try:
            # Without any password OpenSSL would ask for one at the terminal, and wait.
            context.load_cert_chain(str(certificate), key, password or "")
        except (OSError, ValueError):
            # Without the cause, whose text may hold the path of a key, or part of its password.
            raise ConfigurationError("cert names no readable certificate and key") from None
    return context


def _authorities(config: EngineConfig) -> ssl.SSLContext:
    if isinstance(config.verify, ssl.SSLContext):
        return config.verify
    try:
        if config.verify is True:
            return httpx.create_ssl_context(trust_env=config.trust_env)
        path = Path(config.verify)
        if path.is_dir():
            return ssl.create_default_context(capath=path)
        return ssl.create_default_context(cafile=path)
    except (OSError, ValueError) as error:  # an ssl.SSLError is an OSError
        what = "SSL_CERT_FILE or SSL_CERT_DIR" if config.verify is True else "verify"
        raise ConfigurationError(f"{what} names no readable CA file or folder") from error


def _check_effect(chosen: Mapping[str, object], transport: object, http_client: object) -> None:
    if transport is not None and http_client is not None:
        raise ConfigurationError("give transport= or http_client=, not both")
    if transport is None and http_client is None:
        return
    ignored = [name for name, value in chosen.items() if value is not None or DEFAULTS[name]]
    if ignored:
        raise ConfigurationError(
            f"leave out {', '.join(ignored)}: settings of an engine's connections have no effect "
            f"beside {'transport' if http_client is None else 'http_client'}=, which has its own"
        )


def _check_cert(cert: object, verify: object) -> None:
    if cert is None:
        return
    if isinstance(verify, ssl.SSLContext):
        raise ConfigurationError("load the client certificate into verify=, or give cert= alone")
    parts = cert if isinstance(cert, tuple) else (cert,)
    if len(parts) not in _CERT_SIZES or not all(isinstance(part, str | Path) for part in parts):
        raise ConfigurationError("cert must be a path, or (certificate, key) or with a password")


def _check_type(name: str, value: object, kind: str) -> None:
    if value is not None and library_of(value, kind) is None:
        raise ConfigurationError(f"{name} must be an httpx.{kind}, or one of httpx2")
