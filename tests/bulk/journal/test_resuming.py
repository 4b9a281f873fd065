"""The rows of a journal, and how a later run uses them."""

import asyncio
import shutil
import sqlite3
import stat
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from gateway_sdk import (
    Advice,
    GatewayError,
    NotFoundError,
    Outcome,
    ServerError,
    bulk,
)
from gateway_sdk._transport.custom import CustomTransport
from tests.bulk.journal.journals import JOB, fetch, job_of, refused, rows
from tests.support.scripted import Step, scripted

COLUMNS = {
    "id", "key", "once", "state", "item", "value", "error", "message",
    "operation", "outcome", "status", "advice", "attempts", "elapsed", "time",
}  # fmt: skip


async def some(item: str) -> Any:
    """Return a value, or fail in one of two ways."""
    if item == "lost":
        raise ServerError("the gateway answered 500", status=500)
    if item == "bug":
        raise ZeroDivisionError("of somebody's private number")
    return {"name": item}


async def test_every_row_has_every_column(tmp_path: Path) -> None:
    """A row names its item, its result and the time; only the owner can read the file."""
    path = tmp_path / "journal.db"

    results = await fetch(path, ["EUR", "lost", "bug"], some)

    assert [result.from_journal for result in results.values()] == [False] * 3
    found = {line["item"]: line for line in rows(path)}
    assert [set(line) for line in found.values()] == [COLUMNS] * 3
    assert job_of(path) == JOB
    assert {len(line["key"]) for line in found.values()} == {16}
    assert [found[item]["state"] for item in ("EUR", "lost", "bug")] == ["done", "failed", "failed"]
    assert found["EUR"]["value"] == {"name": "EUR"}
    assert found["lost"]["error"] == "ServerError"
    assert found["lost"]["message"] == "the gateway answered 500"
    assert found["lost"]["status"] == 500
    assert found["bug"]["error"] == "ZeroDivisionError"
    assert found["bug"]["message"] is None
    assert [found[item]["advice"] for item in ("EUR", "lost", "bug")] == [None, "repeat", "repeat"]
    assert b"private" not in path.read_bytes()
    assert datetime.fromisoformat(found["EUR"]["time"]).utcoffset() is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_row_is_there_before_its_result_is_yielded(tmp_path: Path) -> None:
    """A result that was yielded is in the file."""
    path = tmp_path / "journal.db"

    async for result in bulk.run(some, map(str, range(50)), journal=path, job=JOB):
        assert result.item in {line["item"] for line in rows(path)}


async def test_other_tools_read_a_journal_as_it_is(tmp_path: Path) -> None:
    """As polars does; sqlite3 reads into the values."""
    path = tmp_path / "journal.db"
    await fetch(path, ["lost", "EUR", "bug", "USD"], some)

    with closing(sqlite3.connect(path)) as database:
        frame = pl.read_database("select * from items where state = 'done'", database)
        names = database.execute("select value ->> 'name' from items where state = 'done'")

        assert sorted(name for (name,) in names) == ["EUR", "USD"]
    assert set(frame.columns) == COLUMNS
    assert len(frame) == 2
    assert frame.schema["elapsed"] == pl.Float64
    assert frame.schema["attempts"] == pl.Int64


async def test_a_later_run_fetches_what_is_missing_and_yields_all(tmp_path: Path) -> None:
    """Finished items come from the file, marked; failures stay failures unless asked."""
    path = tmp_path / "journal.db"
    await fetch(path, ["EUR", "lost", "bug"], some)
    called: list[str] = []
    told: list[bulk.Progress] = []

    async def call(item: str) -> Any:
        called.append(item)
        return await some(item)

    results = await fetch(path, ["EUR", "lost", "bug", "USD"], call, on_progress=told.append)

    assert called == ["USD"]
    assert {item: result.from_journal for item, result in results.items()} == {
        "EUR": True, "lost": True, "bug": True, "USD": False,
    }  # fmt: skip
    assert results["EUR"].value == {"name": "EUR"}
    lost, bug = results["lost"].error, results["bug"].error
    assert isinstance(lost, ServerError)
    assert (str(lost), lost.status) == ("the gateway answered 500", 500)
    assert type(bug) is GatewayError
    assert str(bug) == "ZeroDivisionError, in an earlier run"
    assert told[-1] == bulk.Progress(done=4, failed=2, from_journal=3, total=4)
    assert len(rows(path)) == 4


