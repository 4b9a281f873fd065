"""What users give and get: settings of connections, and the transport that they make."""

import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, TypedDict, Unpack, cast

import httpx

from gateway_sdk._checks import check_count, check_names, check_switch, checked, declared, shown
from gateway_sdk._http.reply import RawReply, index_of
from gateway_sdk._http.request import PreparedRequest, RequestBase
from gateway_sdk._python import safe_repr
from gateway_sdk._transport.custom import (
    AnyClient,
    AnyTransport,
    ClientTransport,
    CustomTransport,
    library_of,
)
from gateway_sdk._transport.transmission import EXTENSION, Request, Transmission, Transport
from gateway_sdk._url import origin_of
from gateway_sdk.errors import ConfigurationError
from gateway_sdk.rate_limit import Limiter, RateLimit, RateLimiter

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
        from gateway_sdk._transport.dial import parse_proxy  # noqa: PLC0415 - few have one

        parse_proxy(name, proxy)
    return proxy


def _check_kind(name: str, value: object, *, kind: str) -> object:
    if value is not None and library_of(value, kind) is None:
        raise ConfigurationError(f"must be an httpx.{kind}, or one of httpx2", setting=name)
    return value


def _check_rate_limit(name: str, limit: object) -> object:
    if limit is not None and not isinstance(limit, RateLimit | Limiter):
        raise ConfigurationError(
            "must be a RateLimit, a Limiter, or None for no limit", setting=name
        )
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
    rate_limit: Annotated[RateLimit | Limiter | None, None, _check_rate_limit]


CONNECTION: Final = declared(ConnectionSettings)
TRANSPORT: Final = declared(TransportSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Which transport a session has; the fields are those of `TransportSettings`."""

    transport: AnyTransport | None
    http_client: AnyClient | None
    max_connections: int
    verify: Authorities
    cert: Certificate | None = field(repr=False)
    proxy: str | None = field(repr=False)
    trust_env: bool
    rate_limit: RateLimit | Limiter | None

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


def make_transport(config: EngineConfig, url: httpx.URL) -> Transport:
    rate, client, transport = config.rate_limit, config.http_client, config.transport
    limiter = RateLimiter(rate) if isinstance(rate, RateLimit) else rate
    if client is not None:
        library = library_of(client, "AsyncClient")
        through = ClientTransport(client, library)
        return CustomTransport(through, limiter, library, tells_what_was_sent=_has_ours(client))
    if transport is not None:
        return CustomTransport(transport, limiter, library_of(transport, "AsyncBaseTransport"))

    # Here: a program that makes no call does not load what opens connections.
    from gateway_sdk._transport.dial import proxy_for  # noqa: PLC0415
    from gateway_sdk._transport.engine import Engine  # noqa: PLC0415

    proxy = proxy_for(url, config.proxy, trust_env=config.trust_env)

    def load_tls() -> ssl.SSLContext:
        if proxy is not None and proxy.url.scheme == "https":
            proxy.ssl_context = _authorities(config)  # without cert=, which is for the gateway
        return _ssl_context(config)

    stamp = partial(_stamp_of, config)
    return Engine(url, config.max_connections, load_tls, stamp, proxy=proxy, limiter=limiter)


def _stamp_of(config: EngineConfig) -> object:
    """Return what is equal as long as the files for TLS are the same."""
    cert = config.cert if isinstance(config.cert, tuple) else (config.cert,)
    paths: list[object] = [*cert[:2], config.verify]  # without the password
    if config.verify is True and config.trust_env:
        folders = os.environ.get("SSL_CERT_DIR", "").split(os.pathsep)
        paths += [os.environ.get("SSL_CERT_FILE"), *folders]
    return [_state_of(path) for path in paths if isinstance(path, str | Path) and path]


def _state_of(path: str | Path) -> object:
    with suppress(OSError, ValueError):
        found = Path(path).stat()  # of what a link leads to: Kubernetes changes the link
        return found.st_mtime_ns, found.st_size, found.st_ino
    return None


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
    context.set_alpn_protocols(["http/1.1"])
    return context


def _authorities(config: EngineConfig) -> ssl.SSLContext:
    if isinstance(config.verify, ssl.SSLContext):
        return config.verify
    if config.verify is True:  # OpenSSL documents these; the second may name several folders
        of_file, of_folder = "SSL_CERT_FILE", "SSL_CERT_DIR"
        environment: Mapping[str, str] = os.environ if config.trust_env else {}
        file, folders = environment.get(of_file), environment.get(of_folder)
        if not (file or folders):
            return httpx.create_ssl_context(trust_env=False)
    else:
        of_file = of_folder = "verify"
        file, folders = str(config.verify) or os.devnull, None  # Path("") is the working folder
        if Path(file).is_dir():
            file, folders = None, file
    if folders and not all(Path(it).is_dir() for it in folders.split(os.pathsep) if it):
        raise ConfigurationError("names a folder that does not exist", setting=of_folder)
    try:
        return ssl.create_default_context(cafile=file or None, capath=folders or None)
    except (OSError, ValueError) as error:  # an ssl.SSLError is an OSError
        problem = "names no readable CA file"
        raise ConfigurationError(problem, setting=of_file) from error


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

    @shown()
    def __init__(self, **settings: Unpack[ConnectionSettings]) -> None:
        given = check_names("GatewayTransport", settings, CONNECTION)
        self._config = EngineConfig.of(given)
        self._engines: dict[str, Transport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        own: Transmission | None = request.extensions.get(EXTENSION)
        # Once: if something in the client sends the request again, the outcome is unknown.
        if own is None or not own.is_awaited:
            own = Transmission()
        own.is_awaited = own.sent = False
        try:
            sent, origin = request_of(request, own), origin_of(request.url)
            if origin not in self._engines:
                self._engines[origin] = make_transport(self._config, request.url)
            return response_of(await self._engines[origin].exchange(sent))
        except BaseException as error:
            if not own.sent:
                own.failed_unsent, own.sent = error, True
            raise

    async def aclose(self) -> None:
        """Cut all open connections, and wait until they are closed."""
        for engine in self._engines.values():
            await engine.aclose()

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


def _has_ours(client: AnyClient) -> bool:
    """Tell whether the user's client sends through a `GatewayTransport`."""
    # Exactly: around another transport, or in a subclass, it may be one of several that are tried.
    # httpx has no public way to see it; if it renames the attribute, outcomes are UNKNOWN.
    return type(vars(client).get("_transport")) is GatewayTransport
