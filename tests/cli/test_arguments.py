from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
import typer
from babel.numbers import list_currencies
from hypothesis import given, strategies as st

from gateway_sdk.cli.commands.rates import (
    CURRENCIES,
    choose_range,
    day_of,
    parse_concurrency,
    parse_day,
    parse_span,
    parse_symbols,
    split_codes,
)

Parse = Callable[[Any], Any]

TODAY = date(2026, 3, 31)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        # Commas and spaces part them; three small letters become capitals, all else stays.
        (split_codes, ["USD"], ["USD"]),
        (split_codes, ["USD", "GBP,JPY", "USD"], ["USD", "GBP", "JPY"]),
        (split_codes, ["USD, GBP ,"], ["USD", "GBP"]),
        (split_codes, ["usd", "Usd", "us"], ["USD", "Usd", "us"]),
        # ALL is Albania's money, and only all is all.
        (parse_symbols, "USD, GBP", ["USD", "GBP"]),
        (parse_symbols, "all", None),
        (parse_symbols, "ALL,USD", ["ALL", "USD"]),
        (parse_span, "30d", 30),
        (parse_span, " 6W ", 42),
        (parse_concurrency, "1", 1),
        (parse_concurrency, "9999", 9999),
        (parse_concurrency, "adaptive", "adaptive"),
    ],
)
def test_arguments_are_read(parse: Parse, text: str | list[str], value: Any) -> None:
    assert parse(text) == value


NO_DAYS = (
    *("", "tomorrow", "31.01.2026", "2026-02-29", "20260131", "-3d", "3", "2026y", "99999m"),
    *("999999d", "2026-01-31T00:00", "3\x00d"),
)


@pytest.mark.parametrize(
    ("parse", "text", "words"),
    [
        *((split_codes, words, "USD,GBP") for words in ([], [""], [" , "])),
        *((parse_span, text, "30d or 6w") for text in ("", "30", "0d", "1m", "-1d", "1.5d", "²d")),
        *((parse_concurrency, text, "adaptive") for text in ("", "0", "-1", "1.5", "²")),
        *((parse_day, text, f"{text!r} is not a day: write 2026-01-31, today") for text in NO_DAYS),
        (parse_symbols, "all,USD", "must stand alone"),
    ],
)
def test_what_is_wrong_is_refused(parse: Parse, text: str | list[str], words: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        parse(text)

    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        (" 2026-01-31 ", date(2026, 1, 31)),
        ("today", TODAY),
        ("Yesterday", date(2026, 3, 30)),
        ("0d", TODAY),
        ("10d", date(2026, 3, 21)),
        ("6w", date(2026, 2, 17)),
        ("1m", date(2026, 2, 28)),
        ("2M", date(2026, 1, 31)),
        ("1y", date(2025, 3, 31)),
        ("25m", date(2024, 2, 29)),
    ],
)
def test_day_is_read(text: str, day: date) -> None:
    """A date, a word, or so long ago; a month ago is the same day, or the last of a shorter one."""
    assert day_of(text, TODAY) == day


@given(st.dates())
def test_every_date_is_read_as_it_is_written(day: date) -> None:
    assert day_of(day.isoformat(), TODAY) == day


@given(st.dates(min_value=date(1900, 1, 1)), st.integers(0, 1000))
def test_months_ago_keep_the_day_where_there_is_one(today: date, months: int) -> None:
    """Never later in the month than today, and never in another month than was asked for."""
    day = day_of(f"{months}m", today)

    assert day.day <= today.day
    assert (today.year - day.year) * 12 + today.month - day.month == months
    assert day.day == today.day or (day + timedelta(days=1)).day == 1


def test_range_is_filled_in() -> None:
    """What was left out follows from the other end, and from today, which is that of UTC."""
    today = datetime.now(UTC).date()

    assert choose_range(TODAY, TODAY, days=30) == (TODAY, TODAY)
    assert choose_range(None, TODAY, days=30) == (date(2026, 3, 1), TODAY)
    first, last = choose_range(None, None, days=30)
    assert (last - first).days == 30
    assert today <= last <= today + timedelta(days=1)


def test_completed_codes_are_currencies() -> None:
    codes = CURRENCIES.split()

    assert codes == sorted(set(codes) & list_currencies())
