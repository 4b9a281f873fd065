"""The journal: what stands in it, and what a later run makes of it."""

import asyncio
import json
import stat
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from pydantic import SecretStr

from gateway_sdk import (
    ConnectionFailedError,
    GatewayError,
    InvalidArgumentError,
    JournalError,
    NotFoundError,
    Outcome,
    RateLimitedError,
    ServerError,
    bulk,
)
from gateway_sdk.models import Country
from tests.bulk.journals import JOB, fetch, lines, refused
from tests.support.scripted import Step, scripted

COLUMNS = {
    "job", "key", "state", "item", "value", "error", "message", "operation", "outcome", "status",
    "safe_to_repeat", "attempts", "elapsed", "time",
}  # fmt: skip


async def some(item: str) -> Any:
    """Return something, or fail in one of two ways."""
    if item == "lost":
        raise ServerError("the gateway answered 500", status=500)
    if item == "bug":
        raise ZeroDivisionError("of somebody's private number")
    return {"name": item}


async def test_every_line_has_every_column(tmp_path: Path) -> None:
    """A line says which item it is, what came of it, and when; the file is its owner's alone."""
    path = tmp_path / "journal.jsonl"

    results = await fetch(path, ["EUR", "lost", "bug"], some)

    assert [result.from_journal for result in results.values()] == [False] * 3
    found = {line["item"]: line for line in lines(path)}
    assert [set(line) for line in found.values()] == [COLUMNS] * 3
    assert {line["job"] for line in found.values()} == {JOB}
    assert {len(bytes.fromhex(line["key"])) for line in found.values()} == {16}
    assert [found[item]["state"] for item in ("EUR", "lost", "bug")] == ["done", "failed", "failed"]
    assert found["EUR"]["value"] == {"name": "EUR"}
    assert found["lost"]["error"] == "ServerError"
    assert found["lost"]["message"] == "the gateway answered 500"
    assert found["lost"]["status"] == 500
    assert found["bug"]["error"] == "ZeroDivisionError"
    assert found["bug"]["message"] is None
    assert b"private" not in path.read_bytes()
    assert datetime.fromisoformat(found["EUR"]["time"]).utcoffset() is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_line_is_there_before_its_result_is_yielded(tmp_path: Path) -> None:
    """Whoever has seen a result finds it in the file."""
    path = tmp_path / "journal.jsonl"

    async for result in bulk.run(some, map(str, range(50)), journal=path, job=JOB):
        assert result.item in {line["item"] for line in lines(path)}


async def test_other_tools_read_a_journal_as_it_is(tmp_path: Path) -> None:
    """Its columns have one type each, whatever failed."""
    path = tmp_path / "journal.jsonl"
    await fetch(path, ["lost", "EUR", "bug", "USD"], some)

    frame = pl.read_ndjson(path)

    assert set(frame.columns) == COLUMNS
    done = frame.filter(pl.col("state") == "done").sort("item")
    assert done["value"].struct.field("name").to_list() == ["EUR", "USD"]
    assert frame.schema["elapsed"] == pl.Float64
    assert frame.schema["attempts"] == pl.Int64


async def test_a_later_run_fetches_what_is_missing_and_yields_all(tmp_path: Path) -> None:
    """What is done comes from the file and says so; failures stay failures unless asked."""
    path = tmp_path / "journal.jsonl"
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
    assert len(lines(path)) == 4


async def test_failures_are_tried_again_if_asked(tmp_path: Path) -> None:
    """Each has one line, that of its last try; the mode that the user gave the file stays."""
    path = tmp_path / "journal.jsonl"
    await fetch(path, ["EUR", "lost", "bug"], some)
    path.chmod(0o640)

    async def call(item: str) -> str:
        return f"{item} again"

    results = await fetch(path, ["EUR", "lost", "bug"], call, retry_failed=True)

    assert {item: result.value for item, result in results.items()} == {
        "EUR": {"name": "EUR"}, "lost": "lost again", "bug": "bug again",
    }  # fmt: skip
    assert [line["item"] for line in lines(path)] == ["EUR", "lost", "bug"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [found.name for found in path.parent.iterdir()] == [path.name]


CREATED: Step = httpx.Response(200, json={"customerId": "c-1"})


@pytest.mark.parametrize(
    ("step", "error", "outcome", "again"),
    [
        (httpx.ReadError("cut"), "ReplyLostError", "UNKNOWN", False),
        (httpx.ConnectError("no"), "ConnectionFailedError", "NOT_SENT", True),
        (httpx.Response(404), "NotFoundError", "REFUSED", True),
    ],
)
async def test_what_may_have_been_done_is_never_done_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: Step,
    error: str,
    outcome: str,
    again: bool,
) -> None:
    """A write of unknown outcome stays failed, also when failures are tried again."""
    path = tmp_path / "journal.jsonl"
    gateway, engine, _ = scripted(monkeypatch, step, retry=None)

    async def create(name: str) -> Any:
        return await gateway.customer.create_customer({"customerName": name})

    async with gateway:
        await fetch(path, ["Ada"], create)
    line = lines(path)[-1]
    assert (line["state"], line["error"], line["outcome"]) == ("failed", error, outcome)
    assert (line["operation"], line["safe_to_repeat"]) == ("create_customer", again)

    gateway, engine, _ = scripted(monkeypatch, CREATED)
    async with gateway:
        results = await fetch(path, ["Ada"], create, retry_failed=True)

    assert len(engine.requests) == again
    result = results["Ada"]
    assert result.from_journal is not again
    if not again:
        assert isinstance(result.error, GatewayError)
        assert (type(result.error).__name__, result.error.outcome.name) == (error, outcome)
        assert result.error.safe_to_repeat is False
        assert "it is unknown whether the gateway did it" in str(result.error)
    assert len(lines(path)) == (2 if again else 1)


