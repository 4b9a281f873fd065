"""A real RabbitMQ of a test's own, which can be killed and started again."""

import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.support.ports import free_ports
from tests.support.sharing import address_of

# Debian's program in /usr/sbin asks for root and changes to the files of the system's own server.
PROGRAM: Final = shutil.which("rabbitmq-server", path="/usr/lib/rabbitmq/bin") or shutil.which(
    "rabbitmq-server"
)
EPMD: Final = shutil.which("epmd")

NEEDS_RABBITMQ: Final = pytest.mark.skipif(
    PROGRAM is None or EPMD is None, reason="not tested, because no rabbitmq-server was found"
)

_PATIENCE: Final = 90.0
"""Seconds in which it starts, even on a busy machine."""


class RabbitMQServer:
    """A rabbitmq-server with its files in a folder of its own, on ports of its own.

    Attributes:
        url: Its address on this machine.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        port, distribution, epmd = free_ports(3)
        self.url = f"amqp://guest:guest@127.0.0.1:{port}/"
        (folder / "plugins").write_text("[].\n")
        (folder / "rabbitmq.conf").write_text("")
        self._environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(folder),  # of the cookie
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(epmd),
            "RABBITMQ_NODENAME": f"gateway-{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1"
            ),
            "RABBITMQ_BASE": str(folder),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            # Makes the script become the server, so that the process is the one to kill.
            "RUNNING_UNDER_SYSTEMD": "true",
        }
        self._folder = folder
        self._names: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[str] | None = None
        self._log: threading.Thread | None = None

    def start(self) -> None:
        """Start it, and wait until it takes connections.

        Raises:
            RuntimeError: It does not start, for the reason that it says.
        """
        if self._names is None:
            # In the foreground; else the server would start one that outlives it.
            self._names = subprocess.Popen([EPMD or "epmd"], env=self._environment)
        self._process = subprocess.Popen(
            [PROGRAM or "rabbitmq-server"],
            env=self._environment,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        said: list[str] = []
        ended = threading.Event()
        arguments = (self._process, said, ended)
        self._log = threading.Thread(target=self._read, args=arguments, daemon=True)
        self._log.start()
        if not ended.wait(_PATIENCE) or not any("startup complete" in line for line in said):
            self.stop()
            raise RuntimeError("rabbitmq-server did not start: " + "".join(said[-40:]))

    @staticmethod
    def _read(process: subprocess.Popen[str], said: list[str], ended: threading.Event) -> None:
        """Read what the server says until it ends: it would wait if nobody did."""
        assert process.stdout is not None
        for line in process.stdout:
            if not ended.is_set():
                said.append(line)
            if "startup complete" in line:
                ended.set()
        ended.set()

    def kill(self) -> None:
        """End it without a warning, if it runs."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        if self._log is not None:
            self._log.join()
            self._log = None
        assert process.stdout is not None
        process.stdout.close()

    def stop(self) -> None:
        """End it, and the name server beside it."""
        self.kill()
        if self._names is not None:
            self._names.kill()
            self._names.wait()
            self._names = None


def shared_rabbitmq(request: pytest.FixtureRequest) -> str:
    """Return the address of one server for all tests of a run; they never kill it.

    A test uses a queue that no other one uses.
    """

    def start(folder: Path) -> tuple[str, Callable[[], None]]:
        server = RabbitMQServer(folder)
        server.start()
        return server.url, server.stop

    return address_of("rabbitmq", start, request)
