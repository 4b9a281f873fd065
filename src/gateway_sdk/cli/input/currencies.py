"""Lists of currencies as people type them. Pure."""

from collections.abc import Iterable

import typer


def split_codes(words: Iterable[str]) -> list[str]:
    """Take codes apart that stand in one word or several, with commas or without.

    They are not looked at any further: the interface gives no format for them.

    Returns:
        The codes in their order, each once.

    Raises:
        typer.BadParameter: there are none.
    """
    codes = [code for word in words for code in word.replace(",", " ").split()]
    if not codes:
        raise typer.BadParameter("no currency is named: write such as USD,GBP")
    return list(dict.fromkeys(codes))