async def test_an_item_that_wrote_before_it_failed_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failed call only read, and could be repeated; the one before it must not be."""
    path = tmp_path / "journal.jsonl"
    gateway, _, _ = scripted(monkeypatch, CREATED, httpx.Response(404))

    async def call(name: str) -> None:
        await gateway.customer.create_customer({"customerName": name})
        await gateway.country_data.list_countries()

    async with gateway:
        await fetch(path, ["Ada"], call)
    (result,) = (await fetch(path, ["Ada"], refused, retry_failed=True)).values()

    assert isinstance(result.error, NotFoundError)
    assert (result.error.outcome, result.error.safe_to_repeat) == (Outcome.APPLIED, False)


async def test_a_write_that_was_under_way_when_the_process_died_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is sent, a line says so; without another its outcome is unknown."""
    path = tmp_path / "journal.jsonl"
    gateway, _, _ = scripted(monkeypatch, CREATED)
    seen: list[bytes] = []

    def look() -> None:
        seen.append(path.read_bytes())

    async def create(name: str) -> Any:
        reply = await gateway.customer.create_customer({"customerName": name})
        look()
        return reply

    async with gateway:
        await fetch(path, ["Ada"], create)
        assert [line["state"] for line in lines(path)] == ["begun", "done"]
        path.write_bytes(seen[0])  # as it was in the middle of the call

        results = await fetch(path, ["Ada"], refused, retry_failed=True)

    error = results["Ada"].error
    assert isinstance(error, GatewayError)
    assert (error.outcome, error.safe_to_repeat) == (Outcome.UNKNOWN, False)
    assert "an earlier run ended" in str(error)
    assert [line["state"] for line in lines(path)] == ["begun"]


class Stuck(httpx.AsyncBaseTransport):
    """Takes a request, sends nothing of it or all, and waits."""

    def __init__(self, *, sends: bool) -> None:
        self.sends = sends
        self.asked = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Wait for ever."""
        request.extensions["gateway_sdk.progress"].sent = self.sends
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize("operation", ["create_customer", "list_countries"])
@pytest.mark.parametrize("sends", [False, True])
@pytest.mark.parametrize("end", ["deadline", "close"])
async def test_what_a_run_cuts_off_is_made_again_only_if_that_is_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, sends: bool, end: str
) -> None:
    """A read, and a write that had not left, are as if never begun; a sent write is a failure."""
    path = tmp_path / "journal.jsonl"
    gateway, _, _ = scripted(monkeypatch, CREATED)
    stuck = Stuck(sends=sends)
    monkeypatch.setattr("gateway_sdk._core.make_transport", lambda *_: stuck)
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
    assert len(lines(path)) == 1


@dataclass
class Rate:
    """A value of a user's own type."""

    day: date
    rate: Decimal


COUNTRY = Country.model_validate(
    {
        "id": 1, "countryName": "Malta", "nationality": "Maltese", "currency": "EUR",
        "three_digit_iso_code": "MLT", "two_digit_iso_code": "MT", "phone_code": "+356",
    }
)  # fmt: skip


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, None),
        (Rate(date(2026, 1, 2), Decimal("1.10")), {"day": "2026-01-02", "rate": "1.10"}),
        ([COUNTRY], [COUNTRY.model_dump(by_alias=True)]),
        ({"password": SecretStr("canary")}, {"password": "**********"}),
        (float("nan"), "NaN"),
        ("two\nlines", "two\nlines"),
        ("\u2028", "\u2028"),
    ],
)
async def test_values_of_many_kinds_are_written_as_json(
    tmp_path: Path, value: object, written: object
) -> None:
    """Models by their wire names, dates and numbers as pydantic has them, secrets masked."""
    path = tmp_path / "journal.jsonl"

    async def call(_: str) -> object:
        return value

    (live,) = (await fetch(path, ["x"], call)).values()
    (stored,) = (await fetch(path, ["x"], refused)).values()

    assert live.value is value
    assert stored.value == lines(path)[0]["value"] == written
    assert b"canary" not in path.read_bytes()