async def test_failures_are_tried_again_if_asked(tmp_path: Path) -> None:
    """Each item has one row, that of its last try; the file keeps the mode that its user set."""
    path = tmp_path / "journal.db"
    await fetch(path, ["EUR", "lost", "bug"], some)
    path.chmod(0o640)

    async def call(item: str) -> str:
        return f"{item} again"

    results = await fetch(path, ["EUR", "lost", "bug"], call, retry_failed=True)

    assert {item: result.value for item, result in results.items()} == {
        "EUR": {"name": "EUR"}, "lost": "lost again", "bug": "bug again",
    }  # fmt: skip
    assert {line["item"] for line in rows(path)} == {"EUR", "lost", "bug"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [found.name for found in path.parent.iterdir()] == [path.name]


CREATED: Step = httpx.Response(200, json={"customerId": "c-1"})


@pytest.mark.parametrize(
    ("step", "error", "outcome"),
    [
        (httpx.ReadError("cut"), "ReplyLostError", "UNKNOWN"),
        (httpx.Response(403), "ForbiddenError", "REFUSED"),
        (httpx.Response(404), "NotFoundError", "REFUSED"),
    ],
)
async def test_a_write_that_failed_for_good_is_not_repeated(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: Step,
    error: str,
    outcome: str,
) -> None:
    """A write of unknown outcome stays as it is, also with `retry_failed`, and so does a 404."""
    path = tmp_path / "journal.db"
    gateway, engine, _ = scripted(monkeypatch, step, retry=None)

    async def create(name: str) -> Any:
        return await gateway.customer.create_customer({"customerName": name})

    async with gateway:
        await fetch(path, ["Ada"], create)
    line = rows(path)[-1]
    state = "unknown" if outcome == "UNKNOWN" else "failed"
    assert (line["state"], line["error"], line["outcome"]) == (state, error, outcome)
    assert line["operation"] == "create_customer"

    gateway, engine, _ = scripted(monkeypatch, CREATED)
    async with gateway:
        results = await fetch(path, ["Ada"], create, retry_failed=True)

    assert not engine.requests
    result = results["Ada"]
    assert isinstance(result.error, GatewayError)
    assert (type(result.error).__name__, result.error.outcome.name) == (error, outcome)
    assert (result.error.advice is Advice.CHECK) is (outcome == "UNKNOWN")
    known = "it is unknown whether the gateway did it" in str(result.error)
    assert known is (outcome == "UNKNOWN")
    assert len(rows(path)) == 1


async def test_an_item_that_wrote_before_it_failed_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failed call only read and could be repeated; the write before it must not be."""
    path = tmp_path / "journal.db"
    gateway, _, _ = scripted(monkeypatch, CREATED, httpx.Response(404))

    async def call(name: str) -> None:
        await gateway.customer.create_customer({"customerName": name})
        await gateway.country_data.list_countries()

    async with gateway:
        await fetch(path, ["Ada"], call)
    (result,) = (await fetch(path, ["Ada"], refused, retry_failed=True)).values()

    assert isinstance(result.error, NotFoundError)
    assert (result.error.outcome, result.error.advice) == (Outcome.APPLIED, Advice.CHECK)


async def test_a_write_in_flight_when_the_process_was_killed_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row is written before it is sent; without its end, its outcome is unknown."""
    path, copied = tmp_path / "journal.db", tmp_path / "copy.db"
    gateway, _, _ = scripted(monkeypatch, CREATED)

    async def create(name: str) -> Any:
        reply = await gateway.customer.create_customer({"customerName": name})
        for end in ("", "-wal"):  # its content in the middle of the call
            shutil.copy(f"{path}{end}", f"{copied}{end}")
        return reply

    async with gateway:
        await fetch(path, ["Ada"], create)
    assert [row["state"] for row in rows(copied)] == ["begun"]
    results = await fetch(copied, ["Ada"], refused, retry_failed=True)

    error = results["Ada"].error
    assert isinstance(error, GatewayError)
    assert (error.outcome, error.advice) == (Outcome.UNKNOWN, Advice.CHECK)
    assert "an earlier run ended" in str(error)
    assert [row["state"] for row in rows(copied)] == ["unknown"]


class Stuck(httpx.AsyncBaseTransport):
    """Accepts a request, sends nothing of it or all of it, and waits."""

    def __init__(self, *, sends: bool) -> None:
        self.sends = sends
        self.asked = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions["gateway_sdk.transmission"].sent = self.sends
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize("operation", ["create_customer", "list_countries"])
@pytest.mark.parametrize("sends", [False, True])
@pytest.mark.parametrize("end", ["deadline", "close"])
async def test_an_interrupted_call_is_repeated_only_if_that_is_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, sends: bool, end: str
) -> None:
    """A read and an unsent write count as never begun; a sent write is a failure."""
    path = tmp_path / "journal.db"
    gateway, _, _ = scripted(monkeypatch, CREATED)
    stuck = Stuck(sends=sends)
    monkeypatch.setattr(
        "gateway_sdk._call.client.make_transport", lambda *_: CustomTransport(stuck, None)
    )
    writes = operation == "create_customer"

    async def call(_: str) -> Any:
        if writes:
            return await gateway.customer.create_customer({})
        return await gateway.country_data.list_countries()

    async with gateway:
        run = bulk.run(
            call, ["one"], journal=path, job=JOB, deadline=0.2 if end == "deadline" else None
        )
        first = asyncio.ensure_future(anext(run))
        await stuck.asked.wait()
        if end == "deadline":
            assert (await first).error is not None
        else:
            first.cancel()
            await asyncio.wait([first])
        await run.aclose()

    again: list[str] = []

    async def repeat(item: str) -> str:
        again.append(item)
        return "made again"

    results = await fetch(path, ["one"], repeat)

    assert again == ([] if writes and sends else ["one"])
    assert (results["one"].error is None) is not (writes and sends)
    assert len(rows(path)) == 1
