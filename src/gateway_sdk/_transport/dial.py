"""The way to the gateway: to the first of its addresses that answers, or through a proxy."""

import asyncio
import logging
import math
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from ipaddress import ip_address, ip_network
from itertools import chain, zip_longest
from typing import Any, Final, TypeAlias, cast
from urllib.request import getproxies_environment

import httpx

from gateway_sdk._http.reply import SUCCESS
from gateway_sdk._http.request import RawHeaders, field_lines
from gateway_sdk._transport.connection import Connection
from gateway_sdk._transport.reply_reader import ReplyReader
from gateway_sdk._transport.transmission import Transmission, TunnelError
from gateway_sdk._url import host_and_port, is_loopback, parse_url, port_of
from gateway_sdk._waiting import OwnCancellation, SingleFlight, in_thread
from gateway_sdk.errors import ConfigurationError

_logger = logging.getLogger("gateway_sdk")

SocketAddress: TypeAlias = tuple[Any, ...]
"""One entry of what `socket.getaddrinfo` returns."""

KEPT: Final = 2.0
"""Seconds for which the addresses of a name are kept: callers often come together."""

DELAY: Final = 0.25
"""Seconds before the next address is tried too, while earlier attempts go on (RFC 8305, 5)."""

AVOIDED: Final = 60.0
"""Seconds for which an address that did not answer in time is tried after the others."""

_PROBES: Final = {"TCP_KEEPIDLE": 3, "TCP_KEEPALIVE": 3, "TCP_KEEPINTVL": 3, "TCP_KEEPCNT": 3}
"""After 3 s of silence, and then every 3 s, the system asks whether the connection works still; 3
questions without an answer end it. (TCP_KEEPALIVE is macOS' name of TCP_KEEPIDLE.)"""

_NO_LOGIN, _LOGIN = 0, 2  # the methods of SOCKS5 (RFC 1928, 3)
_SIZES: Final = {1: 4, 4: 16}
"""Bytes of an IP address by its type (RFC 1928, 5); a name, of type 3, begins with its length."""
_FORBIDDEN: Final = 2
_FAILURES: Final = {
    _FORBIDDEN: "its rules forbid it",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
}
"""By the codes of RFC 1928, 6."""