async def test_dump_and_load_are_the_users_own_ways(tmp_path: Path) -> None:
    """What is no JSON goes in through one and comes out through the other."""
    path = tmp_path / "journal.jsonl"
    options: dict[str, Any] = {
        "dump": lambda value: [value.real, value.imag],
        "load": lambda found: complex(*found),
    }

    async def call(_: str) -> complex:
        return 1 + 2j

    await fetch(path, ["x"], call, **options)
    (stored,) = (await fetch(path, ["x"], refused, **options)).values()

    assert lines(path)[0]["value"] == [1.0, 2.0]
    assert stored.value == 1 + 2j


@pytest.mark.parametrize("value", [object(), "\ud800", b"\xff", {1: {2: object()}}])
async def test_a_value_that_is_no_json_is_a_failure(tmp_path: Path, value: object) -> None:
    """The result says what to do, the line too, and the others go on."""
    path = tmp_path / "journal.jsonl"

    async def call(item: str) -> object:
        return value if item == "odd" else item

    results = await fetch(path, ["odd", "plain"], call)

    error = results["odd"].error
    assert isinstance(error, JournalError)
    assert "give dump=" in str(error)
    assert results["plain"].value == "plain"
    assert [line["error"] for line in lines(path)] == ["JournalError", None]


async def test_an_item_that_is_no_json_needs_a_key(tmp_path: Path) -> None:
    """With one it is told from others, and its column stays empty."""
    path = tmp_path / "journal.jsonl"
    item = object()

    async def call(_: object) -> str:
        return "done"

    with pytest.raises(InvalidArgumentError, match="give key="):
        await fetch(path, [item], call)
    (result,) = (await fetch(path, [item], call, key=lambda _: "one")).values()

    assert result.value == "done"
    assert lines(path)[0]["item"] is None


async def test_equal_items_have_one_line_and_a_result_each(tmp_path: Path) -> None:
    """The second is read from the journal, or shares the call that is under way."""
    path = tmp_path / "journal.jsonl"
    called: list[str] = []

    async def call(item: str) -> str:
        called.append(item)
        return item

    run = bulk.run(call, ["a", "b", "a", "a"], journal=path, job=JOB, concurrency=1)
    results = [(result.item, result.value, result.from_journal) async for result in run]

    assert called == ["a", "b"]
    assert results == [("a", "a", False), ("b", "b", False), ("a", "a", True), ("a", "a", True)]
    assert len(lines(path)) == 2


async def test_long_lines_are_read_whole(tmp_path: Path) -> None:
    """A value may be larger than what is read at once."""
    path = tmp_path / "journal.jsonl"

    async def call(item: str) -> str:
        return item * 300_000

    await fetch(path, ["a", "b"], call)
    results = await fetch(path, ["a", "b"], refused)

    assert {item: len(result.value) for item, result in results.items()} == {
        "a": 300_000, "b": 300_000,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"journal": 3, "job": "x"}, "journal must be"),
        ({"journal": "x"}, "needs job="),
        ({"journal": "x", "job": " "}, "needs job="),
        ({"journal": "x", "job": "a\nb"}, "needs job="),
        ({"job": "x"}, "go with journal="),
        ({"dump": str}, "go with journal="),
        ({"retry_failed": True}, "go with journal="),
        ({"retry_failed": 1}, "retry_failed must be"),
        ({"dump": 1}, "dump must be"),
        ({"load": 1}, "load must be"),
    ],
)
def test_wrong_arguments_of_a_journal_are_refused_at_once(
    options: dict[str, Any], named: str
) -> None:
    """The error names what is wrong or missing."""
    with pytest.raises(InvalidArgumentError, match=named):
        bulk.run(refused, [1], **options)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionFailedError("no connection"),
        NotFoundError("404", status=404),
        RateLimitedError("429", status=429),
        GatewayError(),
    ],
)
async def test_an_error_comes_back_as_what_it_was(tmp_path: Path, error: GatewayError) -> None:
    """Its class, its text and its status are those from before."""
    path = tmp_path / "journal.jsonl"

    async def call(_: str) -> None:
        raise error

    await fetch(path, ["x"], call)
    (result,) = (await fetch(path, ["x"], refused)).values()

    assert type(result.error) is type(error)
    assert getattr(result.error, "status", None) == getattr(error, "status", None)
    assert isinstance(result.error, GatewayError)
    assert result.error.outcome is error.outcome


async def test_the_words_of_a_users_error_do_not_get_into_the_file(tmp_path: Path) -> None:
    """Only the texts of this package's own classes are known to hold nothing personal."""
    path = tmp_path / "journal.jsonl"

    class NotFoundError(GatewayError):
        """Named as one of ours."""

    async def call(_: str) -> None:
        raise NotFoundError("canary")

    await fetch(path, ["x"], call)

    assert json.loads(path.read_text())["message"] is None
    assert "canary" not in path.read_text()
