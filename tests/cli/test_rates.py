"""The command `gateway bulk rates`: what it writes, what ends a run, and how it goes on."""

import asyncio
import errno
import re
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import httpx
import pytest
from starlette.responses import Response

from gateway_sdk.bulk import BulkResult, Outage, Progress, _journal
from gateway_sdk.cli import rates
from gateway_sdk.cli.process import CommandError
from gateway_sdk.cli.rates import Run
from gateway_sdk.errors import (
    ConnectionFailedError,
    DeadlineExceededError,
    ForbiddenError,
    GatewayError,
    NotFoundError,
    OutageError,
    RateLimitedError,
    ServerError,
    UnexpectedReplyError,
)
from gateway_sdk.models import ExchangeRateSeriesRequest
from gateway_sdk.outcome import Advice, Outcome
from gateway_sdk.sandbox import Fault, Sandbox
from gateway_sdk.sandbox._faults import FaultyCall
from gateway_sdk.session import GatewaySession
from tests.bulk.journal.test_locks import LOCKED, READER, Clock, connection
from tests.bulk.runs import room_for, rows
from tests.cli.support import Call, StartInTerminal, Terminal, interrupt
from tests.cli.test_demo import SHOWN

SERIES = 6
"""Two currencies, over three parts of October."""

OCTOBER = ("--start", "2026-10-01", "--end", "2026-10-30", "--split", "10d")
JOB = ("bulk", "rates", "--base", "EUR", "--symbols", "USD,GBP", *OCTOBER)
ALL = ("bulk", "rates", "--base", "EUR", "--symbols", "all", "--start", "2026-10-30")
ONE_BY_ONE = ("--concurrency", "1")
SERIES_OF = "exchange_rate_series"
THREE = 3


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "rates.csv"


def lines(out: Path) -> list[dict[str, Any]]:
    """Read the rows of the journal, in the order in which series ended."""
    return rows(journal_of(out))


def journal_of(out: Path) -> Path:
    return out.with_name(f"{out.name}.db")


def states(out: Path) -> list[str]:
    return [line["state"] for line in lines(out)]


def asked(served: Sandbox) -> int:
    return [call.operation for call in served.received].count(SERIES_OF)


def test_all_are_the_currencies_of_all_countries(
    call_gateway: Call, served: Sandbox, out: Path
) -> None:
    """Those without rates are named, and asked for once: not for other days, nor in a later run."""
    job = (*ALL[:-2], *OCTOBER, "--out", out, *ONE_BY_ONE)
    first = call_gateway(*job)
    calls = asked(served)
    again = call_gateway(*job)

    known = SHOWN + 1  # the ruble is known, without rates in this range
    failed = sorted({line["item"]["symbols"] for line in lines(out) if line["state"] == "failed"})
    assert served.received[0].operation == "list_countries"
    assert "AED" in failed
    assert not {"USD", "EUR"} & {*failed}
    assert (first.status, again.status) == (0, 0)
    assert calls <= 151 + 2 * known + 1
    assert first.err.splitlines()[:2] == [
        f"{3 * known} of {3 * known} series, {3 * known} of them new",
        f"Left out, because the gateway has no rates of them: {' '.join(failed)}",
    ]
    assert f"{3 * known} series, 0 of them new\n" in again.err
    assert asked(served) == calls


def test_failures_are_counted_by_kind_and_fetched_again_on_request(
    call_gateway: Call, served: Sandbox, out: Path
) -> None:
    served.faults.on(SERIES_OF, Fault.status(422), at=1)
    is_bad = True

    async def apply(call: FaultyCall) -> None:
        received = await call.receive()
        bad = is_bad and b"USD" in received["body"] and b"2026-10-21" in received["body"]

        async def receive() -> Any:
            return received

        await (Fault.status(500).apply(call) if bad else call._replace(receive=receive).proceed())

    served.faults.on(SERIES_OF, Fault("a bad series", apply))

    failed = call_gateway(*JOB, "--out", out, *ONE_BY_ONE)
    left = call_gateway(*JOB, "--out", out)
    after, is_bad = asked(served), False
    again = call_gateway(*JOB, "--out", out, "--retry-failed")

    assert failed.status == 4
    first, _, *complaint = failed.err.splitlines()
    assert first == "4 of 6 series, 4 of them new"
    assert complaint == [
        "gateway: 2 of 6 series failed",
        "  1 InvalidRequestError 422, such as USD for EUR: “a fault on request”",
        "  1 ServerError 500, such as USD for EUR: “a fault on request”",
        rates.AGAIN,
    ]
    assert left.status == 4
    without_words = failed.err.replace(": “a fault on request”", "")
    assert left.err == without_words.replace("4 of them new", "0 of them new")
    assert again.status == 3
    assert again.err.startswith("5 of 6 series, 1 of them new\n")
    assert asked(served) == after + 1


