"""A terminal of 80 columns with a program in it, and a test that sits in front of it."""

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl
    import pty
    import termios


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
        """End the program at once, as `kill -9` does."""
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
