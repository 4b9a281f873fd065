"""A real NATS server of a test's own, which can be killed and started again."""

import asyncio
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.ports import free_port

# Debian keeps it where an ordinary user's PATH does not reach.
PROGRAM: Final = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin")
NEEDS_NATS: Final = pytest.mark.skipif(
    PROGRAM is None, reason="not tested, because no nats-server was found"
)


class NatsServer:
    """A nats-server with queues that survive their workers (JetStream), in a folder of its own.

    Attributes:
        url: Its address on this machine.
    """

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.url = f"nats://127.0.0.1:{port}"
        self._command = [
            PROGRAM or "nats-server",
            *("-js", "-sd", str(folder), "-a", "127.0.0.1", "-p", str(port)),
        ]
        self._process: subprocess.Popen[str] | None = None
        self._log: threading.Thread | None = None

    def start(self) -> None:
        """Start it, and wait until it takes connections.

        Raises:
            RuntimeError: It does not start, for the reason that it says.
        """
        process = subprocess.Popen(self._command, stderr=subprocess.PIPE, encoding="utf-8")
        self._process = process
        assert process.stderr is not None
        said: list[str] = []
        for line in process.stderr:
            said.append(line)
            if "Server is ready" in line:
                # Somebody has to read the rest, or the server waits.
                self._log = threading.Thread(target=process.stderr.read, daemon=True)
                self._log.start()
                return
        self.stop()
        raise RuntimeError("nats-server did not start: " + "".join(said))

    def kill(self) -> None:
        """End it without a warning, if it runs."""
        if self._process is not None:
            self._process.kill()
            self.stop()

    def stop(self) -> None:
        """Ask it to end, if it runs, and wait until it has."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        process.wait()
        if self._log is not None:
            self._log.join()
            self._log = None
        assert process.stderr is not None
        process.stderr.close()


@asynccontextmanager
async def serve_nats(folder: Path) -> AsyncIterator[str]:
    """Serve queues that survive their workers at a free port; yield the address."""
    server = NatsServer(folder)
    await asyncio.to_thread(server.start)
    try:
        yield server.url
    finally:
        await asyncio.to_thread(server.stop)
