"""Which proxy leads to the gateway, and a tunnel through it: of HTTP (RFC 9110) or SOCKS5."""

from ipaddress import ip_address, ip_network
from typing import Final
from urllib.request import getproxies_environment

import httpx

from gateway_sdk._http.reply import SUCCESS
from gateway_sdk._http.request import RawHeaders, field_lines
from gateway_sdk._transport.connection import Connection
from gateway_sdk._transport.reply_reader import ReplyReader
from gateway_sdk._transport.transmission import TunnelError
from gateway_sdk._url import host_and_port, is_loopback, parse_proxy, port_of

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


async def open_by_connect(
    connection: Connection, credentials: RawHeaders, authority: bytes
) -> None:
    fields = field_lines([(b"Host", authority), *credentials])
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


async def open_by_socks(
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
