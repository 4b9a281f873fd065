import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest
from starlette.responses import Response

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
    journal_of,
    lines,
    states,
)

USD = {"2026-10-26": 1.1188, "2026-10-30": 1.1172}


def told(out: Path, new: int, *, of: int = SERIES, rows: int) -> str:
    return f"{of} of {of} series, {new} of them new\n{out}: {rows} rows\n"


RATES = 44
"""Two currencies on 22 days."""


def test_rates_go_into_the_file_and_replies_into_the_journal(call_gateway: Call, out: Path) -> None:
    """Numbers are numbers there; standard output has nothing, standard error two lines."""
    ended = call_gateway(*JOB, "--out", out, "--sandbox")

    assert (ended.status, ended.out, ended.err) == (0, "", told(out, 6, rows=RATES))
    assert states(out) == ["done"] * SERIES
    last = {"base": "EUR", "symbols": "USD", "startDate": "2026-10-21", "endDate": "2026-10-30"}
    rates = next(line["value"]["rates"] for line in lines(out) if line["item"] == last)
    assert {day: rates[day]["USD"] for day in USD} == USD
    header, *rows = out.read_bytes().decode().split("\r\n")[:-1]
    assert header == "base,symbol,date,rate"
    assert rows == sorted(rows)
    assert "EUR,USD,2026-10-30,1.1172" in rows


def test_replies_of_another_shape_are_told_and_have_no_rows(call_gateway: Call, out: Path) -> None:
    """They stay in the journal as they came, for the interface leaves them open."""
    assert call_gateway(*JOB, "--out", out, "--sandbox").status == 0
    kept = lines(out)[2:]
    with closing(sqlite3.connect(journal_of(out))) as database, database:
        changed = json.dumps({"series": [1.5]})
        database.execute("update items set value = ? where id <= 2", (changed,))

    ended = call_gateway(*JOB, "--out", out, "--sandbox")

    assert ended.status == 0
    assert ended.err.endswith("another shape than days with rates, left out: 2\n")
    rates = sum(len(line["value"]["rates"]) for line in kept)
    assert len(out.read_text(encoding="utf-8").splitlines()) == 1 + rates


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
    first, second, third = ended.err.splitlines()
    assert first == f"{had} of {had} series, {had} of them new"
    assert third.startswith(f"{out}: ")
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
    all_known = f"{3 * known} of {3 * known} series"
    assert f"{all_known}, {3 * known} of them new\n" in first.err
    assert f"{all_known}, 0 of them new\n" in again.err
    assert asked(served) == calls


@pytest.mark.usefixtures("unhurried")
def test_failures_are_counted_by_kind_and_fetched_again_on_request(
    call_gateway: Call, served: Sandbox, out: Path
) -> None:
    """Only what may succeed then: a 422 is not asked for again."""
    served.faults.on(SERIES_OF, Fault.status(422), at=1)
    is_bad = True

    async def apply(call: FaultyCall) -> None:
        """Fail for the last days of USD."""
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
        "The same command fetches what is missing, and with --retry-failed what failed.",
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
    """The row has the number to its last digit, fresh and out of the journal."""
    number = "1.12345678901234567890"
    body = f'{{"rates": {{"2026-10-30": {{"USD": {number}}}}}}}'

    async def apply(call: FaultyCall) -> None:
        await call.reply(Response(body, media_type="application/json"))

    served.faults.on(SERIES_OF, Fault("many digits", apply))

    for _ in range(2):
        assert call_gateway(*JOB, "--out", out).status == 0
        assert out.read_bytes().count(f",{number}\r\n".encode()) == SERIES
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
