"""Ports for servers that cannot be told to take a free one, or that start again on the same one."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from random import SystemRandom
from typing import Final

_CANDIDATES: Final = range(20_000, 32_000)
"""Below those that the system gives to clients and to servers that ask for any (from 32 768 on
Linux): one of them could be taken before the server starts, or while it is down."""


def free_port() -> int:
    (port,) = free_ports(1)
    return port


def free_ports(number: int) -> list[int]:
    found: list[int] = []
    with ExitStack() as probes:
        while len(found) < number:
            port = SystemRandom().choice(_CANDIDATES)
            with suppress(OSError):  # somebody uses it
                probes.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
    return found


@contextmanager
def full_port() -> Iterator[str]:
    """Provide the address of a server that takes no more connections, because its queue is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0)
            waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
