"""Stands for a program that another process runs: see warm_start. It imports nothing of size."""

import _socket
import marshal
import os
import signal
import sys

PASSED_ON = (signal.SIGINT, signal.SIGTERM)


def main(address: str, *arguments: str) -> None:
    """Ask for the program, pass signals on to it, and end as it ends."""
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    server = _socket.socket(_socket.AF_UNIX)
    server.connect(address)
    request = marshal.dumps(
        {
            "folder": os.fsencode(os.getcwd()),  # noqa: PTH109 - pathlib takes long to import
            "variables": dict(os.environb),
            "arguments": list(map(os.fsencode, arguments)),
        }
    )
    files = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
    server.sendmsg(
        [len(request).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)]
    )
    server.sendall(request)
    pid = int.from_bytes(server.recv(4, _socket.MSG_WAITALL), "big")
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: os.kill(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    status = os.waitstatus_to_exitcode(int.from_bytes(server.recv(4, _socket.MSG_WAITALL), "big"))
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
        os.kill(os.getpid(), -status)
    os._exit(status)


main(*sys.argv[1:])
