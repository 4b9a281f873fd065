"""The defaults, with units and reasons, and the check of where the gateway is."""

import ipaddress
import os
import re
from collections.abc import Mapping
from typing import Any, Final

import httpx

from gateway_sdk.errors import ConfigurationError

DEFAULT_TIMEOUT: Final = httpx.Timeout(
    # Seconds. Connecting takes one round trip: more than a few seconds means that nobody is there.
    connect=5.0,
    # Of silence while waiting for the reply: an order book is slow now and then.
    read=30.0,
    # Of standstill while sending.
    write=30.0,
    # Of waiting for one of our own connections: as long as the calls ahead may take.
    pool=30.0,
)
DEFAULT_DEADLINE: Final = 600.0
"""Seconds for a whole call. Nothing waits for ever, yet 1 GiB still passes at 15 Mbit/s."""

DEFAULT_MAX_CONNECTIONS: Final = 50
"""Calls on the wire at once. Beyond that httpx costs more than it brings; the others queue."""

KEEPALIVE_EXPIRY: Final = 50.0
"""Seconds an idle connection is kept: less than the 60 after which load balancers cut it."""

DEFAULT_MAX_REPLY_BYTES: Final = 64 * 2**20
"""Decompressed bytes of one reply: far above any page of orders, far below a worker's memory."""

DEFAULT_DRAIN: Final = 5.0
"""Seconds that closing waits for calls under way: well below the 30 that Kubernetes grants."""

DEFAULT_CUT: Final = 1.0
"""Seconds that calls have to end after closing cut them; one that does not listen is left."""

_LONGEST: Final = 10 * 365 * 86400.0
"""Seconds: ten years. Beyond that event loops and sockets begin to overflow."""

ENVIRONMENT: Final = {
    "base_url": "GATEWAY_BASE_URL",
    "access_token": "GATEWAY_ACCESS_TOKEN",
    "tenant_id": "GATEWAY_TENANT_ID",
    "token_header": "GATEWAY_TOKEN_HEADER",
    "engine": "GATEWAY_ENGINE",
}


def with_environment(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in from the environment what was not given; an empty variable counts as missing.

    Raises:
        ConfigurationError: a setting that no session can do without is missing.
    """
    found = {name: os.environ.get(variable) for name, variable in ENVIRONMENT.items()}
    settings = {name: value for name, value in found.items() if value} | dict(given)
    for name in ("base_url", "access_token"):
        if name not in settings:
            raise ConfigurationError(f"{ENVIRONMENT[name]} is not set, and no {name}= was given")
    return settings


def parse_base_url(base_url: object, *, allow_insecure_http: bool) -> httpx.URL:
    """Return the gateway's address; it may have a path, below which the areas lie.

    Raises:
        ConfigurationError: it is no absolute http(s) URL, carries credentials, a query or a
            fragment, or is plain http to another machine. The message never shows credentials.
    """
    if base_url is None or base_url == "":
        raise ConfigurationError(
            "base_url is missing: give the gateway's address, such as https://gateway.example.com"
        )
    if not isinstance(base_url, str):
        raise ConfigurationError("base_url must be a str")
    check_switch("allow_insecure_http", allow_insecure_http)
    url = _parse(base_url)
    if url.userinfo or "@" in base_url:
        raise ConfigurationError(
            "base_url carries a user name or password: the gateway takes an access_token instead"
        )
    if "?" in base_url or "#" in base_url:
        raise ConfigurationError("base_url carries a query or a fragment: leave it out")
    if url.scheme == "http" and not (allow_insecure_http or is_loopback(url.host)):
        raise ConfigurationError(
            f"base_url is plain http to {url.host}: the access token would travel in clear; "
            "use https, or allow_insecure_http=True if the network itself is private"
        )
    return url


def _parse(base_url: str) -> httpx.URL:
    """Parse an absolute URL, or say what is wrong with it without printing it."""
    if any(character.isspace() for character in base_url):
        raise ConfigurationError("base_url holds a space or a newline: strip() it")
    if "{" in base_url or "}" in base_url:
        raise ConfigurationError("base_url holds a placeholder in braces that was never filled in")
    try:
        url = httpx.URL(base_url)
        host = url.host  # decodes a host in punycode, which may fail
    except (httpx.InvalidURL, ValueError):
        raise ConfigurationError("base_url is not a URL") from None
    if url.scheme not in ("http", "https") or not host:
        raise ConfigurationError("base_url must start with https:// and name a host")
    if not _HOST.fullmatch(url.raw_host) or (url.port is not None and url.port not in _PORTS):
        raise ConfigurationError("base_url is not a URL: its host or its port cannot be")
    return url


# RFC 3986, 3.2.2: what is left of a host when it was encoded, or an IPv6 address.
_HOST: Final = re.compile(rb"[A-Za-z0-9._~-]+|[0-9A-Fa-f:.]+")
_PORTS: Final = range(1, 2**16)


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine, by its name or address alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_timeout(timeout: object) -> httpx.Timeout:
    """Return the time-outs of each phase in seconds.

    Raises:
        ConfigurationError: it is neither None, a positive number nor an `httpx.Timeout`.
    """
    if not isinstance(timeout, httpx.Timeout):
        return httpx.Timeout(check_seconds("timeout", timeout))
    for phase, seconds in timeout.as_dict().items():
        check_seconds(f"timeout.{phase}", seconds)
    return timeout


def check_seconds(name: str, seconds: object) -> float | None:
    """Return a positive, finite number of seconds, or None for no limit.

    Raises:
        ConfigurationError: it is anything else.
    """
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise ConfigurationError(f"{name} must be a number of seconds or None")
    if not 0 < seconds <= _LONGEST:  # NaN is neither
        raise ConfigurationError(f"{name} must be more than 0 seconds and finite; None is no limit")
    return float(seconds)


def check_wait(name: str, seconds: object) -> float:
    """Return a finite number of seconds, 0 included.

    Raises:
        ConfigurationError: it is anything else.
    """
    if seconds == 0 and not isinstance(seconds, bool):
        return 0.0
    checked = check_seconds(name, seconds)
    if checked is None:
        raise ConfigurationError(f"{name} must be a number of seconds")
    return checked


def check_switch(name: str, value: object) -> bool:
    """Return True or False; the text "false" would count as true elsewhere.

    Raises:
        ConfigurationError: it is anything else.
    """
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name} must be True or False")
    return value


def check_count(name: str, count: object) -> int:
    """Return a whole number of at least 1.

    Raises:
        ConfigurationError: it is anything else.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ConfigurationError(f"{name} must be a whole number of at least 1")
    return count
