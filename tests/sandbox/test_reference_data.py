"""The data of the sandbox are real, whole and current."""

import re
from datetime import date

import pytest

from gateway_sdk.sandbox._reference_data import (
    ReferenceRates,
    Series,
    country_list,
    reference_rates,
)
from tests.interface_table import MODELS


@pytest.fixture
def rates() -> ReferenceRates:
    return reference_rates()


def test_data_begins_with_the_euro(rates: ReferenceRates) -> None:
    """With the first publication, with former currencies and without bitcoin; loaded once."""
    assert rates.days[0] == date(1999, 1, 4)
    assert rates.days[-1] > date(2026, 1, 1)
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


NAMES = [field.wire_name for field in MODELS["Country"]]
PATTERNS = {  # of others: any text
    "id": r"[1-9]\d*",
    "three_digit_iso_code": r"[A-Z]{3}",
    "two_digit_iso_code": r"[A-Z]{2}",
    "currency": r"[A-Z]{3}",
    "phone_code": r"\+\d+",
}


def test_countries_have_all_fields_and_are_numbered_by_their_code() -> None:
    """The list has the United Kingdom without Wales, Myanmar without Burma, no former country."""
    records = country_list().records
    codes = [str(country["three_digit_iso_code"]) for country in records]
    short = [country["two_digit_iso_code"] for country in records]
    for country in records:
        assert list(country) == NAMES
        texts = {name: str(value) for name, value in country.items()}
        assert all(re.fullmatch(PATTERNS.get(name, ".+"), it) for name, it in texts.items())

    assert len(records) > 230
    assert codes == sorted(set(codes))
    assert len(short) == len(set(short))
    assert not {*codes} & {"ANT", "SCG", ""}
    assert [country["id"] for country in records] == list(range(1, len(records) + 1))


@pytest.mark.parametrize(
    "expected",
    [
        ("Austria", "Austrian", "AUT", "AT", "EUR", "+43"),
        ("Antigua & Barbuda", "Antiguan,Barbudan", "ATG", "AG", "XCD", "+1268"),
        ("United Kingdom", "British", "GBR", "GB", "GBP", "+44"),
        ("North Macedonia", "Macedonian", "MKD", "MK", "MKD", "+389"),
        ("Türkiye", "Turkish", "TUR", "TR", "TRY", "+90"),
        ("Vatican City", "Vaticanian", "VAT", "VA", "EUR", "+379"),
    ],
)
def test_country_data_is_current(expected: tuple[str, ...]) -> None:
    records = [tuple(country.values())[1:7] for country in country_list().records]

    assert expected in records
