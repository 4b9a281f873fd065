"""Where the commands write."""

import io
import sys
from typing import Final

from rich.console import Console

FEWEST_COLUMNS: Final = 66
"""In a terminal narrower than this, lines wrap; to cut figures short would be worse."""

MOST_COLUMNS: Final = 110
"""Wider than this, the eye loses its line."""


def make_console(*, most_columns: int | None = MOST_COLUMNS, stderr: bool = False) -> Console:
    """Make a console for plain text and styles; what it prints is never taken for markup.

    Args:
        most_columns: How wide it is at most; None for as wide as the terminal.
        stderr: Whether it writes to standard error.
    """
    console = Console(markup=False, emoji=False, highlight=False, stderr=stderr)
    console.width = max(FEWEST_COLUMNS, min(console.width, most_columns or console.width))
    return console


def tolerate_any_encoding() -> None:
    """Let what an encoding lacks, such as a curve's blocks in Latin-1, come out as "?"."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