class Route:
    """The way to one gateway."""

    def __init__(
        self,
        url: httpx.URL,
        load_tls: Callable[[], ssl.SSLContext],
        stamp: Callable[[], object],  # what it returns changes with the files that are loaded
        proxy: httpx.Proxy | None,
        note: Callable[[Connection], None],
    ) -> None:
        self._load_tls, self._stamp_of = load_tls, stamp
        self._speaks_tls = "https" in (url.scheme, proxy and proxy.url.scheme)
        self._tls = None if self._speaks_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._stamp: object = None
        self.proxy = proxy
        place = "" if proxy is None else host_and_port(*_address_of(proxy.url))
        self._proxy_name = f"the proxy {place}" if place else None
        self._is_socks = proxy is not None and proxy.url.scheme.startswith("socks")
        self.forwards = proxy is not None and url.scheme == "http" and not self._is_socks
        self.credentials: RawHeaders = []  # for the proxy
        if proxy is not None and proxy.raw_auth is not None:
            basic = b"Basic " + b64encode(b":".join(proxy.raw_auth))
            self.credentials = [(b"Proxy-Authorization", basic)]
        self._url = url
        self._note = note
        self._dialler = Dialler(*_address_of(url if proxy is None else proxy.url))
        start = partial(in_thread, "gateway_sdk authorities", self._load, daemon=False)
        self._loading = SingleFlight[ssl.SSLContext](start)
        self._is_away = False  # no connection could be made last time
        # What becomes of it, its time-out, and the proxy, if it talks to that only.
        self._trial: asyncio.Future[tuple[httpx.HTTPError | None, float, str | None]] | None = None

    async def tls(self) -> ssl.SSLContext:
        """Return the context for the gateway; to load the authorities takes 30 ms."""
        if self._tls and not (self._speaks_tls and self._stamp_of() != self._stamp):
            return self._tls
        try:
            return await self._loading.join()
        except ConfigurationError as error:
            raise copy(error) from error.__cause__  # its own: other callers get it too
        except RuntimeError:  # no thread can be started
            return self._load()

    def _load(self) -> ssl.SSLContext:
        stamp, tls = self._stamp_of(), self._tls  # not after it: the files may change
        try:
            tls = self._load_tls()
        except ConfigurationError as error:
            if tls is None:
                raise
            # Perhaps one of two files is new; when the other one comes, it is tried again.
            _logger.warning("the files for TLS have changed, and the old ones stay: %s", error)
        self._tls, self._stamp = tls, stamp
        return tls

    async def open(self, transmission: Transmission, seconds: float | None) -> Connection:
        # An error here means that no byte of the request was sent. While the server is away, one
        # call at a time tries, and the others wait for what becomes of it.
        transmission.proxy = self._proxy_name
        await self.tls()  # its time is not that of connecting
        limit = math.inf if seconds is None else seconds
        while self._trial is not None:
            theirs = self._trial
            await asyncio.wait([theirs], timeout=seconds)
            if not theirs.done():
                raise httpx.ConnectTimeout("")
            other, waited, proxy = theirs.result()
            # A shorter time-out than that of this call says nothing of the gateway.
            is_hasty = isinstance(other, httpx.ConnectTimeout) and waited < limit
            if other is not None and not is_hasty:
                transmission.proxy = proxy  # if it is the one that failed
                raise copy(other) from other.__cause__
        trial = asyncio.get_running_loop().create_future()
        if self._is_away:
            self._trial = trial
        failure: httpx.HTTPError | None = None
        try:
            connection = await self._timed(transmission, seconds)
        except httpx.HTTPError as error:
            failure = error
            self._is_away = True
            raise
        else:
            self._is_away = False
            return connection
        finally:
            if self._trial is trial:
                self._trial = None
            trial.set_result((failure, limit, transmission.proxy))

    async def _timed(self, transmission: Transmission, seconds: float | None) -> Connection:
        late = OwnCancellation()
        loop = asyncio.get_running_loop()
        timer = None if seconds is None else loop.call_later(seconds, late.cancel)
        try:
            return await self._open(transmission)
        except (OSError, UnicodeError) as error:  # an ssl.SSLError is one; the other is of a name
            raise httpx.ConnectError(type(error).__name__) from error
        except asyncio.CancelledError as error:
            if late.take_back(type(error)):
                raise httpx.ConnectTimeout("") from None
            raise
        finally:
            late.take_back(None)
            if timer is not None:
                timer.cancel()

    async def _open(self, transmission: Transmission) -> Connection:
        tls = await self.tls()
        try:
            return await self._open_with(tls, transmission)
        except ssl.SSLError:
            if (renewed := await self.tls()) is tls:
                raise
            return await self._open_with(renewed, transmission)  # its files changed meanwhile

    async def _open_with(self, tls: ssl.SSLContext, transmission: Transmission) -> Connection:
        proxy, (host, _) = self.proxy, _address_of(self._url)
        transmission.proxy = self._proxy_name
        connection = await self._dialler.connect()
        self._note(connection)
        try:
            if proxy is not None and proxy.url.scheme == "https":
                context = cast("ssl.SSLContext", proxy.ssl_context)  # loaded by `tls`
                await connection.start_tls(context, _address_of(proxy.url)[0])
            if proxy is not None and not self.forwards:
                await self._open_tunnel(connection, proxy)
                transmission.proxy = None
            if self._url.scheme == "https":
                await connection.start_tls(tls, host)
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _open_tunnel(self, connection: Connection, proxy: httpx.Proxy) -> None:
        host, port = _address_of(self._url)
        try:
            if self._is_socks:
                await _open_by_socks(connection, proxy.raw_auth, host, port)
            else:
                await self._open_by_connect(connection, host_and_port(host, port).encode("ascii"))
        except OSError as error:
            raise httpx.ProxyError(f"no tunnel: {type(error).__name__}") from None

    async def _open_by_connect(self, connection: Connection, authority: bytes) -> None:
        fields = field_lines([(b"Host", authority), *self.credentials])
        connection.write(b"CONNECT %b HTTP/1.1\r\n%b\r\n" % (authority, fields))
        reply = ReplyReader()
        reply.is_lenient = True
        while not reply.status:
            data = await connection.read(None)
            reply.receive(data)
            if not data or reply.failure is not None:
                raise httpx.ProxyError("no tunnel: no reply of HTTP/1.1")
        if reply.status == 407:  # noqa: PLR2004 - it wants credentials
            text = "answered 407: it wants a user name and a password"
            raise TunnelError(text, is_permanent=True)
        if reply.status == 403:  # noqa: PLR2004 - it forbids
            raise TunnelError("answered 403: its rules forbid the tunnel", is_permanent=True)
        if reply.status not in SUCCESS:
            raise TunnelError(f"refused a tunnel: it answered {reply.status}")
        if reply.buffered or reply.has_excess:  # in a tunnel the client sends first
            raise httpx.ProxyError("no tunnel: it holds something already")


