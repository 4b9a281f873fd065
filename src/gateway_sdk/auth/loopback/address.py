"""The address that an answer comes to, and the sockets that listen there."""

import contextlib
import errno
import socket
from ipaddress import ip_address
from typing import Final

import httpx

from gateway_sdk._config import is_loopback, parse_url
from gateway_sdk.errors import ConfigurationError, ReceiverUnavailableError

_BACKLOG: Final = 32


CANNOT_LISTEN: Final = (
    "redirect_uri is not http on this machine, such as http://127.0.0.1:0/callback: an answer "
    "there can only be pasted"
)


def can_listen(redirect_uri: str) -> bool:
    """Tell whether an address is one that can be listened at: http, on this machine.

    Raises:
        ConfigurationError: it is no redirect URI at all.
    """
    url = parse_url("redirect_uri", redirect_uri, any_port=True)
    if "#" in redirect_uri:
        raise ConfigurationError("redirect_uri has a fragment, where the answer has to go")
    return url.scheme == "http" and is_loopback(url.host)


def authority_of(url: httpx.URL) -> str:
    """Return host and port as browsers write them, which shorten an IPv6 address."""
    if ":" in url.host:
        url = url.copy_with(host=ip_address(url.host).compressed)
    return url.netloc.decode("ascii")


def listen(url: httpx.URL, bind: str | None) -> list[socket.socket]:
    """Listen at an address, and at no other; port 0 takes a free one.

    `localhost` means 127.0.0.1 and ::1, and a browser may go to either: so both are taken, or
    another program could wait at the one that is left (RFC 8252, 8.3).

    Raises:
        ReceiverUnavailableError: it is taken, or not to be had.
    """
    port = 80 if url.port is None else url.port
    hosts = [bind] if bind else ["127.0.0.1", "::1"] if url.host == "localhost" else [url.host]
    taken: list[socket.socket] = []
    for host in hosts:
        if taken and not _has(host):
            continue
        try:
            taken.append(_listen(host, port))
        except OSError as error:
            close(taken)
            raise ReceiverUnavailableError(_why_not(error, host, port)) from None
        port = taken[0].getsockname()[1]
    return taken


def close(sockets: list[socket.socket]) -> None:
    """Close sockets."""
    for taken in sockets:
        taken.close()


def _has(host: str) -> bool:
    """Tell whether this machine has an address at all; many containers lack IPv6."""
    try:
        with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket(_family(host), socket.SOCK_STREAM)
    with contextlib.ExitStack() as stack:
        stack.callback(listener.close)
        # A fixed port can be had again at once. On Windows that option would let others share it,
        # and there is one against them.
        alone = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
        listener.setsockopt(socket.SOL_SOCKET, alone, 1)
        if listener.family is socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 - its only parameter
        stack.pop_all()
    return listener


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} of {host} is taken: another login may wait there; finish or stop it, "
            "or use a redirect URI with another port"
        )
    return f"port {port} of {host} cannot be had: {error.strerror}"
