"""Series to be drawn."""

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal

from gateway_sdk.cli.series import Series

FIRST = date(2026, 1, 1)


def series_of(rates: Mapping[str, list[str | None]]) -> Series:
    """Make a series of rates on days in a row."""
    count = max(map(len, rates.values()))
    days = [FIRST + timedelta(days=number) for number in range(count)]
    by_day = {
        day: {symbol: Decimal(text) for symbol, found in rates.items() if (text := found[number])}
        for number, day in enumerate(days)
    }
    return Series("EUR", list(rates), by_day)
