"""The settings of a session's transport, and of connections alone."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, TypedDict

from gateway_sdk._checks import check_count, check_switch, checked, declared
from gateway_sdk._transport.through_httpx import AnyClient, AnyTransport, library_of
from gateway_sdk._url import parse_proxy
from gateway_sdk.errors import ConfigurationError
from gateway_sdk.rate_limit import RateLimit

Authorities: TypeAlias = ssl.SSLContext | str | Path | Literal[True]
Certificate: TypeAlias = (
    str | Path | tuple[str | Path, str | Path] | tuple[str | Path, str | Path, str]
)
_CERT_SIZES: Final = (1, 2, 3)


def _check_verify(name: str, verify: object) -> object:
    if verify is not True and not isinstance(verify, ssl.SSLContext | str | Path):
        raise ConfigurationError(
            "must be True, the path of a CA file or folder, or an ssl.SSLContext", setting=name
        )
    return verify


def _check_cert(name: str, cert: object) -> object:
    parts = cert if isinstance(cert, tuple) else (cert,)
    is_path = [isinstance(part, str | Path) for part in parts]
    if cert is not None and (len(parts) not in _CERT_SIZES or not all(is_path)):
        raise ConfigurationError(
            "must be a path, or (certificate, key) or with a password", setting=name
        )
    return cert


def _check_proxy(name: str, proxy: str | None) -> str | None:
    if proxy is not None:
        parse_proxy(name, proxy)
    return proxy


def _check_kind(name: str, value: object, *, kind: str) -> object:
    if value is not None and library_of(value, kind) is None:
        raise ConfigurationError(f"must be an httpx.{kind}, or one of httpx2", setting=name)
    return value


def _check_rate_limit(name: str, limit: object) -> object:
    if limit is not None and not isinstance(limit, RateLimit):
        raise ConfigurationError("must be a RateLimit, or None for no limit", setting=name)
    return limit


class ConnectionSettings(TypedDict, total=False):
    """The settings of the SDK's own connections; a transport or client of the user has its own."""

    # Requests sent at the same time; the others queue.
    max_connections: Annotated[int, 50, check_count]
    verify: Annotated[Authorities, True, _check_verify]
    cert: Annotated[Certificate | None, None, _check_cert]
    proxy: Annotated[str | None, None, _check_proxy]
    trust_env: Annotated[bool, True, check_switch]


class TransportSettings(ConnectionSettings, total=False):
    """The settings of the transport of a session."""

    transport: Annotated[AnyTransport | None, None, partial(_check_kind, kind="AsyncBaseTransport")]
    http_client: Annotated[AnyClient | None, None, partial(_check_kind, kind="AsyncClient")]
    rate_limit: Annotated[RateLimit | None, None, _check_rate_limit]


CONNECTION: Final = declared(ConnectionSettings)
TRANSPORT: Final = declared(TransportSettings)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EngineConfig:
    """Which transport a session has; the fields are those of `TransportSettings`."""

    transport: AnyTransport | None
    http_client: AnyClient | None
    max_connections: int
    verify: Authorities
    cert: Certificate | None = field(repr=False)
    proxy: str | None = field(repr=False)
    trust_env: bool
    rate_limit: RateLimit | None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        config = cls(**checked(TRANSPORT, settings))
        if config.cert is not None and isinstance(config.verify, ssl.SSLContext):
            raise ConfigurationError(
                "load the client certificate into verify=, or give cert= alone"
            )
        if config.is_ours:
            return config
        if config.transport is not None and config.http_client is not None:
            raise ConfigurationError("give transport= or http_client=, not both")
        given = [name for name in CONNECTION if name in settings]
        if ignored := [name for name in given if settings[name] is not None or CONNECTION[name][0]]:
            seam = "transport" if config.http_client is None else "http_client"
            raise ConfigurationError(
                f"leave out {', '.join(ignored)}: settings of an engine's connections have no "
                f"effect beside {seam}=, which has its own"
            )
        return config

    @property
    def is_ours(self) -> bool:
        return self.transport is None and self.http_client is None