def test_digits_that_no_float_holds_are_kept(
    call_gateway: Call, served: Sandbox, out: Path
) -> None:
    number = "1.12345678901234567890"
    body = f'{{"rates": {{"2026-10-30": {{"USD": {number}}}}}}}'

    async def apply(call: FaultyCall) -> None:
        await call.reply(Response(body, media_type="application/json"))

    served.faults.on(SERIES_OF, Fault("many digits", apply))

    for _ in range(2):
        assert call_gateway(*JOB, "--out", out).status == 0
        assert out.read_bytes().count(f",{number}\r\n".encode()) == 1  # of both queries
    assert asked(served) == SERIES


def test_deadline_ends_a_run_that_goes_on_later(
    call_gateway: Call, served: Sandbox, out: Path
) -> None:
    """What was cut off or not begun is not in the file: the same command fetches it."""
    late = threading.Event()

    async def wait(call: FaultyCall) -> None:
        await (call.proceed() if late.is_set() else Fault.latency(3600).apply(call))

    served.faults.on(SERIES_OF, Fault("an hour", wait), at=3)

    ended = call_gateway(*JOB, "--out", out, *ONE_BY_ONE, "--deadline", "1")
    late.set()  # on a slow machine, the third call is one of the next run
    missing = SERIES - len(lines(out))
    again = call_gateway(*JOB, "--out", out)

    assert (ended.status, missing >= SERIES - 2) == (4, True)
    assert ended.err.splitlines()[1:] == [
        f"gateway: the deadline of 1 s passed: {missing} series are missing",
        rates.AGAIN,
    ]
    assert again.status == 0
    assert states(out) == ["done"] * SERIES


@pytest.mark.parametrize(
    ("operation", "job", "series"), [("list_countries", ALL, "all"), (SERIES_OF, JOB, "6")]
)
def test_interruption_says_how_to_go_on(
    call_gateway: Call,
    served: Sandbox,
    out: Path,
    operation: str,
    job: tuple[str, ...],
    series: str,
) -> None:
    out.write_text("before\n", encoding="utf-8")

    ended = interrupt(call_gateway, served, operation, *job, "--out", str(out), *ONE_BY_ONE)

    assert (ended.status, ended.out) == (130, "")
    assert ended.err.startswith("\ngateway: stopped by Ctrl-C\n")
    there = f"at least 0 of {series} series, 0 failed\nThe same command continues.\n"
    assert there in ended.err
    assert out.read_text(encoding="utf-8") == "before\n"
    assert {path.name for path in out.parent.iterdir()} == {out.name, journal_of(out).name}
    assert not lines(out)


@pytest.fixture
def stuck(start_in_terminal: StartInTerminal, served: Sandbox, out: Path) -> Terminal:
    """Provide a run that has three series and waits an hour for the fourth, which has arrived."""
    arrived = threading.Event()

    async def wait(call: FaultyCall) -> None:
        arrived.set()
        await Fault.latency(3600).apply(call)

    served.faults.on(SERIES_OF, Fault("an hour", wait), at=THREE + 1)
    terminal = start_in_terminal(*JOB, "--out", out, *ONE_BY_ONE)
    terminal.read_until(f"{THREE}/{SERIES}")
    assert arrived.wait(60)
    return terminal


def test_interrupted_run_goes_on(
    stuck: Terminal, call_gateway: Call, served: Sandbox, out: Path
) -> None:
    """Ctrl-C takes the bar away, says how to go on, and what was fetched is not fetched again."""
    stuck.interrupt()
    status, shown = stuck.end()
    kept = states(out)
    before = asked(served)
    again = call_gateway(*JOB, "--out", out)

    assert status == 130
    assert shown.splitlines()[-3:] == [
        "gateway: stopped by Ctrl-C",
        f"{journal_of(out)}: at least 3 of 6 series, 0 failed",
        "The same command continues.",
    ]
    assert kept == ["done"] * THREE
    assert again.err.startswith("6 of 6 series, 3 of them new\n")
    assert asked(served) - before == SERIES - THREE


