"""Writes that must not be repeated: the disk has a row before a byte of the request is sent."""

import asyncio
import itertools
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import httpx
import pytest
import respx

from gateway_sdk import (
    Advice,
    GatewaySession,
    GatewayTransport,
    Outcome,
    RateLimit,
    RetryPolicy,
    bulk,
    errors,
)
from tests.bulk.runs import JOB, Answering, Memory, created, fetch, rows, session
from tests.support import virtual_time
from tests.support.raw_server import OK, raw_server, read_request
from tests.support.scripted import Step, scripted


def creating(gateway: GatewaySession) -> Callable[[str], Any]:
    async def create(name: str) -> Any:
        return await gateway.customer.create_customer({"customerName": name})

    return create


class Disk:
    """Records the transactions of a journal, and the moment in which each is on the disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.states: list[tuple[str, list[str]]] = []  # the sync of each, and what it wrote
        self.loop_thread = threading.get_ident()
        self.before: Callable[[], object] = lambda: None
        disk = self

        class Connection(sqlite3.Connection):
            _sync, _written = "", list[str]()

            def execute(self, sql: str, *given: Any) -> Any:
                assert threading.get_ident() != disk.loop_thread
                if sql.startswith("pragma synchronous"):
                    self._sync, self._written = sql.rpartition(" ")[2], []
                if sql == "commit" and self._written:
                    if self._sync == "full":
                        disk.before()
                    disk.states.append((self._sync, self._written))
                return super().execute(sql, *given)

            def executemany(self, sql: str, rows: Any) -> Any:
                given = list(rows)
                self._written += [row[2] for row in given]
                return super().executemany(sql, given)

        # Only that of the journal: other connections of a test read it.
        module = SimpleNamespace(**vars(sqlite3))
        module.connect = partial(sqlite3.connect, factory=Connection)
        monkeypatch.setattr("gateway_sdk.bulk._journal.sqlite3", module)

    @property
    def written(self) -> list[str]:
        return [state for _, states in self.states for state in states]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def engine() -> Answering:
    return Answering(created)


@pytest.fixture(name="gateway")
async def keeping(engine: Answering) -> AsyncIterator[GatewaySession]:
    async with session(engine) as gateway:
        yield gateway


async def test_the_disk_has_the_row_before_the_request_is_sent(path: Path, disk: Disk) -> None:
    seen: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sync, states = disk.states[-1]
        seen.append((sync, states[-1], rows(path)[-1]["state"]))
        return created(request)

    async with session(answer) as gateway:
        await fetch(path, ["Ada", "Bob"], creating(gateway), concurrency=1)

    assert seen == [("full", "begun", "begun")] * 2
    assert disk.states[-1] == ("normal", ["done"])
    assert disk.written == ["begun", "done"] * 2


async def test_reads_do_not_wait_for_the_disk(path: Path, disk: Disk) -> None:
    """They can be repeated, and their rows are not synced one by one."""
    async with session(lambda _: httpx.Response(200, json=[])) as gateway:
        await fetch(path, range(5), lambda _: gateway.country_data.list_countries())

    assert {sync for sync, _ in disk.states} == {"normal"}
    assert disk.written == ["done"] * 5


async def test_calls_that_wait_for_the_disk_wait_together_and_not_the_loop(
    path: Path, disk: Disk, gateway: GatewaySession, engine: Answering
) -> None:
    count, turns, go_on = 20, iter(range(100)), threading.Event()
    loop = asyncio.get_running_loop()

    def turn() -> None:
        if next(turns, None) is None:
            go_on.set()
        else:
            loop.call_soon(turn)

    def slow() -> None:
        loop.call_soon_threadsafe(turn)
        assert go_on.wait(10)

    disk.before = slow
    results = await fetch(path, map(str, range(count)), creating(gateway), concurrency=count)

    assert all(result.error is None for result in results.values())
    assert len(engine.asked) == count
    begun = [states for sync, states in disk.states if sync == "full"]
    assert len(begun) <= 2  # the first, and one for all later calls


async def test_nothing_is_sent_if_the_disk_fails(
    path: Path, disk: Disk, gateway: GatewaySession, engine: Answering
) -> None:
    seen: list[errors.JournalError] = []
    failure = sqlite3.OperationalError("disk I/O error")
    failure.sqlite_errorcode = sqlite3.SQLITE_IOERR
    disk.before = Mock(side_effect=failure)

    async def create(name: str) -> Any:
        try:
            return await creating(gateway)(name)
        except errors.JournalError as error:
            seen.append(error)
            raise

    with pytest.raises(errors.JournalError, match="disk I/O error") as caught:
        await fetch(path, ["Ada", "Bob"], create)

    assert engine.asked == []
    assert (caught.value.operation, caught.value.advice) == (None, Advice.FIX)
    assert {(error.operation, error.outcome, error.advice) for error in seen} == {
        ("create_customer", Outcome.NOT_SENT, Advice.REPEAT)
    }
    disk.before = lambda: None
    made = await fetch(path, ["Ada", "Bob"], create)
    assert [(it.error, it.from_journal) for it in made.values()] == [(None, False)] * 2


@pytest.mark.parametrize(
    ("at_once", "statuses"),
    [
        (1, [200, 200]),
        (2, [200, 200]),
        (1, [200, 429, 200]),  # what the first call did stays begun
    ],
)
async def test_an_item_of_several_calls_has_one_row_before_them(
    path: Path, disk: Disk, at_once: int, statuses: list[int]
) -> None:
    replies = iter(statuses)

    def answer(_: httpx.Request) -> httpx.Response:
        assert disk.states == [("full", ["begun"])]
        return httpx.Response(next(replies), json={"customerId": "c-1"})

    async def call(name: str) -> str:
        for _ in range(2 // at_once):
            await asyncio.gather(*(creating(gateway)(name) for _ in range(at_once)))
        return name

    async with session(answer, retry=RetryPolicy(), sleep=AsyncMock()) as gateway:
        results = await fetch(path, ["Ada"], call)

    assert results["Ada"].value == "Ada"
    assert not list(replies)
    assert disk.states == [("full", ["begun"]), ("normal", ["done"])]


async def test_a_run_within_an_item_writes_to_both_journals(
    tmp_path: Path, gateway: GatewaySession
) -> None:
    outer, inner = tmp_path / "outer.db", tmp_path / "inner.db"

    async def call(names: str) -> int:
        return len(await fetch(inner, names.split(), creating(gateway)))

    await fetch(outer, ["Ada Bob"], call)

    for path, sent in ((outer, [2]), (inner, [1, 1])):
        assert {(row["state"], row["once"]) for row in rows(path)} == {("done", True)}
        assert [row["attempts"] for row in rows(path)] == sent


@pytest.mark.parametrize("end", ["deadline", "close"])
async def test_a_run_that_ends_while_the_disk_is_waited_for_sent_nothing(
    path: Path, disk: Disk, gateway: GatewaySession, engine: Answering, end: str
) -> None:
    at_it, door = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow() -> None:
        loop.call_soon_threadsafe(at_it.set)
        door.wait()

    disk.before = slow
    deadline = 0.2 if end == "deadline" else None
    run = bulk.run(creating(gateway), ["Ada"], journal=path, job=JOB, deadline=deadline)
    first = asyncio.ensure_future(anext(run))
    await at_it.wait()
    if end == "close":
        first.cancel()
    loop.call_later(deadline or 0, door.set)  # after the deadline, whose timer is older
    await asyncio.wait([first])
    if end == "deadline":
        error = first.result().error
        assert isinstance(error, errors.GatewayError)
        assert error.outcome is Outcome.NOT_SENT
    await run.aclose()

    assert engine.asked == []
    assert [row["state"] for row in rows(path)] == ["interrupted"]
    results = await fetch(path, ["Ada"], creating(gateway))
    assert results["Ada"].error is None
    assert len(engine.asked) == 1


BUSY: Step = httpx.Response(429, headers={"Retry-After": "0"})
REFUSED: list[Step] = [httpx.ConnectError("no"), BUSY, BUSY, BUSY, created]


async def test_a_call_that_waits_after_a_refusal_has_not_begun(
    path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill during the wait leaves no doubt, be it a wait of the session or of the run."""
    monkeypatch.setattr("random.random", lambda: 0.0)  # no waiting in real time
    retry = RetryPolicy(attempts=2, connect_wait=0.0)
    gateway, engine, _ = scripted(monkeypatch, *REFUSED, retry=retry)
    async with gateway:
        results = await fetch(path, ["Ada"], creating(gateway))

    assert (results["Ada"].error, results["Ada"].attempts) == (None, 5)
    assert len(engine.requests) == 5
    assert disk.written == [*["begun", "interrupted"] * 4, "begun", "done"]
    assert [row["state"] for row in rows(path)] == ["done"]


