"""How far an upload is, for whoever sits in front of it."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from gateway_sdk.cli.console import make_console

Show: TypeAlias = Callable[[int, int | None], None]


@contextmanager
def progress(doing: str) -> Generator[Show | None]:
    """Draw a bar on standard error, with bytes, rate and time left; None if it is no terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    bar = Progress(
        TextColumn(doing),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=make_console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=None, visible=False)
        yield lambda sent, total: bar.update(task, completed=sent, total=total, visible=True)
