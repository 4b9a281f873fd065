"""What tests of the command line share: how commands end, a terminal to sit at, Ctrl-C, series."""

import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest

from gateway_sdk.cli.series import Series
from gateway_sdk.sandbox import Fault, Sandbox

if sys.platform != "win32":
    import fcntl
    import pty
    import termios


GATEWAY = (sys.executable, "-c", "from gateway_sdk.cli import main; main()")


def wait_until_asleep(pid: int) -> None:
    """Wait until a program waits: a signal just before it does is noticed a key later."""
    stat = Path(f"/proc/{pid}/stat")
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "S":
        os.sched_yield()


class Terminal:
    """Runs a program; what it shows is read, and keys are pressed, as a person does."""

    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
        )
        os.close(theirs)
        self._shown = b""

    def read_until(self, text: str) -> str:
        while text.encode() not in self._shown:
            piece = os.read(self._ours, 65536)
            assert piece, self._shown
            self._shown += piece
        return self._shown.decode()

    def wait_until_unseen(self) -> None:
        while termios.tcgetattr(self._ours)[3] & termios.ECHO:
            assert self._process.poll() is None, self._shown
            os.sched_yield()

    def type(self, text: str) -> None:
        for piece in (text[place : place + 512] for place in range(0, len(text), 512)):
            os.write(self._ours, piece.encode())

    def wait_until_asleep(self) -> None:
        wait_until_asleep(self._process.pid)

    def interrupt(self) -> None:
        """Do what Ctrl-C does where the terminal is the program's own."""
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self._ours)[3] & termios.ECHO)

    def end(self) -> tuple[int, str]:
        """Wait until the program ends; return its exit status and all that was shown."""
        self._shown += b"".join(self._rest())
        return self._process.wait(), self._shown.decode()

    def close(self) -> None:
        """End the program if it still runs, and put the terminal away."""
        self.kill()
        os.close(self._ours)

    def _rest(self) -> Iterator[bytes]:
        # Linux reports the end of a terminal as an input/output error.
        with suppress(OSError):
            while piece := os.read(self._ours, 65536):
                yield piece


class Ended(NamedTuple):
    """The exit status, what was written to standard output, and to standard error."""

    status: int
    out: str
    err: str


Call = Callable[..., Ended]
Start = Callable[..., subprocess.Popen[str]]
StartInTerminal = Callable[..., Terminal]
Settings = Mapping[str, str]


def interrupt(
    call: Call,
    served: Sandbox,
    operation: str,
    *arguments: str,
    number: int = signal.SIGINT,
) -> Ended:
    """Press Ctrl-C, or send a signal, as soon as the gateway has a call, which takes it an hour."""
    if os.name == "nt":
        pytest.skip("needs what Windows lacks")
    served.faults.on(operation, Fault.latency(3600), at=1)
    ended = threading.Event()

    def press() -> None:
        while not served.received:
            if ended.wait(0.01):
                return  # the command failed before it sent anything
        wait_until_asleep(os.getpid())
        os.kill(os.getpid(), number)

    pressing = threading.Thread(target=press)
    pressing.start()
    try:
        return call(*arguments)
    finally:
        ended.set()
        pressing.join()


FIRST = date(2026, 1, 1)


def series_of(rates: Mapping[str, list[str | None]]) -> Series:
    """Make a series of days from the first one on; None is a day without a rate."""
    return Series(
        "EUR",
        {
            symbol: {
                FIRST + timedelta(days=number): Decimal(text)
                for number, text in enumerate(found)
                if text
            }
            for symbol, found in rates.items()
        },
    )
