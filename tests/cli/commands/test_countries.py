import csv
import io
import json
from collections.abc import Callable

import pytest

from gateway_sdk.cli.commands.countries import matches
from gateway_sdk.models import Country
from tests.cli.ended import Ended

Call = Callable[..., Ended]

HEADER = "countryName,two_digit_iso_code,three_digit_iso_code,currency,phone_code,nationality,id"
AUSTRIA = {
    "id": 13,
    "countryName": "Austria",
    "nationality": "Austrian",
    "three_digit_iso_code": "AUT",
    "two_digit_iso_code": "AT",
    "currency": "EUR",
    "phone_code": "+43",
}


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


@pytest.mark.parametrize("arguments", [["--sandbox", "countries"], ["countries", "--sandbox"]])
def test_sandbox_needs_no_settings(call_gateway: Call, arguments: list[str]) -> None:
    """The option may stand anywhere; a line for each country and one for the header are piped."""
    ended = call_gateway(*arguments)

    assert (ended.status, ended.err) == (0, "")
    assert ended.out.splitlines()[0] == HEADER.replace(",", "\t")
    assert "Austria\tAT\tAUT\tEUR\t+43\tAustrian\t13" in ended.out.splitlines()
    assert len(ended.out.splitlines()) == 235


def test_sandbox_leaves_the_settings_of_the_environment_alone(call_gateway: Call) -> None:
    """Not even wrong ones count, and no token of theirs goes anywhere."""
    ended = call_gateway(
        "countries", "austria", "--sandbox", GATEWAY_BASE_URL="nonsense", GATEWAY_ACCESS_TOKEN="\n"
    )

    assert ended.status == 0


def test_json_is_the_reply_of_those_found(call_gateway: Call) -> None:
    """What the gateway sent of them is there, under its own names."""
    ended = call_gateway("countries", "austria", "--json", "--sandbox")

    assert json.loads(ended.out) == [AUSTRIA]


def test_csv_has_the_names_of_the_interface(call_gateway: Call) -> None:
    """A spreadsheet gets a header and a row for each."""
    ended = call_gateway("countries", "AT", "--csv", "--sandbox")

    header, *rows = csv.reader(io.StringIO(ended.out, newline=""))
    assert ",".join(header) == HEADER
    assert [row for row in rows if row[1] == "AT"] == [
        ["Austria", "AT", "AUT", "EUR", "+43", "Austrian", "13"]
    ]


def test_search_that_finds_none_is_status_1(call_gateway: Call) -> None:
    """Like grep, and with a word on where to look."""
    ended = call_gateway("countries", "Atlantis\x1b[31m", "--sandbox")

    assert (ended.status, ended.out) == (1, "")
    assert ended.err.splitlines() == [
        "gateway: none of the 234 countries matches “Atlantis\\x1b[31m”",
        "`gateway countries` lists them.",
    ]


def test_two_forms_are_a_contradiction(call_gateway: Call) -> None:
    """It is told before anything is asked."""
    ended = call_gateway("countries", "--json", "--csv")

    assert ended == (2, "", "gateway: --json and --csv exclude each other: choose one\n")


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


def test_euro_is_found_by_its_name(call_gateway: Call) -> None:
    """Its countries are those of its code."""
    by_name = call_gateway("countries", "euro", "--csv", "--sandbox")
    by_code = call_gateway("countries", "EUR", "--csv", "--sandbox")

    assert by_name.status == 0
    assert by_name.out == by_code.out
    assert "Austria,AT," in by_name.out


@pytest.mark.parametrize(("form", "printed"), [("--csv", "countryName,"), ("--json", "[]\n")])
def test_no_country_is_still_csv_and_json(call_gateway: Call, form: str, printed: str) -> None:
    """A program that reads the file finds that there are none; the status says so too."""
    ended = call_gateway("countries", "atlantis", form, "--sandbox")

    assert ended.status == 1
    assert ended.out.startswith(printed)
    assert len(ended.out.splitlines()) == 1
