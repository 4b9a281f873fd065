from gateway_sdk.cli.facts import fact_lines


def test_long_facts_are_indented_under_themselves() -> None:
    """What does not fit into a line goes on below where it began, and words stay whole."""
    facts = [("Failed", "AED AFN ALL"), ("", "/a/path/longer-than-that"), ("Took", "1 s")]

    assert fact_lines(facts, 19).plain.splitlines() == [
        "Failed     AED AFN",
        "           ALL",
        "           /a/path/longer-than-that",
        "Took       1 s",
    ]
