"""The defaults, with units and reasons, and checks of settings."""

import inspect
import ipaddress
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

import httpx

from gateway_sdk.errors import ConfigurationError

LOGGER: Final = logging.getLogger("gateway_sdk")


class Unset(Enum):
    """The value that means "not given", where None has a meaning of its own."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "..."


UNSET: Final = Unset.UNSET
UnsetType: TypeAlias = Literal[Unset.UNSET]


DEFAULT_TIMEOUT: Final = httpx.Timeout(
    # All in seconds. To connect takes one round trip: after a few seconds no server will answer.
    connect=5.0,
    # Without a byte of the reply: an order book is sometimes slow.
    read=30.0,
    # Without a byte being sent.
    write=30.0,
    # Waiting for a free connection of the session: as long as the calls before may take.
    pool=30.0,
)
DEFAULT_DEADLINE: Final = 600.0
"""Seconds for a whole call: long enough to upload 1 GiB at 15 Mbit/s."""

DEFAULT_MAX_CONNECTIONS: Final = 50
"""Requests sent at the same time; the others queue. With more, httpx gets slower."""

KEEPALIVE_EXPIRY: Final = 50.0
"""Seconds that an idle connection is kept: load balancers usually close it after 60."""

DEFAULT_MAX_REPLY_BYTES: Final = 64 * 2**20
"""The largest reply, in decompressed bytes: much more than a page of orders, much less than the
memory of a worker."""

DEFAULT_DRAIN: Final = 5.0
"""Seconds that closing waits for calls in flight: Kubernetes gives a process 30 seconds to end."""

DEFAULT_CUT: Final = 1.0
"""Seconds that calls have to end after closing has cut them. Then closing goes on without them."""

_LONGEST: Final = 10 * 365 * 86400.0
"""Seconds: ten years. Larger numbers overflow in event loops and sockets."""

ENVIRONMENT: Final = {
    "base_url": "GATEWAY_BASE_URL",
    "access_token": "GATEWAY_ACCESS_TOKEN",
    "tenant_id": "GATEWAY_TENANT_ID",
    "token_header": "GATEWAY_TOKEN_HEADER",
    "auth_url": "GATEWAY_AUTH_URL",
    "client_id": "GATEWAY_CLIENT_ID",
    "token_store": "GATEWAY_TOKEN_STORE",
}


def with_environment(given: Mapping[str, Any]) -> dict[str, Any]:
    """Add settings of the environment that were not given; an empty variable counts as missing."""
    check_same_gateway(given)
    found = {name: os.environ.get(variable) for name, variable in ENVIRONMENT.items()}
    return {name: value for name, value in found.items() if value} | dict(given)


def check_same_gateway(given: Mapping[str, Any]) -> None:
    """Refuse another gateway if a secret of the environment, which is not for it, would be used."""
    own, other = os.environ.get(ENVIRONMENT["base_url"]), origin_of_text(given.get("base_url"))
    if not own or not other or other == origin_of_text(own):
        return
    for name in ("access_token", "token_header"):
        if name not in given and os.environ.get(ENVIRONMENT[name]):
            raise ConfigurationError(
                f"{ENVIRONMENT[name]} is for the gateway of GATEWAY_BASE_URL, and base_url= names "
                f"another one: give {name}= too"
            )


def origin_of_text(base_url: object) -> str | None:
    """Return the origin of a base URL; None if it is not valid."""
    try:
        return origin_of(parse_url("base_url", base_url))
    except ConfigurationError:
        return None


def require_settings(settings: Mapping[str, Any], *names: str) -> None:
    """Refuse missing settings; None counts as missing."""
    for name in names:
        if settings.get(name) is None:
            raise ConfigurationError(f"{ENVIRONMENT[name]} is not set, and no {name}= was given")


def parse_base_url(base_url: object, *, allow_insecure_http: bool) -> httpx.URL:
    """Return the gateway's address; the paths of the areas are added to its path."""
    if base_url is None or base_url == "":
        raise ConfigurationError(
            "base_url is missing: give the gateway's address, such as https://gateway.example.com"
        )
    check_switch("allow_insecure_http", allow_insecure_http)
    url = parse_url("base_url", base_url)
    if "?" in str(base_url) or "#" in str(base_url):
        raise ConfigurationError("base_url carries a query or a fragment: leave it out")
    if url.scheme == "http" and not (allow_insecure_http or is_loopback(url.host)):
        raise ConfigurationError(
            f"base_url is plain http to {url.host}: the access token would travel in clear; "
            "use https, or allow_insecure_http=True if the network itself is private"
        )
    return url


