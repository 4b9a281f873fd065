"""Text with styles, pairs of keys and values, progress bars; single values as text."""

import json
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from textwrap import wrap
from typing import Any, Final

import simplejson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

FEWEST_COLUMNS: Final = 40  # in a narrower terminal, lines are broken by the terminal
MOST_COLUMNS: Final = 110  # longer lines are hard to read
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
    console = Console(markup=False, emoji=False, highlight=False, stderr=stderr)
    console.width = max(fewest_columns, min(console.width, most_columns or console.width))
    return console


def print_key_values(pairs: Iterable[KeyValue]) -> None:
    """Print keys in bold with their values; a long word such as a path is not broken."""
    console = make_console()
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
        notes, speed = [*task.fields["notes"]], task.fields["new"] / (task.elapsed or 1)
        if speed:
            left = format_span((task.remaining or 0) / speed)
            notes += [format_speed(speed), f"{left} left"]
        return Text(" ".join(f"· {words}" for words in notes))


def counting_bar(doing: str) -> AbstractContextManager[Show]:
    notes = Notes(Column(no_wrap=True))
    return progress(TextColumn(doing), BarColumn(bar_width=None), MofNCompleteColumn(), notes)


@contextmanager
def progress(*columns: ProgressColumn) -> Generator[Show]:
    """Draw a bar on standard error, in a terminal only, and yield a function that updates it."""
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


PLAIN_DIGITS: Final = 40  # a number with more digits, such as 1E+1000000, keeps its exponent
_UNITS: Final = (("days", 86400), ("h", 3600), ("min", 60), ("s", 1))
_LEAST: Final = 2  # with fewer of a unit, the next smaller unit is used


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """Write a value as JSON; a Decimal keeps all its digits."""
    text: str = simplejson.dumps(value, use_decimal=True, ensure_ascii=False, indent=indent)
    # Terminals obey control characters, and format characters reverse or hide the text around
    # them; escaped, they are the same JSON.
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def to_cell(value: Any) -> str:
    """Write a value as the text of a cell: None is empty, lists and objects are JSON."""
    match value:
        case None:
            return ""
        case Decimal():
            _, digits, exponent = value.as_tuple()
            short = isinstance(exponent, int) and abs(exponent) + len(digits) <= PLAIN_DIGITS
            return format(value, "f") if short else str(value)
        case Mapping() | list() | bool():
            return to_json(value, indent=None)
        case _:
            return str(value)


def describe_moment(moment: float, now: float) -> str:
    distance = format_span(abs(moment - now))
    text = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{text}, {distance} ago" if moment < now else f"{text}, in {distance}"


def format_speed(speed: float) -> str:
    """Write how many there are in a second, or in a minute if these are few."""
    number, unit = (speed, "s") if speed >= 0.1 else (60 * speed, "min")  # noqa: PLR2004
    return f"{number:.0f}/{unit}" if round(number, 1) >= 10 else f"{number:.1f}/{unit}"  # noqa: PLR2004


def format_span(seconds: float) -> str:
    """Write a number of seconds in a unit of fitting size, without fractions."""
    whole = round(seconds)
    unit, size = next((pair for pair in _UNITS if whole >= _LEAST * pair[1]), _UNITS[-1])
    return f"{round(whole / size)} {unit}"