def test_bar_fits_and_goes_away(start_in_terminal: StartInTerminal, out: Path) -> None:
    status, shown = start_in_terminal(*JOB, "--out", out, "--sandbox", NO_COLOR="1").end()

    plain = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", shown)
    assert status == 0
    assert f"{SERIES}/{SERIES}" in plain
    assert max(map(len, re.split(r"[\r\n]+", plain.rpartition("6 of 6")[0]))) <= 80
    assert shown.rstrip().endswith(f"{out}: 44 rows")
    assert not re.search(r"\x1b\[[0-9;]*(?<!\d)[34]\d", shown), "colours in spite of NO_COLOR"


@pytest.mark.posix
def test_full_disk_ends_a_run_that_goes_on_with_more_room(
    call_gateway: Call, served: Sandbox, out: Path
) -> None:
    """What stands in the file is whole; the status is that of output that cannot be written."""
    job, series = (*JOB[:-1], "1d"), 60
    with room_for(100_000):
        ended = call_gateway(*job, "--out", out, *ONE_BY_ONE)
    kept = len(lines(out))
    before = asked(served)
    again = call_gateway(*job, "--out", out)

    assert (ended.status, len(ended.err.splitlines())) == (1, 1)
    assert "cannot be written" in ended.err
    assert "its rows are kept: run the same again" in ended.err
    assert 0 < kept < series
    assert again.err.startswith(f"60 of 60 series, {series - kept} of them new\n")
    assert asked(served) - before == series - kept


