import io
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.progress import Progress as Bar

from gateway_sdk.bulk import BulkResult, Outage, Progress
from gateway_sdk.cli.commands import rates
from gateway_sdk.cli.commands.rates import Run
from gateway_sdk.cli.output import Notes, progress
from gateway_sdk.errors import (
    ConnectionFailedError,
    DeadlineExceededError,
    GatewayError,
    NotFoundError,
    RateLimitedError,
    ServerError,
)
from gateway_sdk.models import ExchangeRateSeriesRequest
from gateway_sdk.outcome import Outcome
from gateway_sdk.session import GatewaySession

REFUSED, LOST = Outcome.REFUSED, Outcome.UNKNOWN


def failure(kind: type[GatewayError], outcome: Outcome, status: int | None = None) -> GatewayError:
    error = kind.__new__(kind)
    error.__dict__.update(outcome=outcome, status=status)
    return error


def result(
    error: Exception | None = None, *, from_journal: bool = False, symbols: str = "USD"
) -> BulkResult[ExchangeRateSeriesRequest, Any]:
    item = ExchangeRateSeriesRequest(base="EUR", symbols=symbols, start_date="", end_date="")
    return BulkResult(item=item, error=error, elapsed=0, from_journal=from_journal, _value=None)


def counted(
    total: int, *results: BulkResult[ExchangeRateSeriesRequest, Any], deadline: float | None = None
) -> Run:
    day = date(2026, 1, 1)
    count = Run(["EUR"], ["USD"], (day, day), deadline=deadline)
    count.total = total
    for found in results:
        count.add(found)
    return count


@pytest.mark.parametrize(
    ("errors", "status"),
    [
        ([failure(NotFoundError, REFUSED, 404)], 3),
        ([failure(NotFoundError, REFUSED, 404), failure(RateLimitedError, REFUSED, 429)], 3),
        ([failure(NotFoundError, REFUSED, 404), failure(ServerError, LOST, 500)], 4),
        ([failure(ServerError, LOST, 500), failure(NotFoundError, REFUSED, 404)], 4),
        ([failure(DeadlineExceededError, LOST)], 4),
        ([ValueError("of another package")], 4),
    ],
)
def test_status_is_3_only_if_the_gateway_refused_all(errors: list[Exception], status: int) -> None:
    """Otherwise another run may bring what is missing."""
    complaint = counted(9, *(result() for _ in range(9 - len(errors))), *map(result, errors))

    found = complaint.complaint()

    assert found is not None
    assert found.status == status
    assert f"{len(errors)} of 9 series failed\n" in f"{found}\n"


def test_most_frequent_failures_come_first_with_an_example() -> None:
    """What would steer a terminal is escaped."""
    kinds = [(500 + number, 10 - number) for number in range(7)]
    errors = [failure(ServerError, LOST, status) for status, times in kinds for _ in range(times)]
    found = counted(49, *(result(error, symbols="A\x1b") for error in errors)).complaint()

    assert str(found).splitlines()[:-1] == [
        "49 of 49 series failed",
        *(f"  {times} ServerError {status}, such as A\\x1b for EUR" for status, times in kinds),
    ]


def test_deadline_and_failures_are_told_apart() -> None:
    """What the deadline left out is in no file: each has its own line, and its own way out."""
    late, refused = failure(DeadlineExceededError, LOST), failure(NotFoundError, REFUSED, 404)
    count = counted(
        9, result(), result(late), result(refused), result(late, from_journal=True), deadline=5
    )

    complaint = count.complaint()

    assert complaint is not None
    assert complaint.status == 4
    assert (count.there, count.failed) == (1, 2)
    assert str(complaint).splitlines() == [
        "the deadline of 5 s passed: 6 series are missing",
        "2 of 9 series failed",
        "  1 NotFoundError 404, such as USD for EUR",
        "  1 DeadlineExceededError, such as USD for EUR",
        "The same command fetches what is missing, and with --retry-failed what failed.",
    ]


async def asked(
    bases: Sequence[str], symbols: Sequence[str], days: int | None
) -> list[tuple[str, ...]]:
    """Give what a run over the first ten days of January asks for."""
    run = Run(bases, symbols, (date(2026, 1, 1), date(2026, 1, 10)), days)
    gateway: Any = None
    queries = [query async for query in run._queries(gateway, lambda: None)]
    assert run.total == len(queries)
    return [(query.base, query.symbols, query.start_date, query.end_date) for query in queries]


@pytest.mark.parametrize(
    ("bases", "symbols", "days", "pairs", "parts"),
    [
        # No currency is asked for in itself.
        ("EUR USD", "USD GBP", None, "EUR-USD EUR-GBP USD-GBP", ["01-01/01-10"]),
        ("EUR", "USD GBP", 7, "EUR-USD EUR-GBP", ["01-01/01-07", "01-08/01-10"]),
    ],
)
async def test_each_pair_and_each_part_is_a_request(
    bases: str, symbols: str, days: int | None, pairs: str, parts: list[str]
) -> None:
    """The last part may be shorter."""
    ends = [tuple(f"2026-{day}" for day in part.split("/")) for part in parts]

    assert await asked(bases.split(), symbols.split(), days) == [
        (*pair.split("-"), *end) for end in ends for pair in pairs.split()
    ]


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (0, "· 1 failed"),
        (1, "· 1 failed · 0.12/s · 48 s left"),
        (160, "· 1 failed · 20/s · 0 s left"),
        (9876, "· 1 failed · 1200/s · 0 s left"),
    ],
)
def test_pace_is_that_of_what_is_new(new: int, words: str) -> None:
    """What earlier runs fetched is done, but makes the gateway no faster."""
    times = iter([100.0, *[108.0] * 9])  # the bar begins; then it is drawn, 8 seconds later
    bar = Bar(get_time=lambda: next(times))
    bar.add_task("", total=10, completed=4, new=new, notes=["1 failed"])

    assert str(Notes().render(bar.tasks[0])) == words


@pytest.mark.parametrize("stderr", [io.StringIO(), None])
def test_nothing_is_drawn_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO | None
) -> None:
    """Neither in a pipe, nor where there is no standard error at all."""
    monkeypatch.setattr(sys, "stderr", stderr)

    with progress("") as show:
        show(1, 2)

    assert stderr is None or not stderr.getvalue()


async def test_what_a_run_waits_for_is_told_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a line when it begins, and in the bar until the run goes on."""
    outage = Outage(
        ConnectionFailedError("no connection"), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    )
    shown: list[tuple[object, ...]] = []

    async def results(_: object, *, on_progress: Callable[[Progress], None]) -> AsyncIterator[Any]:
        for found in (outage, outage, None, None):
            on_progress(Progress(0, 0, 0, None, found))
        yield result(failure(ServerError, LOST, 500))

    monkeypatch.setattr(rates, "counting_bar", lambda _: nullcontext(lambda *it: shown.append(it)))
    currency = SimpleNamespace(exchange_rate_series_bulk=results)
    await counted(1).fetch(cast("GatewaySession", SimpleNamespace(currency=currency)))

    assert capsys.readouterr().err.startswith("Since 03:04:05 UTC: no connection\n")
    assert shown == [
        (0, 1, 0, "waiting since 03:04:05 UTC"),
        (0, 1, 0),
        (1, 1, 1, "1 failed"),
    ]
