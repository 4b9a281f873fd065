import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_sdk.cli.output.values import printable, to_cell, to_json

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
