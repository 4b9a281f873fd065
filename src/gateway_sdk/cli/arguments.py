"""What commands take: options, and files, which are checked before anything is sent."""

import json
import os
import sys
from codecs import BOM_UTF16_LE
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, nullcontext, suppress
from decimal import Decimal
from pathlib import Path
from select import select
from stat import S_ISDIR
from typing import IO, Any, Final, NoReturn

import typer

from gateway_sdk.cli.process import CommandError, Status, printable, say

LARGEST: Final = 16 * 2**20
"""Bytes of a file of JSON, which is read as a whole: no customer is so large, but /dev/zero is."""

GIVEN: Final[dict[str, Any]] = {}
"""The options for every command, such as "base_url", as this process has got them."""


def option(metavar: str, text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, metavar=metavar, help=text, **more)


def switch(name: str, text: str, *more_names: str, **more: Any) -> Any:
    return typer.Option(name, *more_names, help=text, **more)


def argument(metavar: str, text: str, **more: Any) -> Any:
    return typer.Argument(metavar=metavar, help=text, **more)


STDIN: Final = "-"


def name_of(word: str) -> str:
    return "standard input" if word == STDIN else printable(word)


def refuse(message: str) -> NoReturn:
    raise CommandError(f"{message}\nNothing was sent.") from None


@contextmanager
def reading(word: str) -> Generator[IO[bytes]]:
    """Open a file for the block; the standard input stays open, for what else reads it."""
    try:
        with nullcontext(_standard_input()) if word == STDIN else Path(word).open("rb") as file:
            yield file
    except OSError as error:
        if looks_like_json(word):  # as `curl -d` takes it; it may have a password
            refuse("FILE is JSON: write it into a file, or to standard input, for which FILE is -")
        refuse(f"cannot read {name_of(word)}: {error.strerror}")


def looks_like_json(word: str) -> bool:
    return word.lstrip().startswith(("{", "["))


def _standard_input() -> IO[bytes]:
    if sys.stdin is None:
        refuse("there is no standard input to read")
    if sys.stdin.isatty():
        say("Reading what you type, until Ctrl-D at the start of a line.")
    return sys.stdin.buffer


def content_of(word: str) -> Path | IO[bytes] | bytes:
    """Return what can be uploaded: a path, or an open file if it can be read only once."""
    if word == STDIN:
        file = _standard_input()
        if file.isatty():  # a second read after the end of what is typed would wait for more
            return file.read()
        # Unbuffered: Python's exit needs the lock of the buffer, and aborts if a read has it.
        return getattr(file, "raw", file)
    path = Path(word)
    with suppress(OSError):
        if path.is_fifo():  # such as <(command) of a shell
            return _written(path)
    with reading(word):  # the SDK names no path in its errors
        return path


def _written(pipe: Path) -> IO[bytes]:
    """Open a pipe that somebody writes to; until then, to open it would wait without an end."""
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    if not select([descriptor], [], [], GIVEN.get("deadline"))[0]:
        os.close(descriptor)
        problem = f"nobody wrote to {name_of(str(pipe))} before the deadline\nNothing was sent."
        raise CommandError(problem, Status.UNCHANGED)
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "rb")


def read_line(word: str) -> str:
    with reading(word) as file:
        line = file.readline()
        line += file.read(1) if line.startswith(BOM_UTF16_LE) else b""  # of the end of the line
    # What cannot be decoded can stand in no header, and is refused there.
    text = line.decode(json.detect_encoding(line), errors="replace").strip()
    return text or refuse(f"{name_of(word)} is empty")


def read_json(word: str) -> Any:
    """Read JSON in UTF-8, 16 or 32, such as of PowerShell; messages show no value."""
    with reading(word) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        refuse(f"{name_of(word)} is larger than {LARGEST // 2**20} MiB: is it the right file?")
    try:
        text = data.decode(json.detect_encoding(data))
        return json.loads(
            text, object_pairs_hook=_unique, parse_float=_exact, parse_constant=_no_number
        )
    except (RecursionError, ValueError) as error:
        refuse(f"{name_of(word)} is no JSON: {error}")


def shortest(text: str) -> float | Decimal:
    """Read a number of JSON; a float, which the journal has as a number, if it has all digits."""
    number, exact = float(text), Decimal(text)
    return number if Decimal(repr(number)) == exact else exact


def _exact(text: str) -> float:
    with suppress(ArithmeticError):  # of an exponent that no decimal has
        if isinstance(number := shortest(text), float):
            return number
    raise ValueError("a number has more digits than are kept: write it as a text")


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that has a name twice: the parser would silently take the last one."""
    for name, count in Counter(name for name, _ in pairs).items():
        if count > 1:
            raise ValueError(f"an object has {printable(name)} twice")
    return dict(pairs)


@contextmanager
def writing(path: Path, status: Status = Status.MISUSED) -> Generator[None]:
    try:
        yield
    except OSError as error:
        problem = f"cannot write {printable(str(path))}: {error.strerror or error}"
        raise CommandError(problem, status) from None


def check_place(place: str | Path) -> Path:
    path = Path(place)
    with writing(path):
        folder = Path(os.path.realpath(path)).parent  # what a link leads to may be made, too
        with suppress(FileNotFoundError):  # what else is wrong with a path is told here
            if S_ISDIR(path.stat().st_mode):
                raise OSError("it is a folder")
        if not folder.is_dir():
            raise OSError(f"there is no folder {printable(str(folder))}")
    return path
