"""What a process gives back: status, output, messages. `--help` imports it: nothing heavy here."""

import errno
import io
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from enum import IntEnum
from types import FrameType
from typing import Any, ClassVar, Final, TextIO


class Status(IntEnum):
    FAILED = 1  # any other failure, such as a login that was not finished
    MISUSED = 2  # the command line, a file or a setting is wrong
    REFUSED = 3  # the gateway refused: nothing was changed
    UNCHANGED = 4  # nothing was sent, or a read got no usable reply: running it again does no harm
    UNKNOWN = 5  # it may have been done
    APPLIED = 6  # it was done, but its reply could not be used or printed
    STOPPED = 128  # by a signal, whose number is added, as in shells: 130 by Ctrl-C
    READER_LEFT = 141  # the reader of the output closed it, as `head` does: 128 and SIGPIPE


EXTRA_OF: Final = {
    **dict.fromkeys(("rich", "simplejson", "typer"), "cli"),
    "uvicorn": "sandbox",
    "matplotlib": "plot",
    "pyarrow": "parquet",
}
"""Top-level modules only: if `rich.tabel` is missing, that is a mistake of ours. Stores and
the sandbox have an error of their own."""


class CommandError(Exception):
    """The reason why a command ends with an exit status; its message is for the user."""

    def __init__(self, message: str, status: int = Status.MISUSED) -> None:
        super().__init__(message)
        self.status = status


class Stop:
    """The signals that would end the process without a word: they end it as Ctrl-C does."""

    # BREAK is that of Windows.
    NAMES: Final = ("HUP", "QUIT", "ALRM", "TERM", "USR1", "USR2", "XCPU", "BREAK")
    number: ClassVar[int] = signal.SIGINT  # of the one that came

    @classmethod
    @contextmanager
    def told(cls) -> Generator[None]:
        found = [it for name in cls.NAMES if (it := getattr(signal, f"SIG{name}", None))]
        # Those that are ignored stay ignored: nohup does this to SIGHUP.
        taken = [it for it in found if signal.getsignal(it) is signal.SIG_DFL]
        cls.number = signal.SIGINT
        for number in taken:
            signal.signal(number, cls._stop)
        try:
            yield
        finally:
            for number in taken:
                signal.signal(number, signal.SIG_DFL)

    @classmethod
    def _stop(cls, number: int, frame: FrameType | None) -> None:
        cls.number = number
        pressed: Any = signal.getsignal(signal.SIGINT)  # in an event loop, that of asyncio
        # What "&" starts ignores Ctrl-C.
        (pressed if callable(pressed) else signal.default_int_handler)(signal.SIGINT, frame)

    @classmethod
    @contextmanager
    def ending(cls) -> Generator[None]:
        """End with a word and the status of what stopped it, wherever that is."""
        try:
            yield
        except KeyboardInterrupt as stop:
            words = f"gateway: stopped by {signal.Signals(cls.number).name}"
            if cls.number == signal.SIGINT:
                words = "\ngateway: stopped by Ctrl-C"  # below the terminal's ^C
            say("\n".join((words, *stop.args)).rstrip())
            raise SystemExit(Status.STOPPED + cls.number) from None


LOST: Final = (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EAGAIN)
"""Errors of a standard output that cannot be written: closed by its reader, a full disk, or a pipe
that is full and was made non-blocking."""


def write_out(data: str | bytes) -> None:
    """Write data: bytes as they are, text as UTF-8 whatever the terminal's encoding."""
    if sys.stdout is None:
        raise CommandError("there is no standard output to write to", Status.FAILED)
    rest = data.encode() if isinstance(data, str) else data
    with whole_output():
        sys.stdout.flush()
        while rest:  # with PYTHONUNBUFFERED the system may take a part, as a disk that fills
            if not (taken := sys.stdout.buffer.write(rest)):
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            rest = rest[taken:]
        sys.stdout.buffer.flush()


@contextmanager
def whole_output() -> Generator[None]:
    """Flush standard output at the end; if it cannot be written, raise a CommandError."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except SystemExit as end:
        # typer ends with 1 when the reader of a help has left.
        if not (isinstance(error := end.__context__, OSError) and error.errno == errno.EPIPE):
            raise
        raise SystemExit(Status.READER_LEFT) from None
    except OSError as error:
        if error.errno not in LOST or sys.stdout is None:
            raise
        # Python's exit flushes to nowhere, so that it does not fail again.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        if error.errno == errno.EPIPE:
            raise SystemExit(Status.READER_LEFT) from None
        raise CommandError(f"cannot write the output: {error.strerror}", Status.FAILED) from None


def say(text: str) -> None:
    """Write a line that is not data to standard error, if there is one."""
    if sys.stderr is not None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


class Messages:
    """Standard error, which drops what it cannot write: the status and the data matter more."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with suppress(OSError):  # such as a full disk, or a reader that has left
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):  # at its exit Python flushes too, and a failure would be status 120
            self._stream.flush()


def tolerate_any_stream() -> None:
    """Write "?" for what an encoding lacks, such as a curve's blocks in Latin-1; see Messages."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if sys.stderr is not None:
        messages: Any = Messages(sys.stderr)
        sys.stderr = messages


def printable(text: str) -> str:
    r"""Write text on one line, with what cannot be seen as escapes such as \n and \x1b."""
    # Also characters that move a terminal's cursor or reverse the text around them.
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
