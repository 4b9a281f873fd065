import io
import re
import sys

import pytest
from rich.progress import Progress

from gateway_sdk.cli.bulk.count import Count
from gateway_sdk.cli.bulk.progress import Pace, progress


class Screen(io.StringIO):
    """A terminal that only shows."""

    def isatty(self) -> bool:
        """Say that it is one."""
        return True


def counted(*, total: int | None, done: int, asked: int, failed: int = 0) -> Count:
    """Make a count in the middle of a run."""
    count = Count()
    count.total, count.done, count.asked, count.failed = total, done, asked, failed
    return count


@pytest.mark.parametrize(
    ("count", "seconds", "words"),
    [
        (counted(total=None, done=0, asked=0), 5, []),
        (counted(total=10, done=4, asked=0), 5, []),
        (counted(total=10, done=4, asked=0, failed=1), 5, ["1 failed"]),
        (counted(total=10, done=4, asked=4), 0, []),
        (counted(total=10, done=4, asked=4), 8, ["0.5/s", "12 s left"]),
        (counted(total=1000, done=200, asked=100, failed=3), 5, ["3 failed", "20/s", "40 s left"]),
        (counted(total=2, done=2, asked=2), 1, ["2.0/s", "0 s left"]),
    ],
)
def test_pace_is_that_of_this_run(count: Count, seconds: float, words: list[str]) -> None:
    """What earlier runs fetched is done, but makes the gateway no faster."""
    clock = iter([100.0, 100.0 + seconds])
    pace = Pace(count, lambda: next(clock))

    bar = Progress()
    bar.add_task("")

    assert pace.render(bar.tasks[0]).plain == " ".join(f"· {word}" for word in words)


def test_bar_is_one_line_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """On standard error, in a terminal, however large its figures are; it is gone at the end."""
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    count = Count()

    with progress(count) as show:
        count.total, count.done, count.asked, count.failed = 922_718, 15_500, 5_000, 12_551
        show()

    plain = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", screen.getvalue())
    figures = r"Fetching [^\d\n]* 15500/922718 · 12551 failed · \d+/s · \d+ \w+ left"
    drawn = [line for line in re.split(r"[\r\n]+", plain) if "15500" in line]
    assert drawn
    assert all(re.fullmatch(figures, line) and len(line) <= 80 for line in drawn), drawn
    assert screen.getvalue().rstrip().endswith("\x1b[2K")


@pytest.mark.parametrize("stderr", [io.StringIO(), None])
def test_nothing_is_drawn_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO | None
) -> None:
    """Neither in a pipe, nor where there is no standard error at all."""
    monkeypatch.setattr(sys, "stderr", stderr)

    with progress(Count()) as show:
        show()

    assert stderr is None or not stderr.getvalue()
