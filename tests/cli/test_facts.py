import pytest

from gateway_sdk.cli.console import make_console
from gateway_sdk.cli.facts import fact_lines, print_facts


def test_long_facts_are_indented_under_themselves() -> None:
    """What does not fit into a line goes on below where it began, and words stay whole."""
    facts = [("Failed", "AED AFN ALL"), ("", "/a/path/longer-than-that"), ("Took", "1 s")]

    assert fact_lines(facts, 19).plain.splitlines() == [
        "Failed     AED AFN",
        "           ALL",
        "           /a/path/longer-than-that",
        "Took       1 s",
    ]


@pytest.mark.parametrize("value", ["", " "])
def test_fact_without_a_word_is_a_line_of_its_own(value: str) -> None:
    """A value of nothing, or of white space, leaves the name alone."""
    assert fact_lines([("Client", value), ("Took", "1 s")], 19).plain.split("\n") == [
        "Client     ",
        "Took       1 s",
    ]


def test_long_word_is_printed_in_one_piece(capsys: pytest.CaptureFixture[str]) -> None:
    """A path longer than any line can be copied as it stands."""
    path = "/folder" * 20

    print_facts(make_console(), [("Kept in", path)])

    assert capsys.readouterr().out == f"Kept in    {path}\n"
