from collections.abc import Callable

import pytest

from gateway_sdk.cli.commands.countries import matches
from gateway_sdk.models import Country
from tests.cli.ended import Ended

Call = Callable[..., Ended]


@pytest.fixture(scope="module")
def ivory_coast() -> Country:
    return Country.model_validate(
        {
            "id": 43,
            "countryName": "São Tomé",
            "nationality": "Ivorian",
            "three_digit_iso_code": "CIV",
            "two_digit_iso_code": "CI",
            "currency": "XOF",
            "phone_code": "+225",
        }
    )


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("são", True),
        ("SAO T", True),
        (" tome ", True),
        ("ivorian", True),
        ("ci", True),
        ("CIV", True),
        ("xof", True),
        ("+225", True),
        ("225", True),
        ("", True),
        ("xo", False),
        ("c i v", False),
        ("43", False),
        ("22", False),
    ],
)
def test_search_is_in_names_and_whole_codes(ivory_coast: Country, search: str, found: bool) -> None:
    """Case, accents and white space around do not count; a part of a code is no match."""
    assert matches(ivory_coast, search) == found


def test_countries_in_a_terminal_fit_80_columns(
    run_in_terminal: Callable[..., tuple[int, str]],
) -> None:
    """The table has short headings; two names take a second line."""
    status, shown = run_in_terminal("countries", "--sandbox", NO_COLOR="1", TERM="dumb")

    lines = shown.splitlines()
    assert status == 0
    assert lines[0].split() == ["Country", "2", "3", "Cur", "Phone", "Nationality", "Id"]
    assert max(map(len, lines)) <= 80
    assert len(lines) == 238
