"""Files that are written as a whole or not at all."""

# pyarrow has no annotations of its own.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

import io
import os
import shutil
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.cli.output.values import printable


def check_place(path: Path) -> None:
    """Check that a file can be written there, before anything is sent."""
    if path.is_dir():
        raise _refusal(path, "it is a folder")
    if not path.parent.is_dir():
        raise _refusal(path, f"there is no folder {printable(str(path.parent))}")


def make_folder(folder: Path) -> None:
    """Make the folder if it does not exist, and check that it can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _refusal(folder, error.strerror or "") from error


def write_file(path: Path, data: bytes, *, private: bool = False) -> None:
    """Replace a file as a whole; after a failure it still has its old content."""
    with writing(path, private=private) as file:
        file.write(data)


@contextmanager
def writing(path: Path, *, private: bool = False) -> Generator[IO[bytes]]:
    """Open a draft without a name, whose content replaces a file at the end; its mode is kept.

    If the process is killed meanwhile, nothing is left behind. A *private* file is this user's.
    """
    # A pipe or a device cannot be replaced.
    special = path.exists() and not path.is_file()
    part = path if special else path.with_name(f".{path.name}.{token_hex(4)}")
    # Private from the start: whoever opens it before its mode is set could read it later.
    create = partial(os.open, mode=0o600 if private or path.exists() else 0o666)
    try:
        with tempfile.TemporaryFile(dir=None if special else path.parent) as draft:
            yield draft
            draft.seek(0)
            with open(part, "wb", opener=create) as file:
                if path.is_file():
                    shutil.copymode(path, part)
                shutil.copyfileobj(draft, file)
        if not special:
            part.replace(path)
    except OSError as error:
        raise _refusal(path, error.strerror or type(error).__name__) from None
    finally:
        if not special:
            part.unlink(missing_ok=True)


def _refusal(path: Path, why: str) -> CommandError:
    return CommandError(f"cannot write {printable(str(path))}: {why}", MISUSED)


def to_parquet(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """Make a Parquet file of columns: a date is date32, a Decimal is exact, None is null."""
    # Imported here, because it needs the extra [parquet].
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    file = io.BytesIO()
    parquet.write_table(pa.table({name: pa.array(cells) for name, cells in columns.items()}), file)
    return file.getvalue()
