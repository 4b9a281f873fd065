"""What the options of bulk commands may be. Pure."""

import math
import re
from collections.abc import Sequence
from typing import Final, Literal

import typer

from gateway_sdk.cli.input.currencies import split_codes

ALL: Final = "all"
"""In small letters: ALL is the code of Albania's money."""

_SPAN: Final = re.compile(r"(\d{1,5})([dw])")
_DAYS: Final = {"d": 1, "w": 7}
_CALLS: Final = re.compile(r"[1-9]\d{0,3}")


def parse_span(text: str) -> int:
    """Read a number of days, for an option.

    Raises:
        typer.BadParameter: it is none; the message shows how one is written.
    """
    span = _SPAN.fullmatch(text.strip().lower())
    days = int(span[1]) * _DAYS[span[2]] if span else 0
    if not days:
        raise typer.BadParameter(f"{text!r} is no number of days: write such as 30d or 6w")
    return days


def parse_seconds(text: str) -> float:
    """Read a number of seconds, for an option.

    Raises:
        typer.BadParameter: it is none, or not more than 0.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise typer.BadParameter(f"{text!r} is no time: write seconds, such as 600")
    return seconds


def parse_concurrency(text: str) -> int | Literal["adaptive"]:
    """Read how many calls may be under way at once.

    Raises:
        typer.BadParameter: it is neither a number of them nor the word.
    """
    if text == "adaptive":
        return "adaptive"
    if not _CALLS.fullmatch(text):
        raise typer.BadParameter(
            f"{text!r} is no number of calls: write 1 to 9999, or adaptive",
            param_hint="--concurrency",
        )
    return int(text)


def parse_symbols(text: str) -> Sequence[str] | None:
    """Take codes apart; None for those of all countries.

    Raises:
        typer.BadParameter: there are none, or the word for all stands beside others.
    """
    codes = split_codes([text])
    if codes == [ALL]:
        return None
    if ALL in codes:
        raise typer.BadParameter(f"{ALL!r} stands alone", param_hint="--symbols")
    return codes
