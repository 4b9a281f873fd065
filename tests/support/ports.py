"""Ports for servers that cannot be told to take a free one."""

import socket


def free_ports(number: int) -> list[int]:
    """Return different ports of this machine that nobody uses."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    try:
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
