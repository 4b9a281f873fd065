from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_sdk.cli.output.printable import TURNING, printable


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
    ],
)
def test_what_would_steer_a_terminal_is_escaped(text: str, shown: str) -> None:
    """Letters of all scripts stay; control characters and reversals become escapes."""
    assert printable(text) == shown


@given(st.text())
def test_no_text_steers_a_terminal(text: str) -> None:
    """Whatever comes in, what comes out is one line without control characters."""
    shown = printable(text)

    assert len(shown.splitlines()) <= 1
    assert not any(category(c) in ("Cc", "Zl", "Zp") or c in TURNING for c in shown)
