"""The proxy on the way to the gateway, and how a tunnel through it is opened: CONNECT or SOCKS5."""

from base64 import b64encode
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.request import getproxies_environment

import httpx

from gateway_sdk._http.request import RawHeaders, field_lines
from gateway_sdk._transport.connection import Connection
from gateway_sdk._transport.exchange import Exchange
from gateway_sdk._transport.transmission import Transmission
from gateway_sdk._url import host_and_port, is_loopback, parse_url, port_of
from gateway_sdk.errors import ConfigurationError

_SCHEMES: Final = ("http", "https", "socks5", "socks5h")

_SUCCESS: Final = range(200, 300)
_NO_LOGIN, _LOGIN = 0, 2
_ADDRESS_SIZES: Final = {1: 4, 4: 16}
"""Bytes of an IP address by its type (RFC 1928, 5); a name, of type 3, begins with its length."""
_NAME: Final = 3


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
    if url.scheme not in _SCHEMES or not host:
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


def forwards(proxy: httpx.Proxy | None, address: httpx.URL) -> bool:
    return proxy is not None and address.scheme == "http" and not is_socks(proxy)


def is_socks(proxy: httpx.Proxy) -> bool:
    return proxy.url.scheme.startswith("socks")


def _covers(entry: str, base_url: httpx.URL) -> bool:
    # An entry is a name, which covers its subdomains too, with or without a dot or `*.` before
    # it; an address; a network (CIDR); or `*`. A name or address with a port covers only that port.
    try:
        return ip_address(base_url.host) in ip_network(entry.strip("[]"), strict=False)
    except ValueError:  # one of them is a name, or has a port
        pass
    hosts = (base_url.host, base_url.raw_host.decode("ascii"))
    places = (*hosts, *(host_and_port(host, port_of(base_url)) for host in hosts))
    name = entry.lower().removeprefix("*").lstrip(".")
    covered = bool(name) and any(f".{place}".endswith(f".{name}") for place in places)
    return covered or entry == "*"


async def open_tunnel(connection: Connection, proxy: httpx.Proxy, host: str, port: int) -> None:
    try:
        if is_socks(proxy):
            await _Socks(connection).open(proxy.raw_auth, host, port)
        else:
            authority = host_and_port(host, port).encode("ascii")
            await _ask(connection, authority, [(b"Host", authority), *credentials_of(proxy)])
    except httpx.ProxyError:
        raise
    except (httpx.TransportError, OSError, ValueError) as error:
        # SOCKS has no room for a name of more than 255 bytes: ValueError.
        raise httpx.ProxyError(f"no tunnel: {type(error).__name__}") from None


def credentials_of(proxy: httpx.Proxy | None) -> RawHeaders:
    if proxy is None or proxy.raw_auth is None:
        return []
    return [(b"Proxy-Authorization", b"Basic " + b64encode(b":".join(proxy.raw_auth)))]


async def _ask(connection: Connection, authority: bytes, fields: RawHeaders) -> None:
    exchange = Exchange(connection, Transmission(sent=False), httpx.Timeout(None))
    exchange.reply.be_lenient()
    head = b"CONNECT %b HTTP/1.1\r\n%b\r\n" % (authority, field_lines(fields))
    await exchange.send(head, b"", 0)
    reply = exchange.reply
    if reply.status not in _SUCCESS:
        raise httpx.ProxyError(f"{reply.status}")
    if reply.buffered or reply.has_excess:  # in a tunnel the client sends first
        raise httpx.ProxyError("no tunnel: it holds something already")


class _Socks:
    """The client's side of SOCKS5 (RFC 1928, RFC 1929)."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._received = b""

    async def open(self, login: tuple[bytes, bytes] | None, host: str, port: int) -> None:
        """Log in, and ask for a connection; the proxy resolves the name."""
        method = _NO_LOGIN if login is None else _LOGIN
        self._connection.write(bytes([5, 1, method]))
        version, chosen = await self._read(2)
        if version != 5:  # noqa: PLR2004 - of SOCKS
            raise httpx.ProxyError("no SOCKS5")
        if chosen != method:
            raise httpx.ProxyError("no login: another one is wanted" if login else "wants a login")
        if login is not None:
            await self._log_in(*login)
        name = host.encode("ascii")
        target = bytes([_NAME, len(name)]) + name + port.to_bytes(2, "big")
        self._connection.write(b"\5\1\0" + target)
        _, failure, _, kind = await self._read(4)
        if failure:
            raise httpx.ProxyError(f"no tunnel: SOCKS failure {failure}")
        await self._read((_ADDRESS_SIZES.get(kind) or (await self._read(1))[0]) + 2)
        if self._received:
            raise httpx.ProxyError("no tunnel: it holds something already")

    async def _log_in(self, user: bytes, password: bytes) -> None:
        self._connection.write(bytes([1, len(user)]) + user + bytes([len(password)]) + password)
        if (await self._read(2))[1]:
            raise httpx.ProxyError("no login: it was refused")

    async def _read(self, size: int) -> bytes:
        while len(self._received) < size:
            data = await self._connection.read(None)
            if not data:
                raise ConnectionResetError("the proxy hung up")
            self._received += data
        data, self._received = self._received[:size], self._received[size:]
        return data