async def _open_by_socks(
    connection: Connection, login: tuple[bytes, bytes] | None, host: str, port: int
) -> None:
    """Ask for a tunnel as RFC 1928 and RFC 1929 say; the proxy looks the name up."""
    methods, refusal = [_NO_LOGIN], "wants a user name and a password"
    if login is not None:
        methods, refusal = [_NO_LOGIN, _LOGIN], "did not accept the user name and the password"
    connection.write(b"\5" + _counted(bytes(methods)))
    version, method = await connection.read_exactly(2)
    if version != 5:  # noqa: PLR2004 - of SOCKS
        text = "does not speak SOCKS5: is the scheme of its address right?"
        raise TunnelError(text, is_permanent=True)
    if method not in methods:
        raise TunnelError(refusal, is_permanent=True)
    if login is not None and method == _LOGIN:
        connection.write(b"\1" + b"".join(map(_counted, login)))
        if (await connection.read_exactly(2))[1]:
            raise TunnelError(refusal, is_permanent=True)
    try:
        address = ip_address(host).packed
        place = (b"\1" if len(address) == _SIZES[1] else b"\4") + address
    except ValueError:
        place = b"\3" + _counted(host.encode("ascii"))
    connection.write(b"\5\1\0" + place + port.to_bytes(2, "big"))
    _, failure, _, kind = await connection.read_exactly(4)
    if failure:
        reason = _FAILURES.get(failure, f"SOCKS5 failure {failure}")
        raise TunnelError(f"made no tunnel: {reason}", is_permanent=failure == _FORBIDDEN)
    size = _SIZES.get(kind) or (await connection.read_exactly(1))[0]
    await connection.read_exactly(size + 2)  # what follows the address is a port


def _counted(text: bytes) -> bytes:
    if len(text) > 255:  # noqa: PLR2004 - one byte holds the length
        raise TunnelError("takes no name or password of more than 255 bytes", is_permanent=True)
    return bytes([len(text)]) + text


def _address_of(url: httpx.URL) -> tuple[str, int]:
    return url.raw_host.decode("ascii"), port_of(url)


