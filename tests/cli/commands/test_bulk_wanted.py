from collections.abc import Sequence
from datetime import date

from gateway_sdk.cli.commands.bulk import Wanted


def asked(bases: Sequence[str], symbols: Sequence[str], days: int | None) -> list[tuple[str, ...]]:
    """Give what a run over the first ten days of January asks for."""
    wanted = Wanted(bases, symbols, date(2026, 1, 1), date(2026, 1, 10), days)
    size, queries = wanted.queries(symbols)
    made: list[tuple[str, ...]] = [
        (query.base, query.symbols, query.start_date, query.end_date) for query in queries
    ]
    assert size == len(made)
    return made


def test_a_series_without_split_is_one_request() -> None:
    """One of each pair, over all days; no currency is asked for in itself."""
    days = ("2026-01-01", "2026-01-10")

    assert asked(["EUR", "USD"], ["USD", "GBP"], None) == [
        ("EUR", "USD", *days),
        ("EUR", "GBP", *days),
        ("USD", "GBP", *days),
    ]


def test_days_are_cut_into_consecutive_parts() -> None:
    """Those of one currency come before those of the next, and the last part may be shorter."""
    parts = [("2026-01-01", "2026-01-07"), ("2026-01-08", "2026-01-10")]

    assert asked(["EUR"], ["USD", "GBP"], 7) == [
        ("EUR", symbol, *part) for symbol in ("USD", "GBP") for part in parts
    ]
