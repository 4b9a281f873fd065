"""The write-ahead log of a journal, in a file beside it: its newest rows are there."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

VERSION: Final = 2
"""Of the tables and of what their columns hold: each change of these is another version."""

_UNDER_WAY: Final = -VERSION
"""The version while the newest rows are in the log; unlike the mode of the file, it goes when
another program reads it at the end of the run, and closes it later."""

_WAL_MODE: Final = b"\2\2"


def begin_log(database: sqlite3.Connection) -> None:
    database.execute(f"pragma user_version = {_UNDER_WAY}")
    database.execute("pragma journal_mode = wal")
    database.execute("select * from run").fetchone()  # creates the log, which must not be missing


def end_log(database: sqlite3.Connection) -> None:
    # Copies the log into the file and deletes it, unless another program reads the file.
    for setting in (f"user_version = {VERSION}", "journal_mode = delete"):
        with suppress(sqlite3.Error, MemoryError):
            database.execute(f"pragma {setting}")


def problem_of_log(journal: Path) -> str:
    """Say what is wrong if one of the two files of a killed run is missing; else return ""."""
    path, header = Path(os.path.realpath(journal)), b""
    log = path.with_name(f"{path.name}-wal")
    has_log = log.exists()  # before the header is read: its run may end meanwhile
    is_empty = not (path.exists() and path.stat().st_size)
    if is_empty and has_log:  # SQLite would delete it
        return f"is missing beside its log {log.name}: move both files together"
    if path.is_file():
        with suppress(OSError), path.open("rb") as file:
            header = file.read(100)
    version = int.from_bytes(header[60:64], "big", signed=True)
    if (header[18:20], version) != (_WAL_MODE, _UNDER_WAY) or has_log or log.exists():
        return ""
    return (
        f"lacks its newest rows: it was copied in a run, or a run was killed; its log {log.name} "
        "is missing: move both files together; if another program has closed the journal, and "
        f'nothing is missing, sqlite3 {path.name} "pragma journal_mode = delete" says so'
    )
