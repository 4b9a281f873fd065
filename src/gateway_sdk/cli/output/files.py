"""Writing files: whole, or not at all."""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.cli.output.printable import printable


def check_place(path: Path) -> None:
    """Make sure that a file can go there, before anything is asked for what it is to hold.

    Raises:
        CommandError: it is a folder, or lies in one that is not there.
    """
    if path.is_dir():
        raise _refusal(path, "it is a folder")
    if not path.parent.is_dir():
        raise _refusal(path, f"there is no folder {printable(str(path.parent))}")


def write_file(path: Path, data: bytes) -> None:
    """Replace a file as a whole; what was there stays if that is not possible.

    Raises:
        CommandError: the system refused; the message says why.
    """
    with writing(path) as file:
        file.write(data)


@contextmanager
def writing(path: Path) -> Generator[IO[bytes]]:
    """Open a draft without a name, whose content replaces a file at the end; else that one stays.

    It leaves nothing behind, even if the process is killed while it is written.

    Raises:
        CommandError: the system refused; the message says why.
    """
    try:
        with tempfile.TemporaryFile(dir=None if _is_special(path) else path.parent) as draft:
            yield draft
            draft.seek(0)
            _put(draft, path)
    except OSError as error:
        raise _refusal(path, error.strerror or type(error).__name__) from None


def _is_special(path: Path) -> bool:
    """Tell whether it is a pipe or a device, which nothing can take the place of."""
    return path.exists() and not path.is_file()


def _put(draft: IO[bytes], path: Path) -> None:
    if _is_special(path):
        with path.open("wb") as file:
            shutil.copyfileobj(draft, file)
    else:
        _replace(draft, path)


def _replace(draft: IO[bytes], path: Path) -> None:
    with tempfile.NamedTemporaryFile(
        dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        part = Path(file.name)
        try:
            shutil.copyfileobj(draft, file)
            file.close()
            part.chmod(_mode_of(path))
            part.replace(path)
        except BaseException:
            part.unlink()
            raise


def _mode_of(path: Path) -> int:
    """Return the mode of the file that is replaced, or what a new one gets here."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def _refusal(path: Path, why: str) -> CommandError:
    return CommandError(f"cannot write {printable(str(path))}: {why}", MISUSED)
