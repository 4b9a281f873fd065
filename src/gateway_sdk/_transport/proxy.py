"""The proxy on the way to the gateway, and how a tunnel through it is opened."""

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

_SUCCESS: Final = range(200, 300)


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
    if url.scheme.startswith("socks5"):
        raise ConfigurationError(
            "must be http:// or https://; for SOCKS5, pip install 'httpx[socks]', and give "
            'transport=httpx.AsyncHTTPTransport(proxy="socks5://...")',
            setting=name,
        )
    if url.scheme not in ("http", "https") or not host:
        raise ConfigurationError("must be http:// or https:// and name a host", setting=name)
    parse_url(name, f"http://{url.netloc.decode('ascii')}")
    if url.path.strip("/") or "?" in text or "#" in text:
        raise ConfigurationError(
            "holds more than a host and a port: write / ? # in its password as %2F %3F %23",
            setting=name,
        )
    return httpx.Proxy(url)


def forwards(proxy: httpx.Proxy | None, address: httpx.URL) -> bool:
    return proxy is not None and address.scheme == "http"


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


def credentials_of(proxy: httpx.Proxy | None) -> RawHeaders:
    if proxy is None or proxy.raw_auth is None:
        return []
    return [(b"Proxy-Authorization", b"Basic " + b64encode(b":".join(proxy.raw_auth)))]


async def open_tunnel(connection: Connection, proxy: httpx.Proxy, host: str, port: int) -> None:
    authority = host_and_port(host, port).encode("ascii")
    fields = [(b"Host", authority), *credentials_of(proxy)]
    exchange = Exchange(connection, Transmission(sent=False), httpx.Timeout(None))
    reply = exchange.reply
    reply.be_lenient()
    try:
        head = b"CONNECT %b HTTP/1.1\r\n%b\r\n" % (authority, field_lines(fields))
        await exchange.send(head, b"", 0)
    except (httpx.TransportError, OSError) as error:
        raise httpx.ProxyError(f"no tunnel: {type(error).__name__}") from None
    if reply.status not in _SUCCESS:
        raise httpx.ProxyError(f"{reply.status}")
    if reply.buffered or reply.has_excess:  # in a tunnel the client sends first
        raise httpx.ProxyError("no tunnel: it holds something already")
