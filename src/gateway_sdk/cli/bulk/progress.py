"""How far a run is, for whoever sits in front of it."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
)
from rich.table import Column
from rich.text import Text

from gateway_sdk.cli.bulk.count import Count
from gateway_sdk.cli.console import make_console
from gateway_sdk.cli.times import format_span

_SLOW = 10
"""Below so many a second, a fraction says more."""


class Pace(ProgressColumn):
    """Failures, series a second, and the time that is left.

    What an earlier run fetched comes at once, and tells nothing of how fast the gateway is.
    """

    def __init__(self, count: Count, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(Column(no_wrap=True))
        self._count = count
        self._clock = clock
        self._began = clock()

    def render(self, task: Task) -> Text:
        """Write it for now."""
        del task  # rich's own figures take earlier runs into account
        return Text("".join(f"· {words} " for words in self.words()).rstrip())

    def words(self) -> list[str]:
        """Say what there is to say; nothing before the first call has ended."""
        count = self._count
        failed = [f"{count.failed} failed"] if count.failed else []
        seconds = self._clock() - self._began
        if not count.asked or not seconds:
            return failed
        rate = count.asked / seconds
        left = ((count.total or 0) - count.done) / rate
        shown = f"{rate:.0f}/s" if rate >= _SLOW else f"{rate:.1f}/s"
        return [*failed, shown, f"{format_span(left)} left"]


@contextmanager
def progress(count: Count) -> Generator[Callable[[], None]]:
    """Draw a bar on standard error, if it is a terminal; give what to call after changes."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda: None
        return
    bar = Progress(
        TextColumn("Fetching"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        Pace(count),
        console=make_console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=None)
        yield lambda: bar.update(task, completed=count.done, total=count.total)