@pytest.mark.parametrize("retry", [None, RetryPolicy()])
@virtual_time.in_virtual_time
async def test_a_refusal_in_a_later_round_is_noted_too(retry: RetryPolicy | None) -> None:
    ledger, states, tokens = Memory(), list[str](), itertools.count()
    write, replies = ledger.write, iter([401, 401, 429, 200])

    async def noting(entries: Any) -> None:
        states.extend(entry.state for entry in entries)
        await write(entries)

    async def token() -> str:
        return f"t{next(tokens)}"

    def answer(request: httpx.Request) -> httpx.Response:
        status = next(replies)
        return created(request) if status == 200 else httpx.Response(status)

    ledger.write = noting  # type: ignore[method-assign]
    async with session(answer, access_token=token, retry=retry) as gateway:
        results = bulk.run(creating(gateway), ["Ada"], journal=ledger)
        assert [result.error async for result in results] == [None]

    assert states == [*["begun", "interrupted"] * 3, "begun", "done"]


async def test_a_request_through_our_transport_in_a_client_begins_once(
    path: Path, disk: Disk
) -> None:
    replies = iter([OK.replace(b"200 OK", b"429 Busy\r\nRetry-After: 0"), OK])

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await read_request(reader):
            writer.write(next(replies))

    options: dict[str, Any] = {"access_token": "-", "tenant_id": "acme", "sleep": AsyncMock()}
    async with (
        raw_server(handle) as url,
        httpx.AsyncClient(transport=GatewayTransport()) as client,
        GatewaySession(url, http_client=client, **options) as gateway,
    ):
        await fetch(path, ["Ada"], creating(gateway))

    assert disk.written == ["begun", "interrupted", "begun", "done"]


