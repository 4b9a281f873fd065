"""A server that fails where a script says, and that knows what it really received."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Self

from tests.support.failing_line import Ledger, Line

Script = Callable[[Line], Awaitable[None]]


class FailingServer(Ledger):
    """Runs a script on each connection that it accepts, in their order; the last one for the rest.

    Attributes:
        lines: The connections.
        tasks: Its own.
    """

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self.lines: list[Line] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self._scripts = scripts
        self._tls = tls
        self._bugs: list[Exception] = []

    @property
    def url(self) -> str:
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self._listener.settimeout(0)
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)
        for line in self.lines:
            line.close()
        self._listener.close()
        assert not self._bugs

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _accept(self) -> None:
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(self._listener)
            script = self._scripts[min(len(self.lines), len(self._scripts) - 1)]
            self.lines.append(Line(self, sock))
            self._start(self._serve(self.lines[-1], script))

    async def _serve(self, line: Line, script: Script) -> None:
        try:
            if self._tls is not None:
                await line.shake_hands(self._tls)
            await script(line)
        except OSError:
            pass  # the client went away, or does not like the certificate
        except Exception as bug:  # noqa: BLE001 - of a script
            self._bugs.append(bug)
        finally:
            line.close()
