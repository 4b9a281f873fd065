"""Which proxy is on the way to the gateway."""

from ipaddress import ip_address, ip_network
from typing import Final
from urllib.request import getproxies_environment

import httpx

from gateway_sdk._config import is_loopback, parse_url
from gateway_sdk._repr import safe_repr
from gateway_sdk.errors import ConfigurationError

_SCHEMES: Final = ("http", "https", "socks5", "socks5h")


class _Proxy(httpx.Proxy):
    """A proxy whose credentials do not show where they are passed on."""

    @safe_repr
    def __repr__(self) -> str:
        return super().__repr__()


def proxy_for(base_url: httpx.URL, given: str | None, *, trust_env: bool) -> httpx.Proxy | None:
    """Return the proxy for a gateway; None for none.

    The environment has HTTPS_PROXY or HTTP_PROXY, by the gateway's scheme, else ALL_PROXY; hosts
    in NO_PROXY have none, and neither has this machine.

    Args:
        base_url: The gateway's address.
        given: The one that the user gave, for any gateway; None to look in the environment.
        trust_env: Whether to look there.

    Raises:
        ConfigurationError: it is no proxy's address; the message does not show it, for it may
            hold a password.
    """
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
    """Return the proxy at an address.

    Args:
        name: Where the address was given, for the message.
        address: A URL, or a host and perhaps a port.

    Raises:
        ConfigurationError: it is no proxy's address; the message does not show it.
    """
    if not isinstance(address, str):
        raise ConfigurationError(f"{name} must be a str")
    # Without a scheme it is a host and port, as everywhere.
    text = address if "://" in address else f"http://{address}"
    try:
        url = httpx.URL(text)
        host = url.host
    except (httpx.InvalidURL, ValueError):
        raise ConfigurationError(f"{name} is not a URL") from None
    if url.scheme not in _SCHEMES or not host:
        raise ConfigurationError(f"{name} must be http://, https:// or socks5:// and name a host")
    parse_url(name, f"http://{url.netloc.decode('ascii')}")
    if url.path.strip("/") or "?" in text or "#" in text:
        raise ConfigurationError(
            f"{name} holds more than a host and a port: write / ? # in its password as %2F %3F %23"
        )
    return _Proxy(url)


def forwards(proxy: httpx.Proxy | None, address: httpx.URL) -> bool:
    """Tell whether a proxy reads a request and hands it on, and may answer it itself."""
    return proxy is not None and address.scheme == "http" and not is_socks(proxy)


def is_socks(proxy: httpx.Proxy) -> bool:
    """Tell whether a proxy speaks SOCKS; otherwise it speaks HTTP."""
    return proxy.url.scheme.startswith("socks")


def _covers(entry: str, base_url: httpx.URL) -> bool:
    """Tell whether an entry of NO_PROXY is about a host.

    It is a name, for itself and all below it, with or without a dot or `*.` before it; an
    address; a network (CIDR); or `*`. A port behind it narrows it down.
    """
    if entry == "*":
        return True
    host, port = _split(entry)
    if port and int(port) != (base_url.port or (443 if base_url.scheme == "https" else 80)):
        return False
    try:
        return ip_address(base_url.host) in ip_network(host, strict=False)
    except ValueError:  # one of them is a name
        name = host.lower().lstrip("*.")
        spellings = (base_url.host, base_url.raw_host.decode("ascii"))
        return bool(name) and any(f".{spelling}".endswith(f".{name}") for spelling in spellings)


def _split(entry: str) -> tuple[str, str]:
    """Split an entry into host and port; an IPv6 address has a port only behind brackets."""
    host, _, port = entry.rpartition(":")
    if not port.isdecimal() or (":" in host and not host.endswith("]")):
        host, port = entry, ""
    return host.removeprefix("[").removesuffix("]"), port
