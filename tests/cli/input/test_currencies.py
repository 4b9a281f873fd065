import pytest
import typer

from gateway_sdk.cli.input.currencies import split_codes


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (["USD"], ["USD"]),
        (["USD,GBP"], ["USD", "GBP"]),
        (["USD", "GBP,JPY", "USD"], ["USD", "GBP", "JPY"]),
        (["USD, GBP ,"], ["USD", "GBP"]),
        (["usd"], ["usd"]),
    ],
)
def test_codes_are_split_and_taken_once(words: list[str], codes: list[str]) -> None:
    """Commas and spaces part them; they stay as they are written, in their order."""
    assert split_codes(words) == codes


@pytest.mark.parametrize("words", [[], [""], [" , "]])
def test_no_code_is_refused(words: list[str]) -> None:
    """The message shows how they are written."""
    with pytest.raises(typer.BadParameter, match="USD,GBP"):
        split_codes(words)
