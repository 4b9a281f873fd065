"""A small job for the tests of the command, and what its journal says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway_sdk.sandbox import Sandbox
from tests.bulk.journal.journals import rows
from tests.cli.ended import Ended

Call = Callable[..., Ended]

SERIES = 6
"""Two currencies, over three parts of October."""

OCTOBER = ("--start", "2026-10-01", "--end", "2026-10-30", "--split", "10d")
JOB = ("bulk", "rates", "--base", "EUR", "--symbols", "USD,GBP", *OCTOBER)
ALL = ("bulk", "rates", "--base", "EUR", "--symbols", "all", "--start", "2026-10-30")
ONE_BY_ONE = ("--concurrency", "1")
SERIES_OF = "exchange_rate_series"


def lines(out: Path) -> list[dict[str, Any]]:
    """Read the rows of the journal, in the order in which series ended."""
    return rows(journal_of(out))


def journal_of(out: Path) -> Path:
    return out.with_name(f"{out.name}.db")


def states(out: Path) -> list[str]:
    """Give what became of each series, in the order of the journal."""
    return [line["state"] for line in lines(out)]


def keys(out: Path) -> set[str]:
    """Give what tells the series of the journal apart."""
    return {line["key"] for line in lines(out)}


def asked(served: Sandbox) -> int:
    """Count the series that the gateway was asked for so far."""
    return [call.operation for call in served.received].count(SERIES_OF)
