"""What commands take: options, and files, which are checked before anything is sent."""

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, Final, NoReturn, TypeAlias

import typer

from gateway_sdk.cli.process import CommandError, Status, printable, say

LARGEST: Final = 16 * 2**20
"""Bytes of a file of JSON, which is read as a whole: no customer is so large, but /dev/zero is."""

GIVEN: Final[dict[str, Any]] = {}
"""The options for every command, such as "base_url", as this process has got them."""


def option(metavar: str, text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, metavar=metavar, help=text, **more)


def switch(name: str, text: str, *more_names: str, **more: Any) -> Any:
    """Describe an option without a value and without an opposite."""
    return typer.Option(name, *more_names, help=text, **more)


def argument(metavar: str, text: str, **more: Any) -> Any:
    return typer.Argument(metavar=metavar, help=text, **more)


AsJson: TypeAlias = Annotated[
    bool, switch("--json", "Print the gateway's reply as JSON, with all digits.")
]
AsCsv: TypeAlias = Annotated[bool, switch("--csv", "Print CSV (RFC 4180), for spreadsheets.")]

STDIN: Final = "-"


def name_of(word: str) -> str:
    return "standard input" if word == STDIN else printable(word)


def refuse(message: str) -> NoReturn:
    """End the command before anything was sent."""
    raise CommandError(f"{message}\nNothing was sent.") from None


def open_content(word: str) -> Path | IO[bytes] | bytes:
    """Return what can be uploaded: a path, or an open file if it can be read only once."""
    file = open_file(word)
    if file.isatty():  # a second read after the end of what is typed would wait for more
        return file.read()
    if word == STDIN:
        # Unbuffered: Python's exit needs the lock of the buffer, and aborts if a read has it.
        return getattr(file, "raw", file)
    if not file.seekable():  # such as <(command) of a shell
        return file
    file.close()
    return Path(word)


def open_file(word: str) -> IO[bytes]:
    if word != STDIN:
        try:
            return Path(word).open("rb")
        except OSError as error:
            refuse(f"cannot read {printable(word)}: {error.strerror}")
    if sys.stdin is None:
        refuse("there is no standard input to read")
    if sys.stdin.isatty():
        say("Reading what you type, until Ctrl-D at the start of a line.")
    return sys.stdin.buffer


@contextmanager
def reading(word: str) -> Generator[IO[bytes]]:
    """Open a file for the block; the standard input stays open, for what else reads it."""
    file = open_file(word)
    try:
        yield file
    finally:
        if word != STDIN:
            file.close()


def read_line(word: str) -> str:
    """Read a header; what no header can carry, and so no UTF-8 either, is refused at its use."""
    with reading(word) as file:
        return file.readline().decode(errors="replace").strip() or refuse(
            f"{name_of(word)} is empty"
        )


def read_json(word: str) -> Any:
    """Read JSON in UTF-8, with or without a byte order mark; messages show no value."""
    name = name_of(word)
    with reading(word) as file:
        try:
            data = file.read(LARGEST + 1)
        except OSError as error:
            refuse(f"cannot read {name}: {error.strerror}")
    if len(data) > LARGEST:
        refuse(f"{name} is larger than {LARGEST // 2**20} MiB: is it the right file?")
    try:
        # Floats may lose digits: no field takes one.
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=_unique)
    except (RecursionError, ValueError) as error:
        refuse(f"{name} is no JSON in UTF-8: {error}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that has a name twice: the parser would silently take the last one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = printable(next(name for name in names if names.count(name) > 1)[:100])
        refuse(f"the file has {twice} twice in one object")
    return found


def check_place(place: str | Path) -> Path:
    path = Path(place)
    try:
        # A file that a link leads to may be made, too.
        folder = (Path(os.path.realpath(path)) if path.is_symlink() else path).parent
        is_folder, has_folder = path.is_dir(), folder.is_dir()
    except OSError as error:  # such as a name that is too long
        raise cannot_write(path, error) from None
    if is_folder:
        raise cannot_write(path, "it is a folder")
    if not has_folder:
        raise cannot_write(path, f"there is no folder {printable(str(folder))}")
    return path


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error


def write_file(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:  # after the calls: the place was checked before
        raise cannot_write(path, error, Status.FAILED) from None


def cannot_write(
    path: Path, reason: OSError | str, status: Status = Status.MISUSED
) -> CommandError:
    why = reason if isinstance(reason, str) else reason.strerror or type(reason).__name__
    return CommandError(f"cannot write {printable(str(path))}: {why}", status)
