"""The user behind a connection of this machine."""

import os
import socket
import struct
from typing import Any, Final


def family_of(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


# linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h: a request for one socket, and the reply.
_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST: Final = 1
_TCP_LISTEN: Final = 10
_ALL_STATES: Final = 0xFFFFFFFF
_HEAD: Final = struct.Struct("=IHHII BBBxI")  # of the message, and of the request
_SOCKET_ID: Final = struct.Struct("!HH16s16s4x8s")
_NO_COOKIE: Final = b"\xff" * 8
_REPLY: Final = struct.Struct("=4xH10x xB 50x 12xII")

_ROOT: Final = 0
_UNKNOWABLE: Final = -1
"""The owner of a socket that its program has closed: no user has this id."""


def may_be_other_user(connection: Any) -> bool:
    """Return whether another user, and not root, has opened a connection, or may have and left."""
    # True also if its program has closed it: another user could have, before its owner was asked.
    # False if the owner is unknown: on other systems, and for connections that this machine only
    # forwards. Root could read this process's memory; relays into containers and WSL run as root.
    try:
        user = user_of(connection.getpeername(), connection.getsockname())
        # A connection whose other end is gone has no owner, and what it has sent can still be
        # read. It is looked at last: until now, it may have gone before its owner was asked for.
        connection.getpeername()
        if user is None:
            return not is_established(connection)
    except OSError:
        return True
    return user not in (_ROOT, os.getuid(), os.geteuid())


def user_of(peer: Any, own: Any) -> int | None:
    """Return the id of the user who opened the socket at *peer*; None if it is unknown."""
    # Without a connection to it, the kernel returns a listener at that port.
    state, user = _owner(peer, own)
    return None if state == _TCP_LISTEN else user


def listener_of(place: Any) -> int | None:
    """Return the id of the user whose program listens at an address; None if it is unknown."""
    return _owner(place, (place[0], 0))[1]


def _owner(peer: Any, own: Any) -> tuple[int, int | None]:
    netlink, family = getattr(socket, "AF_NETLINK", None), family_of(peer[0])
    if netlink is None:
        return 0, None
    length = _HEAD.size + _SOCKET_ID.size
    kind = (_SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0)
    head = _HEAD.pack(length, *kind, family, socket.IPPROTO_TCP, 0, _ALL_STATES)
    hosts = [socket.inet_pton(family, host) for host in (peer[0], own[0])]
    try:
        with socket.socket(netlink, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(0)  # the kernel has replied before `send` returns
            kernel.send(head + _SOCKET_ID.pack(peer[1], own[1], *hosts, _NO_COOKIE))
            reply, state, user, inode = _REPLY.unpack_from(kernel.recv(4096))
    except (OSError, struct.error):
        return 0, None
    if reply != _SOCK_DIAG_BY_FAMILY:  # an error: there is no such socket here
        return 0, None
    # A socket that its program has closed has no inode, and its user may be given as 0.
    return state, int(user) if inode else _UNKNOWABLE


_ESTABLISHED: Final = 1  # linux/tcp_states.h


def is_established(connection: Any) -> bool:
    """Return whether neither end has closed a connection; True where the system does not tell."""
    if (information := getattr(socket, "TCP_INFO", None)) is None:
        return True
    return bool(connection.getsockopt(socket.IPPROTO_TCP, information, 1)[0] == _ESTABLISHED)