def test_file_that_cannot_be_written_costs_no_series(
    call_gateway: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal is complete: the status is not that of a command that sent nothing."""
    out, kept = tmp_path / "rates.csv", tmp_path / "kept.db"

    def fail(descriptor: int) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("gateway_sdk.bulk._export.os.fsync", fail)
        ended = call_gateway(*JOB, "--out", out, "--journal", kept, "--sandbox")
    again = call_gateway(*JOB, "--out", out, "--journal", kept, "--sandbox")

    assert ended.status == 1
    assert f"cannot write {out}: No space left on device" in ended.err
    assert again.err.startswith("6 of 6 series, 0 of them new\n")


def test_locked_journal_is_waited_for_with_a_word(
    call_gateway: Call,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    out: Path,
) -> None:
    assert call_gateway(*JOB, "--out", out, "--sandbox").status == 0
    monkeypatch.setattr(_journal, "_IN_SQLITE", 0)

    with connection(journal_of(out), READER) as Clock(monkeypatch).releases[1]:
        assert call_gateway(*JOB, "--out", out, "--sandbox").status == 0

    assert caplog.messages == [f"the journal {journal_of(out)} {LOCKED}: the run waits"]


REFUSED, LOST = Outcome.REFUSED, Outcome.UNKNOWN


def failure(kind: type[GatewayError], outcome: Outcome, status: int | None = None) -> GatewayError:
    error = kind.__new__(kind)
    error.__dict__.update(outcome=outcome, status=status)
    return error


FORBIDDEN, MISSING = failure(ForbiddenError, REFUSED, 403), failure(NotFoundError, REFUSED, 404)
LIMITED = failure(RateLimitedError, REFUSED, 429)
LIMITED.advice = Advice.REPEAT


@pytest.mark.parametrize(
    ("failures", "status", "advice"),
    [
        ([MISSING], 3, [rates.REFUSED]),
        ([MISSING, FORBIDDEN], 3, [rates.REFUSED]),
        ([FORBIDDEN], 3, ["The access token does not allow this: use another one.", rates.AGAIN]),
        ([LIMITED], 4, [rates.AGAIN]),
        ([MISSING, LIMITED], 4, [rates.AGAIN]),
        ([failure(UnexpectedReplyError, LOST, 200)], 4, [rates.AGAIN]),
    ],
)
def test_the_status_and_the_advice_are_those_of_the_failures(
    failures: list[GatewayError], status: int, advice: list[str]
) -> None:
    with pytest.raises(CommandError) as caught:
        counted(len(failures), *map(result, failures)).check()

    assert caught.value.status == status
    kinds = len({*map(type, failures)})
    assert str(caught.value).splitlines()[1 + kinds :] == advice


def test_the_file_has_what_the_command_asked_for(
    call_gateway: Call, served: Sandbox, out: Path
) -> None:
    """Not what the journal has of earlier commands, such as a reply of another shape."""

    async def apply(call: FaultyCall) -> None:
        await call.reply(Response("[]", media_type="application/json"))

    served.faults.on(SERIES_OF, Fault("another shape", apply), at=1)
    of_usd = call_gateway(*JOB[:5], "USD", *OCTOBER, "--out", out, *ONE_BY_ONE)
    of_gbp = call_gateway(*JOB[:5], "GBP", *OCTOBER, "--out", out)

    found = [line.split(",") for line in out.read_text(encoding="utf-8").splitlines()[1:]]
    assert (of_usd.status, of_gbp.status) == (4, 0)
    assert {symbol for _, symbol, *_ in found} == {"GBP"}
    assert of_gbp.err.endswith(f"{out}: {len(found)} rows\n")


def result(
    error: Exception | None = None, *, from_journal: bool = False, symbols: str = "USD"
) -> BulkResult[ExchangeRateSeriesRequest, Any]:
    item = ExchangeRateSeriesRequest(base="EUR", symbols=symbols, start_date="", end_date="")
    given: Any = {name: getattr(error, name, None) for name in ("outcome", "advice")}
    given |= {"item": item, "error": error, "from_journal": from_journal}
    return BulkResult(**given, elapsed=0, _value=None)


def counted(
    total: int, *results: BulkResult[ExchangeRateSeriesRequest, Any], deadline: float | None = None
) -> Run:
    day = date(2026, 1, 1)
    count = Run(["EUR"], ["USD"], (day, day), deadline=deadline)
    count.total = total
    for found in results:
        count.add(found)
    return count


def test_deadline_and_failures_are_told_apart() -> None:
    """What the deadline left out is in no file: each has its own line, and its own way out."""
    late, refused = failure(DeadlineExceededError, LOST), failure(NotFoundError, REFUSED, 404)
    found = result(), result(late), result(refused), result(late, from_journal=True)
    count = counted(9, *found, deadline=5)

    with pytest.raises(CommandError) as caught:
        count.check()

    assert caught.value.status == 4
    assert (count.there, len(count.failures)) == (1, 2)
    assert str(caught.value).splitlines() == [
        "the deadline of 5 s passed: 6 series are missing",
        "2 of 9 series failed",
        "  1 NotFoundError 404, such as USD for EUR",
        "  1 DeadlineExceededError, such as USD for EUR",
        rates.AGAIN,
    ]


async def test_what_a_run_waits_for_is_told_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a line when it begins."""
    since = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    outage = Outage(ConnectionFailedError("no connection"), since)
    shown: list[tuple[object, ...]] = []

    async def results(
        _: object, *, on_progress: Callable[[Progress], None], **_options: object
    ) -> AsyncIterator[Any]:
        for found in (outage, outage, None, None):
            on_progress(Progress(0, 0, 0, None, found))
        yield result(failure(ServerError, LOST, 500))

    monkeypatch.setattr(rates, "counting_bar", lambda _: nullcontext(lambda *it: shown.append(it)))
    currency = SimpleNamespace(exchange_rate_series_bulk=results)
    await counted(1).fetch(cast("GatewaySession", SimpleNamespace(currency=currency)))

    told = capsys.readouterr().err
    assert told.startswith("Since 03:04:05 UTC: no connection\n")
    assert told.count("Since") == 1
    assert shown == [(0, 1), (1, 1, "1 failed")]


def test_the_list_of_countries_is_waited_for(
    call_gateway: Call, served: Sandbox, out: Path
) -> None:
    """As a series is: the gateway comes back within the patience of the run."""
    served.faults.on("list_countries", Fault.drop_before_read(), times=5)

    ended = call_gateway(*ALL, "--out", out)

    assert ended.status == 0
    assert ended.err.startswith("Since ")
    assert len(out.read_text(encoding="utf-8").splitlines()) == 30
    assert [it.operation for it in served.received][:7].count("list_countries") == 6


async def test_a_list_of_countries_that_is_late_is_no_deadline_of_the_run() -> None:
    async def wait(_: object) -> httpx.Response:
        return await asyncio.Future()

    transport = httpx.MockTransport(wait)
    run = Run(["EUR"], None, (date(2026, 1, 1), date(2026, 1, 2)), deadline=60.0)
    async with GatewaySession(
        "http://localhost", access_token="t", transport=transport, deadline=0.01
    ) as gateway:
        with pytest.raises(OutageError, match="list_countries"):
            await run.fetch(gateway)
