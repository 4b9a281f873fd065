import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from starlette.responses import Response

from gateway_sdk.bulk._journal.line import JournalLine
from gateway_sdk.sandbox import Fault, Sandbox
from gateway_sdk.sandbox._faults import FaultyCall
from tests.cli.commands.journeys import (
    ALL,
    JOB,
    OCTOBER,
    ONE_BY_ONE,
    SERIES,
    SERIES_OF,
    Call,
    asked,
    keys,
    lines,
    states,
)

USD = {"2026-10-26": 1.1188, "2026-10-30": 1.1172}


def test_series_go_into_the_file(call_gateway: Call, out: Path) -> None:
    """Numbers are numbers there; standard output has nothing, standard error one line."""
    ended = call_gateway(*JOB, "--out", out, "--sandbox")

    assert (ended.status, ended.out, ended.err) == (0, "", f"{out}: 6 of 6 series, 6 of them new\n")
    assert states(out) == ["done"] * SERIES
    last = {"base": "EUR", "symbols": "USD", "startDate": "2026-10-21", "endDate": "2026-10-30"}
    rates = next(line["value"]["rates"] for line in lines(out) if line["item"] == last)
    assert {day: rates[day]["USD"] for day in USD} == USD


def test_same_command_fetches_nothing_twice(call_gateway: Call, served: Sandbox, out: Path) -> None:
    """What is in the file counts as done, and is told apart."""
    assert call_gateway(*JOB, "--out", out).status == 0
    assert asked(served) == SERIES

    ended = call_gateway(*JOB, "--out", out)

    assert (ended.status, ended.err) == (0, f"{out}: 6 of 6 series, 0 of them new\n")
    assert asked(served) == SERIES


def test_more_of_the_same_gateway_may_go_into_the_file(
    call_gateway: Call, served: Sandbox, out: Path
) -> None:
    """Only what is new is fetched, and only what is asked for is counted."""
    assert call_gateway(*JOB, "--out", out).status == 0

    ended = call_gateway(
        "bulk", "rates", "--base", "EUR,GBP", "--symbols", "USD", *OCTOBER, "--out", out
    )

    assert ended.err == f"{out}: 6 of 6 series, 3 of them new\n"
    assert asked(served) == SERIES + 3
    assert len(keys(out)) == SERIES + 3


def test_rows_are_the_same_from_the_gateway_and_from_the_file(
    call_gateway: Call, tmp_path: Path, out: Path
) -> None:
    """They stand in the order of currencies and days, whichever call ended first."""
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"

    fresh = call_gateway(*JOB, "--out", out, "--rows", first, "--concurrency", "6", "--sandbox")
    again = call_gateway(*JOB, "--out", out, "--rows", second, "--sandbox")

    header, *rows = csv.reader(io.StringIO(first.read_bytes().decode(), newline=""))
    assert header == ["base", "symbol", "date", "rate"]
    assert rows == sorted(rows, key=lambda row: (row[1] == "GBP", row[2]))
    assert ["EUR", "USD", "2026-10-30", "1.1172"] in rows
    assert fresh.err == (f"{out}: 6 of 6 series, 6 of them new\nRates in {first}: {len(rows)}\n")
    assert again.status == 0
    assert first.read_bytes() == second.read_bytes()


def test_rates_are_counted(call_gateway: Call, tmp_path: Path, out: Path) -> None:
    """The line is English, also for a single one."""
    rows = tmp_path / "rates.csv"
    day = ("--start", "2026-10-30", "--end", "2026-10-30")
    job = ("bulk", "rates", "--base", "EUR", "--symbols", "USD", *day, "--sandbox")

    assert call_gateway(*job, "--out", out, "--rows", rows).err.endswith(f"Rates in {rows}: 1\n")
    assert rows.read_bytes() == b"base,symbol,date,rate\r\nEUR,USD,2026-10-30,1.1172\r\n"


def test_failed_series_have_no_rows(
    call_gateway: Call, served: Sandbox, tmp_path: Path, out: Path
) -> None:
    """The rows of the others are written all the same."""
    rows = tmp_path / "rates.csv"
    served.faults.on(SERIES_OF, Fault.status(404), at=1, times=3)

    ended = call_gateway(*JOB, "--out", out, "--rows", rows, *ONE_BY_ONE)

    written = rows.read_text(encoding="utf-8").splitlines()
    assert ended.status == 3
    assert {line.split(",")[1] for line in written[1:]} == {"GBP"}


def test_replies_of_another_shape_are_told_and_have_no_rows(
    call_gateway: Call, tmp_path: Path, out: Path
) -> None:
    """They stay in the file as they came, for the interface leaves them open."""
    rows = tmp_path / "rates.csv"
    assert call_gateway(*JOB, "--out", out, "--sandbox").status == 0
    found = [JournalLine.decode(line) for line in out.read_bytes().splitlines()]
    changed = [replace(line, value={"series": [1.5]}) for line in found[:2]] + found[2:]
    out.write_bytes(b"".join(line.encode() for line in changed))

    ended = call_gateway(*JOB, "--out", out, "--rows", rows, "--sandbox")

    assert ended.status == 0
    assert ended.err.endswith("another shape than days with rates, left out: 2\n")
    rates = sum(len(line.value["rates"]) for line in found[2:])
    assert len(rows.read_text(encoding="utf-8").splitlines()) == 1 + rates


