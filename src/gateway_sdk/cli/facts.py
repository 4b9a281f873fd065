"""Facts in lines: a name in bold, and what is to be said about it, indented under itself."""

from collections.abc import Iterable
from textwrap import wrap

from rich.console import Console
from rich.text import Text

NAME_COLUMNS = 11

Fact = tuple[str, str]


def print_facts(console: Console, facts: Iterable[Fact]) -> None:
    """Print facts as wide as the console is, but for long words such as paths."""
    # soft_wrap: the lines are set already, and what is too long has to stay in one piece.
    console.print(fact_lines(facts, console.width), soft_wrap=True)


def fact_lines(facts: Iterable[Fact], width: int) -> Text:
    """Set facts in lines of *width* columns at most; a word that is longer stays whole."""
    return Text("\n").join(line for name, value in facts for line in _lines(name, value, width))


def _lines(name: str, value: str, width: int) -> list[Text]:
    texts = wrap(value, width - NAME_COLUMNS, break_long_words=False, break_on_hyphens=False)
    names = [name] + [""] * (len(texts) - 1)
    return [
        Text.assemble((f"{name:<{NAME_COLUMNS}}", "bold"), text)
        for name, text in zip(names, texts or [""], strict=True)
    ]
