"""How a command came out."""

from typing import NamedTuple


class Ended(NamedTuple):
    """The exit status, what was written to standard output, and to standard error."""

    status: int
    out: str
    err: str