class Dialler:
    """Connects to one host."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        # A daemon: where no server of names answers, a process would take 10 s and more to end.
        start = partial(in_thread, "gateway_sdk look-up", self._look_up)
        self._finding = SingleFlight[Sequence[SocketAddress]](start)
        self._found: Sequence[SocketAddress] = ()
        self._found_at = -math.inf  # by the loop's clock
        # Until when, of addresses that did not answer in time. The one that did is not preferred:
        # that would be the same replica for ever.
        self._avoided: dict[Any, float] = {}

    async def connect(self) -> Connection:
        """Open a connection; if the caller is cancelled, no socket stays open."""
        end = await self._dial()
        _, connection = await asyncio.get_running_loop().create_connection(Connection, sock=end)
        return connection

    async def _dial(self) -> socket.socket:
        """Return a connected socket; all other sockets that were tried are closed."""
        # Happy eyeballs (RFC 8305). asyncio's own (`happy_eyeballs_delay=`) leaves sockets open
        # when it is cancelled.
        addresses, now = _alternating(await self.addresses()), asyncio.get_running_loop().time()
        self._avoided = {place: end for place, end in self._avoided.items() if end > now}
        addresses.sort(key=lambda address: address[4] in self._avoided)
        try:
            if len(addresses) == 1:
                return await _connect(addresses[0])
            number, end = await _race(addresses)
        except OSError:  # the name may have other addresses now
            self._found_at = -math.inf
            raise
        self._avoided |= {address[4]: now + AVOIDED for address in addresses[:number]}
        return end

    async def addresses(self) -> Sequence[SocketAddress]:
        try:  # an IP address needs no thread
            return self._look_up(socket.AI_NUMERICHOST | socket.AI_NUMERICSERV)
        except socket.gaierror:
            pass
        loop = asyncio.get_running_loop()
        if loop.time() >= self._found_at + KEPT:
            try:
                self._found = await self._finding.join()
            except OSError as error:
                raise copy(error) from error.__cause__  # its own: other callers get it too
            except RuntimeError as error:  # the system refuses one more thread
                raise socket.gaierror(socket.EAI_AGAIN, "no thread for the look-up") from error
            self._found_at = loop.time()
        return self._found

    def _look_up(self, flags: int = 0) -> Sequence[SocketAddress]:
        return socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM, flags=flags)


def _alternating(addresses: Sequence[SocketAddress]) -> list[SocketAddress]:
    """Return the addresses with IPv6 and IPv4 alternating (RFC 8305, 4)."""
    preferred = addresses[0][0]
    first = [address for address in addresses if address[0] == preferred]
    others = [address for address in addresses if address[0] != preferred]
    return [address for address in chain(*zip_longest(first, others)) if address is not None]


async def _connect(address: SocketAddress) -> socket.socket:
    family, kind, protocol, _, place = address
    connection = socket.socket(family, kind, protocol)
    try:
        connection.settimeout(0)
        # Not TCP_USER_TIMEOUT: it also ends an upload to a server that lives and pauses reading.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name in _PROBES.keys() & vars(socket):
            with suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), _PROBES[name])
        await asyncio.get_running_loop().sock_connect(connection, place)
    except BaseException:
        connection.close()
        raise
    return connection


async def _race(addresses: list[SocketAddress]) -> tuple[int, socket.socket]:
    """Return the number and the socket of the first address that answers."""
    loop, winner = asyncio.get_running_loop(), None
    attempts: list[asyncio.Task[socket.socket]] = []
    pending: set[asyncio.Task[socket.socket]] = set()
    left = addresses.copy()
    try:
        while left or pending:
            if left:
                attempts.append(loop.create_task(_connect(left.pop(0))))
                pending.add(attempts[-1])
            # Until one of them ends, or the next one is due.
            delay = DELAY if left else None
            _, pending = await asyncio.wait(
                pending, timeout=delay, return_when=asyncio.FIRST_COMPLETED
            )
            if winner := next(filter(_is_connected, attempts), None):
                return attempts.index(winner), winner.result()
        errors = [error for attempt in attempts if (error := attempt.exception())]
        raise OSError("no address answers") from BaseExceptionGroup("of each address", errors)
    finally:
        for attempt in attempts:
            if attempt is not winner and _is_connected(attempt):
                attempt.result().close()
            attempt.cancel()


def _is_connected(attempt: asyncio.Task[socket.socket]) -> bool:
    return attempt.done() and not attempt.cancelled() and attempt.exception() is None


def proxy_for(base_url: httpx.URL, given: str | None, *, trust_env: bool) -> httpx.Proxy | None:
    # In the environment, HTTPS_PROXY or HTTP_PROXY counts, by the gateway's scheme, or else
    # ALL_PROXY. There is no proxy for hosts in NO_PROXY, and none for this machine.
    if given is not None:
        return parse_proxy("proxy", given)
    if not trust_env or is_loopback(base_url.host):
        return None
    proxies = getproxies_environment()
    if any(_covers(entry.strip(), base_url) for entry in proxies.get("no", "").split(",")):
        return None
    for variable in (base_url.scheme, "all"):
        if variable in proxies:
            return parse_proxy(f"{variable.upper()}_PROXY", proxies[variable])
    return None


def parse_proxy(name: str, address: object) -> httpx.Proxy:
    if not isinstance(address, str):
        raise ConfigurationError("must be a str", setting=name)
    # Without a scheme it is a host and port, as other programs read it.
    text = address if "://" in address else f"http://{address}"
    try:
        url = httpx.URL(text)
        host = url.host
    except (httpx.InvalidURL, ValueError):
        raise ConfigurationError("is not a URL", setting=name) from None
    if url.scheme not in ("http", "https", "socks5", "socks5h") or not host:
        raise ConfigurationError(
            "must be http://, https:// or socks5:// and name a host", setting=name
        )
    parse_url(name, f"http://{url.netloc.decode('ascii')}")
    if url.path.strip("/") or "?" in text or "#" in text:
        raise ConfigurationError(
            "holds more than a host and a port: write / ? # in its password as %2F %3F %23",
            setting=name,
        )
    return httpx.Proxy(url)


def _covers(entry: str, base_url: httpx.URL) -> bool:
    # An entry is a name, which covers its subdomains too, with or without a dot or `*.` before
    # it; an address; a network (CIDR); or `*`. A name or address with a port covers only that port.
    try:
        return ip_address(base_url.host) in ip_network(entry.strip("[]"), strict=False)
    except ValueError:  # one of them is a name, or has a port
        pass
    hosts = [one.removesuffix(".") for one in (base_url.host, base_url.raw_host.decode("ascii"))]
    places = (*hosts, *(host_and_port(host, port_of(base_url)) for host in hosts))
    name = entry.lower().removeprefix("*").strip(".")
    return entry == "*" or any(name and f".{place}".endswith(f".{name}") for place in places)