def test_all_are_the_currencies_of_all_countries(
    call_gateway: Call, served: Sandbox, out: Path
) -> None:
    """Those that the gateway has no rates of are named as left out, and are no failure."""
    ended = call_gateway(
        "bulk", "rates", "--base", "EUR", "--symbols", "all", "--start", "2026-10-30", "--end",
        "2026-10-30", "--out", out,
    )  # fmt: skip

    found = {line["item"]["symbols"]: line["state"] for line in lines(out)}
    failed = sorted(symbol for symbol, state in found.items() if state == "failed")
    assert served.received[0].operation == "list_countries"
    assert (found["USD"], found["AED"]) == ("done", "failed")
    assert "EUR" not in found
    assert ended.status == 0
    had = len(found) - len(failed)
    first, second = ended.err.splitlines()
    assert first == f"{out}: {had} of {had} series, {had} of them new"
    assert second == f"Left out, because the gateway has no rates of them: {' '.join(failed)}"


def test_currencies_without_rates_cost_one_call_each(
    call_gateway: Call, served: Sandbox, out: Path
) -> None:
    """What is not known of the first days is not asked for of the others, nor in a later run."""
    job = (*ALL[:-2], *OCTOBER, "--out", out, *ONE_BY_ONE)
    first = call_gateway(*job)
    calls = asked(served)
    again = call_gateway(*job)

    known = 30 + 1  # the ruble is known, without rates in this range
    assert (first.status, again.status) == (0, 0)
    assert calls <= 151 + 2 * known + 1
    all_known = f"{out}: {3 * known} of {3 * known} series"
    assert f"{all_known}, {3 * known} of them new\n" in first.err
    assert f"{all_known}, 0 of them new\n" in again.err
    assert asked(served) == calls


@pytest.mark.usefixtures("unhurried")
def test_failures_are_counted_by_kind_and_fetched_again_on_request(
    call_gateway: Call, served: Sandbox, out: Path
) -> None:
    """Without being asked to, a later run leaves them alone; with it, it fetches only them."""
    served.faults.on(SERIES_OF, Fault.status(500), at=4, times=3)
    served.faults.on(SERIES_OF, Fault.status(422), at=7)

    failed = call_gateway(*JOB, "--out", out, *ONE_BY_ONE)
    left = call_gateway(*JOB, "--out", out)
    after = asked(served)
    again = call_gateway(*JOB, "--out", out, "--retry-failed")

    assert failed.status == 4
    assert failed.err.splitlines() == [
        f"{out}: 4 of 6 series, 4 of them new",
        "gateway: 2 of 6 series failed",
        "  1 ServerError 500, such as GBP for EUR: “a fault on request”",
        "  1 InvalidRequestError 422, such as GBP for EUR: “a fault on request”",
        "The same command fetches what is missing, and with --retry-failed what failed.",
    ]
    assert left.status == 4
    without_words = failed.err.replace(": “a fault on request”", "")
    assert left.err == without_words.replace("4 of them new", "0 of them new")
    assert (again.status, again.err) == (0, f"{out}: 6 of 6 series, 2 of them new\n")
    assert (after, asked(served)) == (8, 10)


def test_long_waits_of_many_calls_are_not_told(
    call_gateway: Call, served: Sandbox, unhurried: list[float], out: Path
) -> None:
    """A line for each would bury the others; the bar says how fast it goes."""
    served.faults.on(SERIES_OF, Fault.too_many_requests(retry_after=9), times=2)

    ended = call_gateway(*JOB, "--out", out)

    assert [seconds for seconds in unhurried if seconds >= 9]
    assert (ended.status, ended.err) == (0, f"{out}: 6 of 6 series, 6 of them new\n")


def test_digits_that_no_float_holds_are_kept(
    call_gateway: Call, served: Sandbox, tmp_path: Path, out: Path
) -> None:
    """The row has the number to its last digit, fresh and out of the file."""
    number, rows = "1.12345678901234567890", tmp_path / "rates.csv"
    body = f'{{"rates": {{"2026-10-30": {{"USD": {number}}}}}}}'

    async def apply(call: FaultyCall) -> None:
        await call.reply(Response(body, media_type="application/json"))

    served.faults.on(SERIES_OF, Fault("many digits", apply))

    for _ in range(2):
        assert call_gateway(*JOB, "--out", out, "--rows", rows).status == 0
        assert rows.read_bytes().count(f",{number}\r\n".encode()) == SERIES
    assert asked(served) == SERIES


def test_bug_is_no_failed_series(
    call_gateway: Call, monkeypatch: pytest.MonkeyPatch, out: Path
) -> None:
    """What is not the gateway's doing is raised as it is, so that it is seen."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise LookupError("a bug")

    monkeypatch.setattr("gateway_sdk.areas.currency.checked", fail)

    with pytest.raises(LookupError, match="a bug"):
        call_gateway(*JOB, "--out", out, "--sandbox")