@pytest.mark.parametrize("transport", [None, httpx.MockTransport(created)])
async def test_a_call_that_waits_for_the_rate_limit_has_not_begun(
    path: Path, transport: Any
) -> None:
    with respx.mock(assert_all_called=False) as mocked:
        mocked.route().mock(side_effect=created)
        async with session(transport, rate_limit=RateLimit(1, seconds=3600)) as gateway:
            run = bulk.run(creating(gateway), ["Ada", "Bob"], journal=path, job=JOB, concurrency=2)
            async with aclosing(run) as results:
                assert (await anext(results)).error is None
                assert [row["state"] for row in rows(path)] == ["done"]
    assert [row["state"] for row in rows(path)] == ["done"]


async def test_a_write_that_is_refused_after_its_item_is_still_unknown() -> None:
    """Its session sends it again: a later run must not send it too."""
    ledger, asked, may_answer = Memory(), asyncio.Event(), asyncio.Event()
    going_on: list[asyncio.Task[Any]] = []
    replies = iter([429, 200])

    async def answer(_: httpx.Request) -> httpx.Response:
        asked.set()
        await may_answer.wait()
        return httpx.Response(next(replies), json={})

    async def call(name: str) -> None:
        if name == "Bob":
            may_answer.set()
            await going_on[0]
            return
        going_on.append(asyncio.create_task(creating(gateway)(name)))
        await asked.wait()
        raise KeyError(name)

    async with session(answer, retry=RetryPolicy(), sleep=AsyncMock()) as gateway:
        run = bulk.run(call, ["Ada", "Bob"], journal=ledger, concurrency=1)
        assert [type(result.error) async for result in run] == [KeyError, type(None)]

    states = {entry.item: entry.state.value for entry in ledger.entries.values()}
    assert states == {'"Ada"': "unknown", '"Bob"': "done"}


async def test_a_call_that_is_sent_after_its_item_is_none_of_the_item(path: Path) -> None:
    asked, may_send = asyncio.Event(), asyncio.Event()
    going_on: list[asyncio.Task[Any]] = []
    replies = iter([httpx.Response(429), created(httpx.Request("POST", "/"))])

    async def token() -> str:
        asked.set()
        await may_send.wait()
        return "t"

    async def call(name: str) -> str:
        going_on.append(asyncio.create_task(creating(gateway)(name)))
        await asked.wait()
        return "left"

    options: dict[str, Any] = {"access_token": token, "retry": RetryPolicy(), "sleep": AsyncMock()}
    async with session(lambda _: next(replies), **options) as gateway:
        await fetch(path, ["Ada"], call)
        may_send.set()
        (created_later,) = await asyncio.gather(*going_on)

    assert created_later == {"customerId": "c-1"}
    assert [(row["state"], row["value"]) for row in rows(path)] == [("done", "left")]


async def test_a_call_in_another_event_loop_is_not_sent(path: Path) -> None:
    """A thread with another event loop cannot wait for the run's disk; the call fails at once."""
    gateway = session(pytest.fail)

    async def call(name: str) -> Any:
        return await asyncio.to_thread(lambda: asyncio.run(creating(gateway)(name)))

    error = (await fetch(path, ["Ada"], call))["Ada"].error

    assert isinstance(error, errors.SessionStateError)
    assert "in the event loop of the run" in str(error)
    assert error.outcome is Outcome.NOT_SENT
