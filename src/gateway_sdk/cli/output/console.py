"""Where text with styles goes: keys with their values, and the bar of a command that takes long."""

import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from textwrap import wrap
from typing import Final

from rich.console import Console
from rich.progress import Progress, ProgressColumn
from rich.text import Text

FEWEST_COLUMNS: Final = 40
"""In a terminal narrower than this, lines run over."""

MOST_COLUMNS: Final = 110
"""Longer lines are hard to read."""

KEY_COLUMNS: Final = 11

KeyValue = tuple[str, str]
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


def print_key_values(console: Console, pairs: Iterable[KeyValue]) -> None:
    """Print keys in bold with values beside them; a word such as a path stays in one piece."""
    for key, value in pairs:
        room = console.width - KEY_COLUMNS
        texts = wrap(value, room, break_long_words=False, break_on_hyphens=False) or [""]
        for number, text in enumerate(texts):
            name = f"{'' if number else key:<{KEY_COLUMNS}}"
            # soft_wrap: the lines are set already.
            console.print(Text.assemble((name, "bold"), text), soft_wrap=True)


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
