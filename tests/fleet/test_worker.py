"""Workers: who owns a chunk, what is sent, and what is stored, whatever ends a worker."""

import asyncio
import logging
import socket
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import anyio
import httpx
import psycopg
import pytest

from gateway_sdk import Advice, LoginRequiredError, RateLimit, RetryPolicy, UnauthorizedError, bulk
from gateway_sdk.bulk import Entry, State
from gateway_sdk.errors import JournalError, SessionStateError
from gateway_sdk.fleet import Job, Worker
from gateway_sdk.fleet._chunk import Chunk, ChunkLedger, OvertakenError
from gateway_sdk.fleet._database import Database, ReservingLimiter
from tests.fleet import gateways
from tests.fleet.gateways import (
    CountingGateway,
    Holding,
    change,
    customer,
    number_of,
    refusing,
    rows_of,
    series,
)
from tests.support import virtual_time
from tests.support.postgres_server import NEEDS_POSTGRES, PostgresServer

pytestmark = NEEDS_POSTGRES


async def states(dsn: str) -> dict[int, str]:
    return dict(await rows_of(dsn, "select n, state from gateway_fleet.result order by n"))


async def test_a_worker_takes_each_chunk_once(job: Job, gateway: CountingGateway, dsn: str) -> None:
    """Until the worker is told to stop; a plan that comes meanwhile is done too."""
    last = Holding(gateway, 19)
    last.go_on.set()
    await job.plan("first", map(series, range(10)), chunk=3)
    async with job.worker() as worker:
        running = asyncio.create_task(worker.run())
        await job.plan("second", map(series, range(10, 20)), chunk=20)
        await last.wait()
        worker.stop()
        await running
        assert not await worker.run_chunk("first", 0)  # it takes nothing more

    assert (await job.status("second")).done == 10
    assert gateway.done
    assert set(gateway.done.values()) == {1}


async def test_a_chunk_that_is_done_is_not_done_again(job: Job, gateway: CountingGateway) -> None:
    await job.plan("p", map(series, range(3)))
    async with job.worker() as worker:
        assert await worker.run_chunk("p", 0)
        assert await worker.run_chunk("p", 0)
        assert await worker.run_chunk("p", 7)  # there is none
        assert await worker.run_chunk("q", 0)
    assert gateway.requests == 3


async def test_a_worker_has_to_be_entered(job: Job) -> None:
    with pytest.raises(SessionStateError, match=r"async with job\.worker"):
        await job.worker().run_chunk("p", 0)
    with pytest.raises(SessionStateError, match=r"async with job\.worker"):
        await job.worker().run()


async def test_a_chunk_belongs_to_one_delivery_at_a_time(
    job: Job, gateway: CountingGateway
) -> None:
    held = Holding(gateway, 0)
    await job.plan("p", [series(0)])
    async with job.worker() as first, job.worker() as second:
        running = await held.start(first)
        assert not await second.run_chunk("p", 0)
        status = await job.status("p")
        assert (status.workers, status.working) == (2, 1)
        held.go_on.set()
        assert await running
    assert gateway.requests == 1
    assert (await job.status("p")).workers == 0


async def test_what_is_sent_once_is_begun_in_the_database_before(
    job: Job, gateway: CountingGateway, dsn: str
) -> None:
    """And no longer while it waits after a refusal."""
    seen: list[dict[int, str]] = []

    async def answer(_: Any) -> httpx.Response | None:
        seen.append(await states(dsn))
        return httpx.Response(429, headers={"Retry-After": "1"}) if len(seen) == 1 else None

    async def sleep(_: float) -> None:
        while there := await states(dsn):
            pass
        seen.append(there)

    gateway.answer = answer
    again = gateways.job(gateway, dsn)
    again._session |= {"sleep": sleep, "retry": RetryPolicy()}
    await again.plan("p", [customer(0)])
    async with again.worker() as worker:
        assert await worker.run_chunk("p", 0)

    assert seen == [{0: "begun"}, {}, {0: "begun"}]
    assert await states(dsn) == {0: "done"}


