"""Where text with styles goes, and the bar that shows how far a command is."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import Progress, ProgressColumn

FEWEST_COLUMNS: Final = 66
"""In a terminal narrower than this, lines wrap; to cut figures short would be worse."""

MOST_COLUMNS: Final = 110
"""Longer lines are hard to read."""

Show = Callable[[int, int | None], None]


def make_console(
    *,
    fewest_columns: int = FEWEST_COLUMNS,
    most_columns: int | None = MOST_COLUMNS,
    stderr: bool = False,
) -> Console:
    """Make a console for plain text and styles; what it prints is never taken for markup.

    Args:
        fewest_columns: How wide it is at least, whatever the terminal.
        most_columns: How wide it is at most; None for as wide as the terminal.
        stderr: Whether it writes to standard error.
    """
    console = Console(markup=False, emoji=False, highlight=False, stderr=stderr)
    console.width = max(fewest_columns, min(console.width, most_columns or console.width))
    return console


@contextmanager
def progress(*columns: ProgressColumn) -> Generator[Show]:
    """Draw a bar on standard error, and take how much is done, of how much if that is known.

    It is shown from the first report on, and only in a terminal.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield _show_nothing
        return
    with Progress(
        *columns, console=make_console(fewest_columns=1, stderr=True), transient=True
    ) as bar:
        task = bar.add_task("", total=None, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)


def _show_nothing(done: int, total: int | None) -> None:
    del done, total