def parse_url(name: str, text: object, *, any_port: bool = False) -> httpx.URL:
    """Parse an absolute http(s) URL without credentials."""
    if not isinstance(text, str):
        raise ConfigurationError(f"{name} must be a str")
    if any(character.isspace() for character in text):
        raise ConfigurationError(f"{name} holds a space or a newline: strip() it")
    if "{" in text or "}" in text:
        raise ConfigurationError(f"{name} holds a placeholder in braces that was never filled in")
    try:
        url = httpx.URL(text)
        host = url.host  # decodes punycode, which may fail
    except (httpx.InvalidURL, ValueError):
        raise ConfigurationError(f"{name} is not a URL") from None
    if url.scheme not in ("http", "https") or not host:
        raise ConfigurationError(
            f"{name} must start with https:// and name a host; http:// is for this machine"
        )
    ports = _PORTS if not any_port else range(2**16)
    if not _HOST.fullmatch(url.raw_host) or (url.port is not None and url.port not in ports):
        raise ConfigurationError(f"{name} is not a URL: its host or its port cannot be")
    if url.userinfo or _USERINFO.match(text):
        raise ConfigurationError(f"{name} carries a user name or password: leave it out")
    # Parsed a second time: after a scheme in capitals, httpx does not know the default port.
    return httpx.URL(str(url))


def origin_of(url: httpx.URL) -> str:
    """Return scheme, host and port; without the port if it is the scheme's default."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def port_of(url: httpx.URL) -> int:
    """Return the port of an http(s) URL, also if it is the scheme's default."""
    return url.port or (443 if url.scheme == "https" else 80)


def host_and_port(host: str, port: int) -> str:
    """Write a host and a port as in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# RFC 3986, 3.2.2: an encoded host name, or an IPv6 address.
_HOST: Final = re.compile(rb"[A-Za-z0-9._~-]+|[0-9A-Fa-f:.]+")
_PORTS: Final = range(1, 2**16)
# RFC 3986, 3.2: an authority with an @, also with an empty user name.
_USERINFO: Final = re.compile(r"[^/?#]*//[^/?#]*@")


def is_loopback(host: str) -> bool:
    """Tell whether a name or address means this machine, without I/O."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_timeout(timeout: object) -> httpx.Timeout:
    """Return the time-outs of each phase in seconds."""
    if not isinstance(timeout, httpx.Timeout):
        return httpx.Timeout(check_seconds("timeout", timeout))
    for phase, seconds in timeout.as_dict().items():
        check_seconds(f"timeout.{phase}", seconds)
    return timeout


def check_seconds(name: str, seconds: object) -> float | None:
    """Return a positive, finite number of seconds, or None for no limit."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise ConfigurationError(f"{name} must be a number of seconds or None")
    if not 0 < seconds <= _LONGEST:  # False for NaN too
        raise ConfigurationError(f"{name} must be more than 0 seconds and finite; None is no limit")
    return float(seconds)


def check_wait(name: str, seconds: object) -> float:
    """Return a finite number of seconds, 0 included."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise ConfigurationError(f"{name} must be a number of seconds")
    if not 0 <= seconds <= _LONGEST:  # False for NaN too
        raise ConfigurationError(f"{name} must be at least 0 seconds and finite")
    return float(seconds)


def check_amount(name: str, amount: object) -> float:
    """Return a finite number of at least 0."""
    if (
        isinstance(amount, bool)
        or not isinstance(amount, int | float)
        or not 0 <= amount <= sys.float_info.max  # False for NaN too
    ):
        raise ConfigurationError(f"{name} must be a number of at least 0")
    return float(amount)


def check_switch(name: str, value: object) -> bool:
    """Return True or False; refuse other types: the text "false" counts as true in Python."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name} must be True or False")
    return value


def is_async(function: object) -> bool:
    """Tell whether the result of a function must be awaited, or is an asynchronous iterator."""
    called = (function, function.__call__) if callable(function) else ()
    return any(map(inspect.iscoroutinefunction, called)) or any(
        map(inspect.isasyncgenfunction, called)
    )


def check_count(name: str, count: object) -> int:
    """Return a whole number of at least 1."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ConfigurationError(f"{name} must be a whole number of at least 1")
    return count


class CheckedField(Mapping[str, str]):
    """A header field of our own, which has only what a header can have."""

    # To check it, as that of an observer of the user's, would take a microsecond of each attempt.

    __slots__ = ("raw",)

    def __init__(self, name: bytes, value: bytes) -> None:
        self.raw = name, value  # the name and the value as they are sent

    def __getitem__(self, name: str) -> str:
        if name not in list(self):
            raise KeyError(name)
        return self.raw[1].decode("ascii")

    def __iter__(self) -> Iterator[str]:
        yield self.raw[0].decode("ascii")

    def __len__(self) -> int:
        return 1
