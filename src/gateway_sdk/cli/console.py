"""Where the commands write."""

import io
import sys
from typing import Final

from rich.console import Console

FEWEST_COLUMNS: Final = 66
"""In a terminal narrower than this, lines wrap; to cut figures short would be worse."""

MOST_COLUMNS: Final = 110
"""Wider than this, the eye loses its line."""


def make_console() -> Console:
    """Make a console for plain text and styles; what it prints is never taken for markup."""
    console = Console(markup=False, emoji=False, highlight=False)
    console.width = max(FEWEST_COLUMNS, min(console.width, MOST_COLUMNS))
    return console


def tolerate_any_encoding() -> None:
    """Let what an encoding lacks, such as a curve's blocks in Latin-1, come out as "?"."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