async def test_what_a_dead_worker_had_begun_is_never_sent_again(
    job: Job, gateway: CountingGateway, dsn: str
) -> None:
    await job.plan("p", [customer(0), series(1)])
    async with Database(dsn) as database:
        dead = await Chunk.claim(database, "either", ("p", 0), lease=60)
        assert dead is not None
    await change(
        dsn,
        "insert into gateway_fleet.result select id, 0, 'begun', true, null, null, 0, 0, %s"
        " from gateway_fleet.plan",
        dead.owner,
    )
    assert (await job.status("p")).begun == 1
    await change(dsn, "update gateway_fleet.chunk set lease = now()")
    async with job.worker() as worker:
        assert await worker.run_chunk("p", 0)

    assert await states(dsn) == {0: "unknown", 1: "done"}
    assert gateway.requests == 1
    status = await job.status("p")
    assert (status.done, status.unknown, status.is_complete) == (1, 1, True)
    (row,) = [row async for row in job.unknown("p")]
    assert (row["item"], row["advice"]) == (customer(0), "check")


async def test_a_worker_whose_process_is_gone_is_seen_at_once(
    job: Job, gateway: CountingGateway, dsn: str
) -> None:
    """Long before its lease ends: its connection has left the server."""
    await job.plan("p", [series(0)])
    async with Database(dsn) as living:
        async with Database(dsn) as dying:
            assert await Chunk.claim(dying, "either", lease=60) is not None
            assert await Chunk.claim(living, "either", lease=60) is None
        while await Chunk.claim(living, "either", lease=60) is None:
            pass  # the server has yet to notice


async def overtake(dsn: str) -> None:
    change_owner = "update gateway_fleet.chunk set owner = %s, lease = now() where number = 0"
    await change(dsn, change_owner, uuid4())


async def test_who_was_overtaken_sends_nothing_more_that_is_sent_once(
    job: Job, gateway: CountingGateway, dsn: str
) -> None:
    """What it finds is not stored; each chunk it had is delivered again, and its run ends once."""
    held = Holding(gateway, 0)

    async def function(session: Any, item: dict[str, Any]) -> Any:
        if "person" in item:
            await held.go_on.wait()
        return await gateways.either(session, item)

    two = gateways.job(gateway, dsn, concurrency=2, function=function)
    await two.plan("p", [series(0), *map(customer, range(1, 16))], chunk=8)
    with patch("gateway_sdk.bulk.run", wraps=bulk.run) as run:
        async with two.worker() as worker:
            running = await held.start(worker)
            queued = asyncio.create_task(worker.run_chunk("p", 1))
            while not worker._queue.qsize():  # noqa: ASYNC110 - a queue tells nobody
                await asyncio.sleep(0)
            await overtake(dsn)
            held.go_on.set()
            assert (await running, await queued) == (False, False)
            assert await states(dsn) == {}
            assert gateway.requests == 1
            assert [await worker.run_chunk("p", n) for n in (0, 1)] == [True, True]  # it goes on

    assert run.call_count == 2
    assert await states(dsn) == dict.fromkeys(range(16), "done")


async def test_who_was_overtaken_still_tells_how_its_call_ended(
    job: Job, gateway: CountingGateway, dsn: str
) -> None:
    held = Holding(gateway, 0)
    await job.plan("p", [customer(0)])
    async with job.worker() as old, job.worker() as new:
        running = await held.start(old)
        await change(dsn, "update gateway_fleet.chunk set lease = now()")
        assert await new.run_chunk("p", 0)
        assert await states(dsn) == {0: "unknown"}
        held.go_on.set()
        await running

    assert await states(dsn) == {0: "done"}
    status = await job.status("p")
    assert (status.done, status.unknown) == (1, 0)


