"""Days as people type them. Pure but for the clock, which is read in UTC."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final, TypeAlias

import typer

FORMATS: Final = "2026-01-31, today, yesterday, or so long ago: 10d, 6w, 3m, 1y"

_AGO: Final = re.compile(r"(\d{1,5})([dwmy])")
_DAYS: Final = {"d": 1, "w": 7}
_MONTHS: Final = {"m": 1, "y": 12}


def parse_day(text: str) -> date:
    """Read a day, for an option.

    Raises:
        typer.BadParameter: it is none; the message shows how one is written.
    """
    try:
        return day_of(text, datetime.now(UTC).date())
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is no day: write {FORMATS}") from None


def day_of(text: str, today: date) -> date:
    """Read a day that may be told from today's.

    Raises:
        ValueError: it is none.
        OverflowError: it is before the calendar begins.
    """
    word = text.strip().lower()
    if word in ("today", "yesterday"):
        return today - timedelta(days=word == "yesterday")
    if ago := _AGO.fullmatch(word):
        return _before(today, int(ago[1]), ago[2])
    # Not fromisoformat alone: it takes 20260131 and 2026-W05-6 too, of which half are misspelt.
    return datetime.strptime(word, "%Y-%m-%d").replace(tzinfo=UTC).date()


def _before(today: date, count: int, unit: str) -> date:
    if unit in _DAYS:
        return today - timedelta(days=count * _DAYS[unit])
    months = today.year * 12 + today.month - 1 - count * _MONTHS[unit]
    first = date(months // 12, months % 12 + 1, 1)
    # The 31st of a shorter month is its last day.
    last = (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    return min(last, first.replace(day=1) + timedelta(days=today.day - 1))


StartDay: TypeAlias = Annotated[
    date | None,
    typer.Option("--start", parser=parse_day, metavar="DAY", help=f"The first day: {FORMATS}."),
]
EndDay: TypeAlias = Annotated[
    date | None,
    typer.Option("--end", parser=parse_day, metavar="DAY", help="The last day, likewise."),
]


def choose_range(start: date | None, end: date | None, *, days: int) -> tuple[date, date]:
    """Fill in what was left out: the end is today, and the start so many days before the end.

    Raises:
        typer.BadParameter: the range ends before it starts.
    """
    last = end or datetime.now(UTC).date()
    first = start or last - timedelta(days=days)
    if first > last:
        raise typer.BadParameter(f"--start {first} is after --end {last}")
    return first, last
