"""Text with styles, pairs of keys and values, and progress bars."""

import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from textwrap import wrap
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from gateway_sdk.cli.output.values import describe_pace

FEWEST_COLUMNS: Final = 40
"""In a narrower terminal, lines are broken by the terminal."""

MOST_COLUMNS: Final = 110
"""Longer lines are hard to read."""

KEY_COLUMNS: Final = 11

KeyValue = tuple[str, str]
Show = Callable[..., None]
"""Updates a bar: how many are done, of how many, how many of them are new, and other words."""


def make_console(
    *,
    fewest_columns: int = FEWEST_COLUMNS,
    most_columns: int | None = MOST_COLUMNS,
    stderr: bool = False,
) -> Console:
    """Make a console that does not read markup, with the terminal's width inside these limits."""
    console = Console(markup=False, emoji=False, highlight=False, stderr=stderr)
    console.width = max(fewest_columns, min(console.width, most_columns or console.width))
    return console


def print_key_values(console: Console, pairs: Iterable[KeyValue]) -> None:
    """Print keys in bold with their values; a long word such as a path is not broken."""
    for key, value in pairs:
        room = console.width - KEY_COLUMNS
        texts = wrap(value, room, break_long_words=False, break_on_hyphens=False) or [""]
        for number, text in enumerate(texts):
            name = f"{'' if number else key:<{KEY_COLUMNS}}"
            # soft_wrap: the lines are wrapped already.
            console.print(Text.assemble((name, "bold"), text), soft_wrap=True)


class Notes(ProgressColumn):
    """What a command says of its progress, then the speed, and the time for what is left."""

    def render(self, task: Task) -> Text:
        """Write them; the speed is that of what is new since the bar began."""
        notes, speed = task.fields["notes"], task.fields["new"] / (task.elapsed or 1)
        pace = describe_pace(speed, task.remaining or 0) if speed else ()
        return Text(" ".join(f"· {words}" for words in (*notes, *pace)))


def counting_bar(doing: str) -> AbstractContextManager[Show]:
    """Draw a bar that counts items."""
    notes = Notes(Column(no_wrap=True))
    return progress(TextColumn(doing), BarColumn(bar_width=None), MofNCompleteColumn(), notes)


@contextmanager
def progress(*columns: ProgressColumn) -> Generator[Show]:
    """Draw a bar on standard error, and yield a function that updates it.

    The bar appears with the first update, and only in a terminal.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda *_: None
        return
    with Progress(
        *columns, console=make_console(fewest_columns=1, stderr=True), transient=True
    ) as bar:
        task = bar.add_task("", total=None, visible=False)

        def show(done: int, total: int | None, new: int = 0, *notes: str) -> None:
            bar.update(task, completed=done, total=total, visible=True, new=new, notes=notes)

        yield show