async def test_the_heart_sees_that_a_chunk_was_lost(
    job: Job, gateway: CountingGateway, dsn: str
) -> None:
    """Nothing more is sent for it, also of what may be repeated."""
    held = Holding(gateway, 0)
    one_by_one = gateways.job(gateway, dsn, concurrency=1)
    await one_by_one.plan("p", map(series, range(5)))
    async with one_by_one.worker() as worker:
        running = await held.start(worker)
        await worker._beat()
        await overtake(dsn)
        await worker._beat()
        held.go_on.set()
        assert not await running
    assert gateway.requests == 1


async def test_a_worker_that_stops_keeps_what_is_finished(
    job: Job, gateway: CountingGateway, dsn: str
) -> None:
    """Calls in flight may end; the rest is given back, and nothing is fetched twice."""
    held = Holding(gateway, 4, 5)
    two = gateways.job(gateway, dsn, concurrency=2)
    await two.plan("p", map(series, range(50)))
    async with two.worker() as worker:
        running = await held.start(worker)
        worker.stop()
        for _ in range(50):  # turns of the event loop, in which it notices
            await asyncio.sleep(0)
        held.go_on.set()
        assert not await running
    kept = await states(dsn)
    assert set(kept) >= set(range(6))
    assert len(kept) < 50
    async with two.worker() as worker:
        assert await worker.run_chunk("p", 0)
    assert set(gateway.done.values()) == {1}


async def test_calls_that_do_not_end_are_cut_after_the_grace_time(
    job: Job, gateway: CountingGateway, dsn: str
) -> None:
    """A read is given back; of what is sent once, it is unknown whether it was done."""
    held = Holding(gateway, 0, 1)
    short = gateways.job(gateway, dsn, grace=0.05)
    await short.plan("p", [series(0), customer(1)])
    async with short.worker() as worker:
        running = await held.start(worker)

    assert running.done()
    assert not await running
    assert await states(dsn) == {1: "unknown"}


async def test_a_chunk_that_is_cancelled_is_given_back(
    job: Job, gateway: CountingGateway, dsn: str
) -> None:
    """Calls that it leaves in flight end later: nothing waits to be stored then."""
    held = Holding(gateway, 0)
    await job.plan("p", [series(0)])
    async with job.worker() as worker:
        running = await held.start(worker)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        assert (await job.status("p")).working == 0
        held.go_on.set()
    assert await states(dsn) == {}


