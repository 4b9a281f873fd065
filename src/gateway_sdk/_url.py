"""URLs: what they must be, and their parts."""

import ipaddress
import re
from typing import Final

import httpx

from gateway_sdk.errors import ConfigurationError

# RFC 3986, 3.2.2: an encoded host name, or an IPv6 address.
_HOST: Final = re.compile(rb"[A-Za-z0-9._~-]+|[0-9A-Fa-f:.]+")
_DEFAULT_PORTS: Final = {"https": 443, "socks5": 1080, "socks5h": 1080}
# RFC 3986, 3.2: an authority with an @, also with an empty user name.
_USERINFO: Final = re.compile(r"[^/?#]*//[^/?#]*@")
# Of this machine: browsers and users write one for the other.
_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def parse_base_url(base_url: object, *, allow_insecure_http: bool) -> httpx.URL:
    """Return the gateway's address; the paths of the areas are added to its path."""
    if base_url is None or base_url == "":
        raise ConfigurationError(
            "is missing: give the gateway's address, such as https://gateway.example.com",
            setting="base_url",
        )
    url = parse_url("base_url", base_url)
    if "?" in str(base_url):
        raise ConfigurationError("carries a query: leave it out", setting="base_url")
    if url.scheme == "http" and not (allow_insecure_http or is_loopback(url.host)):
        raise ConfigurationError(
            f"is plain http to {url.host}: the access token would travel in clear; use https",
            setting="base_url",
            hint=", or allow_insecure_http=True if the network itself is private",
        )
    return url


def parse_url(name: str, text: object, *, any_port: bool = False) -> httpx.URL:
    """Parse an absolute http(s) URL without credentials and fragment."""
    if not isinstance(text, str):
        raise ConfigurationError("must be a str", setting=name)
    if any(character.isspace() or character in "{}" for character in text):
        raise ConfigurationError("holds a space, a newline or a brace", setting=name)
    try:
        url = httpx.URL(text)
        host = url.host  # decodes punycode, which may fail
    except (httpx.InvalidURL, ValueError):
        raise ConfigurationError("is not a URL", setting=name) from None
    if url.scheme not in ("http", "https") or not host:
        raise ConfigurationError(
            "must start with https:// and name a host; http:// is for this machine", setting=name
        )
    ports = range(0 if any_port else 1, 2**16)
    if not _HOST.fullmatch(url.raw_host) or (url.port is not None and url.port not in ports):
        raise ConfigurationError("is not a URL: its host or its port cannot be", setting=name)
    if _USERINFO.match(text):
        raise ConfigurationError("carries a user name or password: leave it out", setting=name)
    if "#" in text:
        raise ConfigurationError("has a fragment: leave it out", setting=name)
    # Parsed a second time: after a scheme in capitals, httpx does not know the default port.
    return httpx.URL(str(url))


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


def origin_of_text(base_url: object) -> str | None:
    """Return the origin of a base URL; None if it is not valid."""
    try:
        return origin_of(parse_url("base_url", base_url))
    except ConfigurationError:
        return None


def origin_of(url: httpx.URL) -> str:
    """Return scheme, host and port; without the port if it is the scheme's default."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def port_of(url: httpx.URL) -> int:
    """Return the port of a URL, also if it is the scheme's default."""
    return url.port or _DEFAULT_PORTS.get(url.scheme, 80)


def host_and_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Tell whether a name or address means this machine, without I/O."""
    if host.removesuffix(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def difference_of(given: str, expected: str) -> str:
    """Say which part of a pasted URL differs, as browsers compare it; "" if none does."""
    right = httpx.URL(expected)
    try:
        url = httpx.URL(given if "://" in given else f"{right.scheme}://{given}")
        is_here = {right.host, url.host} <= _NAMES  # a host in Punycode may be no name
    except (httpx.InvalidURL, ValueError):
        return "it is no URL"
    if url.userinfo or not (is_here or url.raw_host == right.raw_host):
        return f"it is not of {right.host}"
    if (url.port or 80) != (right.port or 80) if is_here else url.netloc != right.netloc:
        return f"its port is not that of this login, {right.port or 80}"
    if url.scheme != right.scheme and not (is_here and url.scheme == "https"):
        return f"it does not begin with {right.scheme}:"
    return "" if url.raw_path == right.raw_path else f"its path is not {right.path}"
