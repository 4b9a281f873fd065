import re

import pytest

from gateway_sdk.sandbox._reference_data import country_list
from tests.interface_table import MODELS

FIELDS = {
    "id": r"[1-9]\d*",
    "countryName": r".+",
    "nationality": r".+",
    "three_digit_iso_code": r"[A-Z]{3}",
    "two_digit_iso_code": r"[A-Z]{2}",
    "currency": r"[A-Z]{3}",
    "phone_code": r"\+\d+",
}


def test_every_country_has_all_seven_fields() -> None:
    """No field of any record is missing, empty or of another format."""
    assert list(FIELDS) == [field.wire_name for field in MODELS["Country"]]
    for country in country_list().records:
        assert list(country) == list(FIELDS)
        assert all(re.fullmatch(FIELDS[name], str(value)) for name, value in country.items())


def test_countries_are_numbered_by_their_code() -> None:
    """Records are sorted by their three-letter codes, each code once, with ids from 1.

    The list has the United Kingdom without Wales, Myanmar without Burma, and no former country.
    """
    records = country_list().records
    codes = [str(country["three_digit_iso_code"]) for country in records]
    short = [country["two_digit_iso_code"] for country in records]

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
        ("Belarus", "Belarusian", "BLR", "BY", "BYN", "+375"),
        ("Bhutan", "Bhutanese", "BTN", "BT", "BTN", "+975"),
        ("United Kingdom", "British", "GBR", "GB", "GBP", "+44"),
        ("Croatia", "Croatian", "HRV", "HR", "EUR", "+385"),
        ("Jamaica", "Jamaican", "JAM", "JM", "JMD", "+1876"),
        ("Lesotho", "Mosotho", "LSO", "LS", "LSL", "+266"),
        ("North Macedonia", "Macedonian", "MKD", "MK", "MKD", "+389"),
        ("Namibia", "Namibian", "NAM", "NA", "NAD", "+264"),
        ("Eswatini", "Swazi", "SWZ", "SZ", "SZL", "+268"),
        ("Türkiye", "Turkish", "TUR", "TR", "TRY", "+90"),
        ("Vatican City", "Vaticanian", "VAT", "VA", "EUR", "+379"),
    ],
)
def test_country_data_is_current(expected: tuple[str, ...]) -> None:
    """Names and legal tender are current, and dialling codes are a plus and digits."""
    records = [tuple(country.values())[1:] for country in country_list().records]

    assert expected in records


def test_incomplete_countries_are_named() -> None:
    """A territory that lacks a field is left out and named, unless another record completes it."""
    incomplete = country_list().incomplete

    assert incomplete == sorted(incomplete)
    assert "Antarctica" in incomplete
    assert not {"United Kingdom", "Scotland", "Netherlands Antilles"} & {*incomplete}