async def test_a_chunk_that_is_cancelled_while_it_is_given_back_is_given_back(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()
    release = Chunk.release

    async def slowly(self: Chunk) -> bool:
        began.set()
        await go_on.wait()
        return await release(self)

    monkeypatch.setattr(Chunk, "release", slowly)
    await job.plan("p", [series(0)])
    async with job.worker() as worker:
        running = asyncio.create_task(worker.run_chunk("p", 0))
        await began.wait()
        running.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not worker._chunks
    assert (await job.status("p")).is_complete


@pytest.fixture
def quick_outages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway_sdk.bulk._outage._FIRST_PAUSE", 0.01)
    monkeypatch.setattr("gateway_sdk.bulk._outage._LONGEST_PAUSE", 0.02)


class Login:
    """A source whose token ends in the middle, and that has another one after a login."""

    def __init__(self) -> None:
        self.tokens = ["first"]

    async def token(self, rejected: str | None = None) -> str:
        if rejected == self.tokens[-1]:
            raise LoginRequiredError("run `gateway login`")
        return self.tokens[-1]


@pytest.mark.usefixtures("quick_outages")
@pytest.mark.parametrize(("status", "reason"), [(401, "gateway login"), (503, "503")])
async def test_what_is_away_is_waited_for_by_all_workers(
    job: Job, gateway: CountingGateway, dsn: str, status: int, reason: str
) -> None:
    """A login, or the gateway: the status says it, nothing fails, and the plan is completed."""
    login, refused = Login(), asyncio.Event()

    async def answer(_: Any) -> httpx.Response | None:
        if login.tokens[-1] == "second" or gateway.requests <= 6:
            return None
        if gateway.requests > 20:
            refused.set()
        return httpx.Response(status)

    gateway.answer = answer
    waits = gateways.job(gateway, dsn)
    waits._session["access_token"] = login
    await waits.plan("p", map(series, range(30)), chunk=15)
    async with waits.worker() as one, waits.worker() as other:
        running = [
            asyncio.create_task(worker.run_chunk("p", number))
            for number, worker in enumerate((one, other))
        ]
        await refused.wait()
        for worker in (one, other):
            await worker._beat()
        waiting = (await job.status("p")).waiting
        assert sum(found.workers for found in waiting) == 2
        assert all(reason in found.reason for found in waiting)
        login.tokens.append("second")
        assert all(await asyncio.gather(*running))
        for worker in (one, other):
            await worker._beat()
        assert (await job.status("p")).waiting == ()
    assert (await job.status("p")).done == 30


@pytest.mark.usefixtures("quick_outages")
async def test_an_item_that_always_fails_does_not_hold_up_the_others(
    job: Job, gateway: CountingGateway
) -> None:
    gateway.answer = refusing({3: 500})
    await job.plan("p", map(series, range(10)))
    async with job.worker() as worker:
        assert await worker.run_chunk("p", 0)
    status = await job.status("p")
    assert (status.done, status.failed) == (9, 1)
    assert await job.retry("p") == 1  # it may pass


async def test_a_refused_token_that_cannot_be_renewed_ends_the_worker(
    job: Job, gateway: CountingGateway
) -> None:
    """Whichever queue delivered the chunk; the chunk is given back."""
    gateway.answer = refusing(dict.fromkeys(range(10), 401))
    await job.plan("p", map(series, range(10)), chunk=5)
    with pytest.raises(UnauthorizedError):
        async with job.worker() as worker:
            await worker.run_chunk("p", 0)
    with pytest.raises(UnauthorizedError):
        async with job.worker() as worker:
            await worker.run()
    status = await job.status("p")
    assert (status.missing, status.working) == (10, 0)


async def test_a_heart_that_stops_ends_the_worker(
    job: Job, gateway: CountingGateway, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its chunks would be lost without a word."""

    async def fails(_: Any) -> None:
        raise ArithmeticError

    async with gateways.job(gateway, dsn, lease=0.1).worker() as worker:
        monkeypatch.setattr(Worker, "_beat", fails)
        with pytest.raises(ArithmeticError):
            await worker.run()


class Stop(BaseException): ...


async def ends(_: Any, item: str) -> str:
    """Make a call that ends in one of the ways of a user's code."""
    if item == "stop":
        raise Stop
    if item == "cancel":  # such as a task that two calls share
        raise asyncio.CancelledError
    return item


async def test_a_function_that_would_end_its_worker_fails(
    gateway: CountingGateway, dsn: str
) -> None:
    """Else each worker that takes the chunk would end, one after the other."""
    job = gateways.job(gateway, dsn, function=ends)
    await job.init()
    await job.plan("p", ["stop", "go on"])
    async with job.worker() as worker:
        assert await worker.run_chunk("p", 0)
    assert [row["error"] async for row in job.failed("p")] == ["FunctionExitError"]
    assert (await job.status("p")).done == 1


async def test_chunks_that_are_given_back_hold_up_no_others(
    gateway: CountingGateway, dsn: str
) -> None:
    job = gateways.job(gateway, dsn, function=ends)
    await job.init()
    await job.plan("p", ["cancel", "cancel", "go on", "go on"], chunk=1)
    async with job.worker() as worker:
        running = asyncio.create_task(worker.run())
        while (await job.status("p")).done < 2:
            pass
        worker.stop()
        await running


async def test_a_claim_whose_answer_was_lost_finds_its_chunk(
    job: Job, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Database.run

    async def twice(database: Database, *statement: Any) -> Any:
        await run(database, *statement)
        return await run(database, *statement)

    await job.plan("p", map(series, range(4)), chunk=1)
    async with Database(dsn) as database:
        monkeypatch.setattr(Database, "run", twice)
        taken = [await Chunk.claim(database, job._queue, lease=30) for _ in range(2)]
    assert [one and one.place[1] for one in taken] == [0, 1]


async def test_tables_that_are_gone_end_the_worker(
    job: Job, gateway: CountingGateway, dsn: str
) -> None:
    held = Holding(gateway, 0)
    await job.plan("p", [series(0)])
    async with job.worker() as worker:
        running = await held.start(worker)
        await change(dsn, "drop schema gateway_fleet cascade")
        held.go_on.set()
        with pytest.raises(JournalError, match=r"cannot be used \(UndefinedTable\)"):
            await running


async def test_a_suspected_chunk_is_run_alone_item_by_item(
    job: Job, gateway: CountingGateway, dsn: str
) -> None:
    """Its worker died with it twice. Each item is named in the database before it begins."""
    running: set[int] = set()
    suspects: list[Any] = []
    held, go_on = asyncio.Event(), asyncio.Event()

    async def answer(body: Any) -> None:
        n = number_of(body)
        running.add(n)
        if n == 90:  # of the chunk that began before
            held.set()
            await go_on.wait()
        elif n < 8:
            assert running == {n}
            if not suspects:
                chunks.append(asyncio.create_task(worker.run_chunk("p", 3)))
            rows = await rows_of(dsn, "select suspect from gateway_fleet.chunk order by number")
            suspects.append((n, rows[n // 4][0]))
            assert running == {n}
        running.discard(n)

    gateway.answer = answer
    await job.plan("p", map(series, [*range(8), *range(90, 98)]), chunk=4)
    await change(
        dsn, "update gateway_fleet.chunk set starts = 2, suspect = 2, suspicion = 1 where number=0"
    )
    await change(dsn, "update gateway_fleet.chunk set starts = 2 where number=1")
    async with job.worker() as worker:
        chunks = [asyncio.create_task(worker.run_chunk("p", 2))]
        await held.wait()
        chunks += [asyncio.create_task(worker.run_chunk("p", n)) for n in (0, 1)]
        assert not await worker.run_chunk("p", 2)
        go_on.set()
        while waiting := [chunk for chunk in chunks if not chunk.done()]:
            await asyncio.wait(waiting)

    assert all(chunk.result() for chunk in chunks)
    in_order = sorted(suspects, key=lambda one: one[0] >= 4)
    assert in_order == [(n, n) for n in (2, 0, 1, 3, 4, 5, 6, 7)]  # the suspect first
    assert suspects in (in_order, in_order[4:] + in_order[:4])  # one after the other


@pytest.mark.usefixtures("quick_outages")
async def test_items_that_are_done_alone_wait_while_the_gateway_is_away(
    job: Job, gateway: CountingGateway, dsn: str
) -> None:
    async def answer(_: Any) -> httpx.Response | None:
        return httpx.Response(503) if gateway.requests <= 20 else None

    gateway.answer = answer
    await job.plan("p", map(series, range(8)))
    await change(dsn, "update gateway_fleet.chunk set starts = 2")
    async with job.worker() as worker:
        assert await worker.run_chunk("p", 0)
    assert (await job.status("p")).done == 8


async def test_an_item_that_kills_its_worker_is_named(
    job: Job, gateway: CountingGateway, dsn: str
) -> None:
    await job.plan("p", map(series, range(4)))
    await change(dsn, "update gateway_fleet.chunk set starts = 4, suspect = 2, suspicion = 2")
    async with job.worker() as worker:
        assert await worker.run_chunk("p", 0)

    (row,) = [row async for row in job.failed("p")]
    assert row["number"] == 2
    assert row["message"] == "its worker ended 2 times while it did this item alone"
    assert (await job.status("p")).done == 3
    assert await job.retry("p") == 0


async def test_a_suspected_chunk_is_given_back_when_its_worker_stops(
    job: Job, gateway: CountingGateway, dsn: str
) -> None:
    held = Holding(gateway, 1)
    await job.plan("p", map(series, range(4)))
    await change(dsn, "update gateway_fleet.chunk set starts = 3")
    async with job.worker() as worker:
        running = await held.start(worker)
        worker.stop()
        held.go_on.set()
        assert not await running
    assert await states(dsn) == {0: "done", 1: "done"}


async def test_a_database_that_is_away_is_waited_for(
    job: Job, gateway: CountingGateway, dsn: str, postgres: PostgresServer,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """Nothing of what was found is lost, and nothing is fetched twice."""
    held = Holding(gateway, 0, 1)
    await job.plan("p", map(series, range(6)))
    with caplog.at_level(logging.WARNING, "gateway_sdk.fleet"):
        async with job.worker() as worker:
            running = await held.start(worker)
            postgres.kill()
            held.go_on.set()
            beating = asyncio.create_task(worker._beat())
            await asyncio.to_thread(postgres.start)
            await beating
            assert await running
    assert (await job.status("p")).done == 6
    assert set(gateway.done.values()) == {1}
    texts = [record.getMessage() for record in caplog.records]
    assert any("is away" in text for text in texts)
    assert any("is back" in text for text in texts)


async def test_a_server_that_becomes_read_only_is_waited_for(job: Job, dsn: str) -> None:
    """It was a standby until a moment ago, and is the one that writes in a moment."""
    async with Database(dsn) as database:
        database._address += "?options=-cdefault_transaction_read_only%3Don"
        running = asyncio.create_task(database.run("delete from gateway_fleet.worker"))
        while not database.is_away:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
    assert running.cancelled()


@pytest.mark.usefixtures("job")
async def test_a_server_that_is_read_only_starts_no_worker(dsn: str) -> None:
    with pytest.raises(JournalError, match="may only be read"):
        await Database(f"{dsn}?options=-cdefault_transaction_read_only%3Don").__aenter__()


@pytest.mark.usefixtures("job")
async def test_a_statement_that_lost_a_race_is_run_again(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    await change(dsn, "create sequence runs")
    async with Database(dsn) as database:
        await database.run(
            "do $$ begin if nextval('runs') = 1 then raise using errcode = '40001'; end if; end $$"
        )
    assert await rows_of(dsn, "select nextval('runs')") == [(3,)]
    assert not caplog.records  # it was not away
    with pytest.raises(JournalError, match="the worker was left"):
        await database.run("select 1")


@pytest.mark.parametrize("is_away", [False, True])
async def test_a_cancellation_that_is_dropped_is_not_lost(
    job: Job, dsn: str, monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    """A heart that goes on would let no worker end."""
    async with Database(dsn) as database:
        connected = database._connected

        async def dropping() -> Any:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            if is_away:
                raise psycopg.OperationalError
            return await connected()

        monkeypatch.setattr(database, "_connected", dropping)
        running = asyncio.create_task(database.run("select 1"))
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
    assert running.cancelled()


async def test_a_restarted_database_ends_no_worker(
    job: Job, gateway: CountingGateway, dsn: str, postgres: PostgresServer
) -> None:
    last = Holding(gateway, 1)
    last.go_on.set()
    swift = gateways.job(gateway, dsn, lease=1.2)
    async with swift.worker() as worker:
        running = asyncio.create_task(worker.run())
        postgres.kill()
        await asyncio.to_thread(postgres.start)
        await swift.plan("p", [series(1)])
        await last.wait()
        worker.stop()
        await running
    assert (await job.status("p")).is_complete


async def test_a_ledger_of_a_worker_is_never_asked() -> None:
    ledger = ChunkLedger({})

    assert not ledger.has(b"key")
    with pytest.raises(NotImplementedError):
        await ledger.read([b"key"])


@pytest.mark.parametrize(
    ("limit", "rate", "burst", "most"),
    [
        (RateLimit(1), 0.5, 1, 1),
        (RateLimit(20), 19, 1, 1),
        (RateLimit(200), 190, 10, 1),
        (RateLimit(2000), 1900, 100, 19),
        (RateLimit(600, seconds=60), 9.5, 30, 1),
    ],
)
def test_rate_and_burst_are_never_more_than_the_limit(
    limit: RateLimit, rate: float, burst: float, most: int
) -> None:
    limiter = ReservingLimiter(Database(""), "r", limit)

    assert (limiter._rate, limiter._burst, limiter._most) == (rate, burst, most)
    assert rate * limit.seconds + burst <= limit.requests or limit.requests == 1


class Reserving:
    """The database's answers, in the time of the event loop."""

    def __init__(self, used_until: float) -> None:
        self.used_until = used_until
        self.asked: list[int] = []

    async def run(self, _: str, args: dict[str, Any]) -> list[tuple[float]]:
        assert args["name"] == "r"
        rate, burst, n = args["rate"], args["burst"], args["n"]
        self.asked.append(n)
        await asyncio.sleep(0)
        self.used_until = max(self.used_until, virtual_time.now() - burst / rate) + n / rate
        return [(self.used_until - virtual_time.now(),)]


@pytest.mark.parametrize("used_until", [-1.0, 0.0, 3.0], ids=["burst", "none", "queue"])
def test_permits_are_for_those_that_wait_and_handed_out_in_order(used_until: float) -> None:
    database: Any = Reserving(used_until)
    passed: list[tuple[int, float]] = []

    async def scenario() -> None:
        limiter = ReservingLimiter(database, "r", RateLimit(2000))

        async def pass_it(number: int) -> None:
            await limiter.enter()
            passed.append((number, virtual_time.now()))

        await asyncio.gather(*map(pass_it, range(250)))

    virtual_time.run(scenario())

    assert [number for number, _ in passed] == list(range(250))
    assert sum(database.asked) == 250
    assert max(database.asked) == 19
    rate, first = 1900, max(used_until, -100 / 1900)
    for number, at in passed:
        assert at >= first + (number + 1) / rate - 1e-9
        assert at <= max(used_until, 0.0) + (number + 1) / rate + 1e-9  # evenly is late enough


async def test_the_database_grants_no_more_than_rate_and_burst(job: Job, dsn: str) -> None:
    """Whoever asks: each reservation is later than the one before."""
    async with Database(dsn) as one, Database(dsn) as other:
        limiters = [ReservingLimiter(database, "r", RateLimit(20, 2)) for database in (one, other)]
        waits = [
            await limiter._reserve(n)
            for _ in range(3)
            for limiter, n in zip(limiters, (1, 4), strict=True)
        ]
    assert waits[0] <= 0 < waits[-1]
    assert waits[-1] == pytest.approx(1.5, abs=0.5)  # 15 permits, one of them at once


async def test_a_sign_of_life_is_of_a_job_and_a_machine(
    job: Job, gateway: CountingGateway, dsn: str
) -> None:
    host = socket.gethostname()
    async with job.worker() as worker:
        await worker._beat()
        assert await job.is_alive(host)
        assert not await job.is_alive("elsewhere")
        assert not await gateways.job(gateway, dsn, version="2").is_alive(host)
    assert not await job.is_alive(host)


async def test_a_worker_in_a_scope_of_anyio_leaves_nothing(
    job: Job, gateway: CountingGateway, dsn: str
) -> None:
    """The scope cancels in every turn, also while the worker gives its chunk back."""
    held = Holding(gateway, 0)
    short = gateways.job(gateway, dsn, grace=0.05)
    await short.plan("p", [series(0)])
    with anyio.CancelScope() as scope:
        async with short.worker() as worker:
            running = await held.start(worker)
            scope.cancel()
            await running

    status = await short.status("p")
    assert (status.workers, status.working, status.missing) == (0, 0, 1)


@pytest.mark.usefixtures("job")
async def test_a_statement_that_is_cancelled_keeps_its_connection(dsn: str) -> None:
    """A scope of anyio cancels in every turn; psycopg would close it, or never end."""
    async with Database(dsn) as database:
        before = await database.run("select pg_backend_pid()")
        with anyio.move_on_after(0.05):
            await database.run("select pg_sleep(10)")
        cancelled_once = asyncio.create_task(database.run("select pg_sleep(10)"))
        await asyncio.wait([cancelled_once], timeout=0.05)
        cancelled_once.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled_once

        assert await database.run("select pg_backend_pid()") == before


async def test_who_was_overtaken_stores_all_ends_that_it_knows(job: Job, dsn: str) -> None:
    await job.plan("p", map(customer, range(2)))
    async with Database(dsn) as database:
        chunk = await Chunk.claim(database, "either", ("p", 0), lease=60)
        assert chunk is not None
        ledger = ChunkLedger({n: (chunk, n, None) for n in range(2)})
        begun = [Entry(key=b"", state=State.BEGUN, once=True, item=str(n)) for n in range(2)]
        await ledger.write(begun[:1])
        await overtake(dsn)
        with pytest.raises(OvertakenError) as caught:
            await ledger.write([begun[1], replace(begun[0], state=State.DONE, value="1")])
    assert caught.value.advice is Advice.REPEAT  # else items of other chunks would fail
    assert await states(dsn) == {0: "done"}


async def test_a_big_batch_is_written_in_parts(
    job: Job, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat comes between, on the same connection."""
    monkeypatch.setattr("gateway_sdk.fleet._chunk._ROWS", 2)
    await job.plan("p", map(customer, range(5)))
    async with Database(dsn) as database:
        chunk = await Chunk.claim(database, "either", ("p", 0), lease=60)
        assert chunk is not None
        with patch.object(database, "run", wraps=database.run) as run:
            await chunk.store({n: Entry(key=b"", state=State.DONE, value="1") for n in range(5)})

    assert run.call_count == 3
    assert await states(dsn) == dict.fromkeys(range(5), "done")


async def test_a_worker_behind_a_pooler_counts_as_alive_for_its_lease(
    job: Job, gateway: CountingGateway, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pooler makes up the pid of a connection, which the server has never heard of."""
    monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", 2**30)
    held = Holding(gateway, 0)
    await job.plan("p", [series(0)])
    async with job.worker() as worker, Database(dsn) as database:
        running = await held.start(worker)
        assert await Chunk.claim(database, "either", ("p", 0), lease=60) is None
        await worker._beat()
        assert await rows_of(dsn, "select pid from gateway_fleet.chunk") == [(None,)]
        held.go_on.set()
        assert await running


def test_permits_of_callers_who_were_cancelled_expire() -> None:
    """Else they are used beside the full rate, which the database has given to others since."""
    database: Any = Reserving(0.0)

    async def scenario() -> None:
        limiter = ReservingLimiter(database, "r", RateLimit(2000))
        callers = [asyncio.create_task(limiter.enter()) for _ in range(40)]
        await asyncio.sleep(1.5 / 1900)  # the first has passed, and the second has reserved
        for caller in callers:
            caller.cancel()
        await asyncio.wait(callers)
        await asyncio.sleep(1)
        await limiter.enter()

    virtual_time.run(scenario())

    assert database.asked == [1, 19, 1]


async def test_a_run_that_is_cancelled_stops_its_worker(
    job: Job, gateway: CountingGateway, dsn: str
) -> None:
    held = Holding(gateway, 0)
    short = gateways.job(gateway, dsn, grace=0.05)
    await short.plan("p", [series(0)])
    async with short.worker() as worker:
        running = asyncio.create_task(worker.run())
        await held.wait()
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        assert (await short.status("p")).working == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}
