import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gateway_sdk.cli.output.console import (
    KeyValue,
    describe_moment,
    format_span,
    format_speed,
    print_key_values,
    to_cell,
    to_json,
)
from gateway_sdk.cli.process import printable

PATH = "/folder" * 20


@pytest.mark.parametrize(
    ("facts", "lines"),
    [
        # What does not fit into a line goes on below where it began, and words stay whole: a path
        # that is longer than any line can be copied as it stands.
        (
            [("Failed", "AED AFN ALL AMD AOA ARS AUD AWG"), ("", PATH), ("Took", "1 s")],
            [
                "Failed     AED AFN ALL AMD AOA ARS AUD",
                "           AWG",
                f"           {PATH}",
                "Took       1 s",
            ],
        ),
        ([("Client", ""), ("Took", "1 s")], ["Client     ", "Took       1 s"]),
        ([("Client", " "), ("Took", "1 s")], ["Client     ", "Took       1 s"]),
    ],
)
def test_facts_are_indented_under_themselves(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    facts: list[KeyValue],
    lines: list[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_key_values(facts)

    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize(
    ("speed", "words"),
    [
        (1234.4, "1234/s"),
        (9.96, "10/s"),
        (9.94, "9.9/s"),
        (0.1, "0.1/s"),
        (0.0999, "6.0/min"),
        (0.01, "0.6/min"),
    ],
)
def test_speed_says_something_of_slow_calls_too(speed: float, words: str) -> None:
    """A fraction only below ten, and never nothing a second."""
    assert format_speed(speed) == words


NOON = 1_800_014_400.0  # 2027-01-15 12:00 UTC


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0, "0 s"),
        (0.4, "0 s"),
        (1, "1 s"),
        (119.4, "119 s"),
        (119.6, "2 min"),
        (3599.7, "60 min"),
        (7199, "120 min"),
        (7200, "2 h"),
        (172_799, "48 h"),
        (172_800, "2 days"),
        (31_536_000, "365 days"),
    ],
)
def test_span_is_in_the_unit_that_is_large_enough(seconds: float, written: str) -> None:
    """From two of a unit on, that unit counts, without fractions."""
    assert format_span(seconds) == written


@pytest.mark.parametrize(
    ("moment", "written"),
    [
        (NOON, "2027-01-15 12:00:00 UTC, in 0 s"),
        (NOON + 3600, "2027-01-15 13:00:00 UTC, in 60 min"),
        (NOON - 90, "2027-01-15 11:58:30 UTC, 90 s ago"),
    ],
)
def test_moment_is_in_utc_and_relative_to_now(moment: float, written: str) -> None:
    """A moment is a date for the record and a distance for the reader."""
    assert describe_moment(moment, NOON) == written


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.decimals(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_json_is_exactly_the_value(value: Any) -> None:
    """What is read back is what was written, each digit of each number included."""
    assert json.loads(to_json(value), parse_float=Decimal) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("1.10"), "1.10"),
        (Decimal("0.1000000000000000055511151231257827"), "0.1000000000000000055511151231257827"),
        ({"é": "\x9b\x7f"}, '{"é": "\\u009b\\u007f"}'),
        (["\u202e a\u2028\U000e0001\ufeff"], '["\\u202e a\\u2028\\udb40\\udc01\\ufeff"]'),
        ([], "[]"),
    ],
)
def test_json_is_readable_and_harmless(value: Any, text: str) -> None:
    """Letters stay letters, and what steers a terminal is escaped."""
    assert to_json(value, indent=None) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (12, "12"),
        ("text", "text"),
        (Decimal("1E+2"), "100"),
        (Decimal("1.50"), "1.50"),
        (Decimal("1E-7"), "0.0000001"),
        (Decimal("1E+1000000"), "1E+1000000"),
        (Decimal("NaN"), "NaN"),
        (["a", 1], '["a", 1]'),
        ({"a": Decimal("1.0")}, '{"a": 1.0}'),
    ],
)
def test_cells_are_text_on_one_line(value: Any, text: str) -> None:
    """Numbers are plain unless that takes a page, nothing is empty, what is nested is JSON."""
    assert to_cell(value) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("São Tomé", "São Tomé"),
        ("नेपाल 🇳🇵", "नेपाल 🇳🇵"),
        ("a\tb\r\nc", "a\\tb\\r\\nc"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x9b2J", "\\x9b2J"),
        ("\u2028", "\\u2028"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_would_steer_a_terminal_is_escaped(text: str, shown: str) -> None:
    """Letters of all scripts stay; what cannot be seen becomes escapes."""
    assert printable(text) == shown


@given(st.text())
def test_no_text_steers_a_terminal(text: str) -> None:
    """Whatever comes in, what comes out is one line without control characters."""
    shown = printable(text)

    assert len(shown.splitlines()) <= 1
    assert shown.isprintable()
    shown.encode()  # no half of a character
