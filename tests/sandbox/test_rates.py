import csv
import io
import zipfile
from datetime import date
from importlib.resources import files

import pytest

from gateway_sdk.sandbox._reference_data import ReferenceRates, reference_rates


@pytest.fixture
def rates() -> ReferenceRates:
    return reference_rates()


def test_rates_are_loaded_once() -> None:
    """A second request uses the rates that the first one loaded."""
    assert reference_rates() is reference_rates()


def test_data_begins_with_the_euro(rates: ReferenceRates) -> None:
    """The first day is that of the first publication, and the last day is later."""
    assert rates.first_day == date(1999, 1, 4)
    assert rates.last_day > date(2026, 1, 1)


def test_quoted_currencies_are_known(rates: ReferenceRates) -> None:
    """The currencies include the euro and former ones, and not bitcoin."""
    assert {"EUR", "USD", "JPY", "DKK", "BGN", "TRL"} <= rates.currencies
    assert "BTC" not in rates.currencies


def test_euro_rates_are_the_published_ones(rates: ReferenceRates) -> None:
    """Rates of the euro are those of the ECB, without weekends and the first of January."""
    series = rates.series("EUR", ["USD", "IDR"], date(2025, 12, 31), date(2026, 1, 5))

    assert list(series) == ["2025-12-31", "2026-01-02", "2026-01-05"]
    assert series["2026-01-02"] == {"USD": 1.1721, "IDR": 19593.06}


def test_cross_rates_have_seven_digits(rates: ReferenceRates) -> None:
    """A rate between two currencies is the quotient of their euro rates."""
    series = rates.series("USD", ["EUR", "JPY", "USD"], date(2026, 1, 2), date(2026, 1, 2))

    # 1 / 1.1721 and 183.94 / 1.1721
    assert series == {"2026-01-02": {"EUR": 0.8531695, "JPY": 156.932, "USD": 1.0}}


def test_days_carry_the_symbols_they_quote(rates: ReferenceRates) -> None:
    """After its currency's last day a symbol is missing; the others are not."""
    series = rates.series("EUR", ["BGN", "USD"], date(2025, 12, 31), date(2026, 1, 2))

    assert series["2025-12-31"] == {"BGN": 1.9558, "USD": 1.175}
    assert series["2026-01-02"] == {"USD": 1.1721}


def test_days_without_any_symbol_are_left_out(rates: ReferenceRates) -> None:
    """A former currency alone has no days after its last one."""
    series = rates.series("EUR", ["BGN"], date(2025, 12, 31), date(2026, 1, 31))

    assert series == {"2025-12-31": {"BGN": 1.9558}}


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (date(1990, 1, 1), date(1999, 1, 3)),
        (date(2999, 1, 1), date(2999, 12, 31)),
        (date(2026, 1, 3), date(2026, 1, 4)),
        (date(2026, 1, 5), date(2026, 1, 2)),
    ],
)
def test_range_without_business_days_is_empty(
    rates: ReferenceRates, start: date, end: date
) -> None:
    """Before the data, after them, on a weekend and backwards in time there are no rates."""
    assert rates.series("EUR", ["USD"], start, end) == {}


def test_euro_is_quoted_on_business_days_only(rates: ReferenceRates) -> None:
    """As a symbol the euro has only the days of its base."""
    series = rates.series("EUR", ["EUR"], date(2026, 1, 2), date(2026, 1, 5))

    assert series == {"2026-01-02": {"EUR": 1.0}, "2026-01-05": {"EUR": 1.0}}


def test_every_published_rate_of_a_year_is_given(rates: ReferenceRates) -> None:
    """A year of the series equals the file of the ECB, which is read independently."""
    archive = files("currency_converter") / "eurofxref-hist.zip"
    with zipfile.ZipFile(io.BytesIO(archive.read_bytes())) as opened:
        published = list(csv.DictReader(io.StringIO(opened.read("eurofxref-hist.csv").decode())))
    year = {row["Date"]: row for row in reversed(published) if row["Date"].startswith("2022")}
    symbols = ["USD", "HRK", "RUB", "ISK"]

    series = rates.series("EUR", symbols, date(2022, 1, 1), date(2022, 12, 31))

    assert len(series) == 257
    assert series == {
        day: {code: float(row[code]) for code in symbols if row[code] != "N/A"}
        for day, row in year.items()
    }
