"""Which proxy is on the way to the gateway."""

from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.request import getproxies_environment

import httpx

from gateway_sdk._config import is_loopback
from gateway_sdk.errors import ConfigurationError

_SCHEMES: Final = ("http", "https", "socks5", "socks5h")


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
        return _parse("proxy", given)
    if not trust_env or is_loopback(base_url.host):
        return None
    proxies = getproxies_environment()
    if any(_covers(entry.strip(), base_url) for entry in proxies.get("no", "").split(",")):
        return None
    for variable in (base_url.scheme, "all"):
        if variable in proxies:
            return _parse(f"{variable.upper()}_PROXY", proxies[variable])
    return None


def _parse(name: str, address: object) -> httpx.Proxy:
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
    if url.scheme.startswith("socks") and find_spec("socksio") is None:
        raise ConfigurationError(f"{name} is a SOCKS proxy, which needs pip install 'httpx[socks]'")
    return httpx.Proxy(url)


def _covers(entry: str, base_url: httpx.URL) -> bool:
    """Tell whether an entry of NO_PROXY is about a host.

    It is a name, for itself and all below it, with or without a dot before it; an address; a
    network (CIDR); or `*`. A port behind a name narrows it down.
    """
    host, _, port = entry.lower().lstrip(".").partition(":")
    if entry == "*":
        return True
    try:
        return ip_address(base_url.host) in ip_network(entry.strip("[]"), strict=False)
    except ValueError:  # one of them is a name
        default = 443 if base_url.scheme == "https" else 80
        fits = not port or port == str(base_url.port or default)
        return bool(host) and fits and f".{base_url.host.lower()}".endswith(f".{host}")
