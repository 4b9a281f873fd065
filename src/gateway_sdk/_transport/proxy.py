"""Which proxy leads to the gateway: the one that is given, or one of the environment."""

from ipaddress import ip_address, ip_network
from urllib.request import getproxies_environment

import httpx

from gateway_sdk._url import host_and_port, is_loopback, parse_url, port_of
from gateway_sdk.errors import ConfigurationError


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
