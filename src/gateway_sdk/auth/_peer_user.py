"""Which user of this machine is at the other end of a loopback connection; Linux knows."""

import os
import socket
import struct
from typing import Any, Final

# linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST: Final = 1
_TCP_LISTEN: Final = 10
_ALL_STATES: Final = 0xFFFFFFFF
_NO_COOKIE: Final = 0xFFFFFFFF
_HEADER: Final = struct.Struct("=IHHII")
_REQUEST: Final = struct.Struct("=BBBxI")
_SOCKET_ID: Final = struct.Struct("!HH16s16s")
_SOCKET_ID_REST: Final = struct.Struct("=III")
_STATE: Final = struct.Struct("=xB")
_OWNER: Final = struct.Struct("=12xII")
_OWNER_AT: Final = _HEADER.size + 4 + _SOCKET_ID.size + _SOCKET_ID_REST.size

_ROOT: Final = 0
_UNKNOWABLE: Final = -1
"""The owner of a socket that its program has closed: no user has this id."""


def is_other_user(peer: Any, own: Any) -> bool:
    """Return whether the other end of a connection belongs to another user, and not to root.

    True also if its program has closed it: another user could have, before its owner was asked.
    False if the owner is unknown: on other systems, and for connections that this machine only
    forwards. Root could read this process's memory; relays into containers and WSL run as root.

    Args:
        peer: Address of the other end, as `socket.getpeername` returns it.
        own: Address of this end.
    """
    user = _user_of(peer, own)
    return user is not None and user not in (_ROOT, os.getuid(), os.geteuid())


def _user_of(peer: Any, own: Any) -> int | None:
    """Return the id of the user who opened the socket at *peer*; None if it is unknown."""
    netlink = getattr(socket, "AF_NETLINK", None)
    if netlink is None:
        return None
    try:
        with socket.socket(netlink, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(0)  # the kernel has replied before `send` returns
            kernel.send(_question(peer, own))
            reply = kernel.recv(4096)
    except OSError:
        return None
    return _read_owner(reply)


def _question(peer: Any, own: Any) -> bytes:
    """Return the request for the one socket that is at *peer* and connected to *own*."""
    family = socket.AF_INET6 if ":" in peer[0] else socket.AF_INET
    hosts = [socket.inet_pton(family, host).ljust(16, b"\0") for host in (peer[0], own[0])]
    body = (
        _REQUEST.pack(family, socket.IPPROTO_TCP, 0, _ALL_STATES)
        + _SOCKET_ID.pack(peer[1], own[1], *hosts)
        + _SOCKET_ID_REST.pack(0, _NO_COOKIE, _NO_COOKIE)
    )
    length = _HEADER.size + len(body)
    return _HEADER.pack(length, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0) + body


def _read_owner(reply: bytes) -> int | None:
    if _HEADER.unpack_from(reply)[1] != _SOCK_DIAG_BY_FAMILY:
        return None  # an error: there is no such socket here
    (state,) = _STATE.unpack_from(reply, _HEADER.size)
    user, inode = _OWNER.unpack_from(reply, _OWNER_AT)
    # Without a connection to it, the kernel returns a listener at that port.
    if state == _TCP_LISTEN:
        return None
    # A socket that its program has closed has no inode, and its user may be given as 0.
    return int(user) if inode else _UNKNOWABLE
