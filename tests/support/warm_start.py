"""Programs that start from a process which has imported the SDK and its libraries already.

A new interpreter spends most of a short program's time on imports. Here a process that has made
them forks for each program. A small client stands for the program: it passes on its arguments,
environment, folder, open files and signals, and ends as the program ends. Whoever kills the client
kills the program a moment later.

What differs from a new interpreter: modules are there before the program asks for them, and the
variables that Python itself reads are those of the first process, but for PYTHONPATH,
PYTHONIOENCODING and PYTHONUNBUFFERED. With --full every program is a new interpreter.
"""

import gc
import io
import marshal
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

CLIENT: Final = Path(__file__).with_name("warm_client.py")
FILES: Final = 3  # standard input, output and error
# None of them starts a thread, which would not be there after a fork.
IMPORTED: Final = (
    "gateway_sdk.session",
    "gateway_sdk._transport.engine",
    "gateway_sdk.auth._login",
    "gateway_sdk.auth._shared_source",
    "gateway_sdk.auth.flow",
    "gateway_sdk.auth.stores",
    "gateway_sdk.bulk.run",
    "gateway_sdk.bulk.series",
    "gateway_sdk.cli.app",
    "gateway_sdk.models.customer",
    "gateway_sdk.sandbox",
    "httpx",
    "h11",
    "rich.table",
    "rich.progress",
    "simplejson",
    "uvicorn",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
)


@contextmanager
def serve() -> Iterator[list[str]]:
    """Start the process that has imported all; provide the command that stands for Python."""
    # The address of such a socket has to be short.
    with TemporaryDirectory(prefix="warm-") as folder:
        address = str(Path(folder) / "socket")
        command = [sys.executable, "-W", "error", __file__, address]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout
            try:
                assert process.stdout.read() == b"ready"
                # Without site-packages and without variables of Python, to start at once.
                yield [sys.executable, "-I", "-S", str(CLIENT), address]
            finally:
                process.kill()


Program = Callable[[], object]


class Server:
    """Forks for each client, and tells it the program's id and then its status."""

    def __init__(self, address: str) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(address)
        self._listening.listen(128)
        self._clients: dict[int, socket.socket] = {}
        woken, wake = socket.socketpair()
        os.set_blocking(wake.fileno(), False)
        self._woken, self._wake = woken, wake
        signal.set_wakeup_fd(wake.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._selector.register(woken, selectors.EVENT_READ)
        self._selector.register(sys.stdin, selectors.EVENT_READ)  # ends with the run of the tests

    def next_program(self) -> Program:
        """Return in a new process, with what it is to run; never in this one."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    os._exit(0)
                if key.fileobj is self._woken:
                    self._woken.recv(4096)
                    self._tell_the_ended()
                elif key.fileobj is self._listening:
                    if program := self._accept():
                        return program
                elif key.data in self._clients:
                    self._kill(key.data)

    def _accept(self) -> Program | None:
        client, _ = self._listening.accept()
        size, files, _, _ = socket.recv_fds(client, 4, FILES)
        request = client.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
        pid = os.fork()
        if not pid:
            client.close()
            self._leave()
            return prepare(files, **marshal.loads(request))  # noqa: S302 - our own client's
        for file in files:
            os.close(file)
        with suppress(BrokenPipeError):  # the client was killed already: its end is seen next
            client.sendall(pid.to_bytes(4, "big"))
        self._clients[pid] = client
        self._selector.register(client, selectors.EVENT_READ, pid)
        return None

    def _tell_the_ended(self) -> None:
        while self._clients:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            client = self._clients.pop(pid)
            # The client may have been killed: then nobody waits for the status.
            with suppress(KeyError, BrokenPipeError):
                self._selector.unregister(client)
                client.sendall(status.to_bytes(4, "big"))
            client.close()

    def _kill(self, pid: int) -> None:
        self._selector.unregister(self._clients[pid])
        os.kill(pid, signal.SIGKILL)

    def _leave(self) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for each in (self._listening, self._woken, self._wake, *self._clients.values()):
            each.close()


def prepare(
    files: list[int], folder: bytes, variables: dict[bytes, bytes], arguments: list[bytes]
) -> Program:
    """Become the process that a client stands for; return its program."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(variables)
    whole = bool(os.environ.get("PYTHONUNBUFFERED"))
    encoding = os.environ.get("PYTHONIOENCODING")
    sys.stdin = open(0, encoding=encoding)  # noqa: SIM115 - it stays open
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            open(number, "wb", 0 if whole else -1),  # noqa: PTH123, SIM115 - same
            encoding=encoding,
            errors="backslashreplace" if number == 2 else None,
            line_buffering=number == 2 or os.isatty(number),
            write_through=whole,
        )
        for number in (1, 2)
    )
    # At the end Python warns of files that are not closed, but for these.
    vars(sys).update(__stdin__=sys.stdin, __stdout__=sys.stdout, __stderr__=sys.stderr)
    sys.path[0:1] = ["", *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    words = list(map(os.fsdecode, arguments))
    if words[:2] == ["-W", "error"]:
        del words[:2]
    else:
        warnings.resetwarnings()
    if words[0] == "-m":
        sys.argv = words[1:]
        return lambda: runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    sys.argv = words
    return lambda: runpy.run_path(sys.argv[0], run_name="__main__")


def main(address: str) -> None:
    """Import all, say so, and serve programs until this process is killed."""
    for name in IMPORTED:
        import_module(name)
    server = Server(address)
    gc.freeze()  # so that the memory of the imports is shared with all programs
    os.write(1, b"ready")
    os.dup2(2, 1)
    program = server.next_program()
    program()


if __name__ == "__main__":
    main(sys.argv[1])
