"""The sockets at which the receiver listens."""

import contextlib
import errno
import socket
from typing import Final

import httpx

from gateway_sdk.errors import ReceiverUnavailableError

_BACKLOG: Final = 32


def listen(url: httpx.URL, bind: str | None) -> list[socket.socket]:
    """Listen at an address; port 0 takes a free one.

    `localhost` means 127.0.0.1 and ::1, and browsers use either. Both are taken: otherwise another
    program could listen at the second one (RFC 8252, 8.3).

    Raises:
        ReceiverUnavailableError: The address is in use or not available.
    """
    port = 80 if url.port is None else url.port
    hosts = [bind] if bind else ["127.0.0.1", "::1"] if url.host == "localhost" else [url.host]
    listeners: list[socket.socket] = []
    for host in hosts:
        if listeners and not has_address(host):
            continue
        try:
            listeners.append(_listen(host, port))
        except OSError as error:
            close_all(listeners)
            raise ReceiverUnavailableError(_listen_problem(error, host, port)) from None
        port = listeners[0].getsockname()[1]
    return listeners


def close_all(sockets: list[socket.socket]) -> None:
    """Close sockets."""
    for listener in sockets:
        listener.close()


def has_address(host: str) -> bool:
    """Return whether this machine has an address; many containers have no IPv6."""
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
        # SO_REUSEADDR makes a fixed port available again at once. On Windows it would let other
        # programs share the port, so there the opposite option is set.
        option = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
        listener.setsockopt(socket.SOL_SOCKET, option, 1)
        if listener.family is socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 - its only parameter
        stack.pop_all()
    return listener


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _listen_problem(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} of {host} is in use, perhaps by another login: finish or stop it, or use "
            "a redirect URI with another port"
        )
    return f"cannot listen at port {port} of {host}: {error.strerror}"
