"""Tables in Markdown, and what a command says at its end."""

from collections.abc import Iterable


def head(columns: Iterable[object]) -> str:
    """Return the head of a table."""
    names = list(columns)
    return f"{row(names)}\n|{'---|' * len(names)}"


def row(cells: Iterable[object]) -> str:
    """Return one row of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def told(problems: list[str]) -> int:
    """Print what was not as it should be; return how much that is."""
    for problem in problems:
        print(f"missed: {problem}")
    return len(problems)
