"""Series to be drawn."""

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal

from gateway_sdk.cli.series import Series

FIRST = date(2026, 1, 1)


def series_of(rates: Mapping[str, list[str | None]]) -> Series:
    return Series(
        "EUR",
        {
            symbol: {
                FIRST + timedelta(days=number): Decimal(text)
                for number, text in enumerate(found)
                if text
            }
            for symbol, found in rates.items()
        },
    )
