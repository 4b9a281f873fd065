"""Jobs and plans: planned once, submitted as often as one likes, and looked at in the store."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from pyarrow import parquet  # type: ignore[import-untyped]

from gateway_sdk import GatewaySession, RateLimit
from gateway_sdk.bulk import Adaptive
from gateway_sdk.errors import (
    ConfigurationError,
    InvalidArgumentError,
    PlanStoreError,
    SessionStateError,
)
from gateway_sdk.fleet import Job
from gateway_sdk.fleet._store import ChunkState
from tests.fleet.gateways import (
    ADDRESS,
    CountingGateway,
    all_done,
    customer,
    customers_job,
    either,
    rates_job,
    run_all,
    series,
    session,
)
from tests.fleet.plans import STARTER, done
from tests.support.memory_store import MemoryStore


async def test_a_plan_is_stored_in_chunks() -> None:
    """The last one has what is left; the iterable is read as it is stored."""
    store = MemoryStore()
    written: list[int] = []
    taken = 0

    async def note(operation: str) -> None:
        if operation == "write_items":
            written.append(taken)

    def items() -> Iterator[Any]:
        nonlocal taken
        for taken in range(1000):
            yield series(taken)

    store.after = note
    plan = await rates_job(store).plan(items(), chunk=7)

    assert (plan.record.items, plan.record.chunks, plan.record.chunk_size) == (1000, 143, 7)
    assert await store.read_items(plan.record, 142) == [
        json.dumps(series(number), separators=(",", ":"), sort_keys=True)
        for number in range(994, 1000)
    ]
    assert written[0] < 100
    assert [chunk async for chunk in plan.missing()] == list(range(143))
    assert plan.address == f"rates#{plan.record.id}"


async def test_an_asynchronous_iterable_is_planned_too() -> None:
    """It may come from a database."""

    async def items() -> AsyncIterator[Any]:
        for number in range(3):
            await asyncio.sleep(0)
            yield series(number)

    assert (await rates_job().plan(items())).record.items == 3


async def test_planning_again_finds_the_same_plan() -> None:
    """And nothing is written; another process finds it by the name of the job."""
    store = MemoryStore()
    first = await rates_job(store).plan(map(series, range(5)), chunk=2)
    again = await rates_job(store).plan(map(series, range(5)), chunk=2)
    loaded = await rates_job(store).load()

    assert first.record == again.record == loaded.record
    assert len(store.items) == 1


@pytest.mark.parametrize(
    ("items", "chunk", "message"),
    [
        (range(1, 6), 2, "other items or another order"),
        (range(4, -1, -1), 2, "other items or another order"),
        (range(6), 2, "has 5 items, and this 6"),
        (range(5), 3, "chunks of 2 items, and this of 3"),
    ],
)
async def test_another_plan_of_the_same_name_is_refused(
    items: Any, chunk: int, message: str
) -> None:
    """The message says what differs, and nothing is changed."""
    store = MemoryStore()
    await rates_job(store).plan(map(series, range(5)), chunk=2)

    with pytest.raises(PlanStoreError, match=f"{message}; give the new job a name"):
        await rates_job(store).plan(map(series, items), chunk=chunk)
    assert len(store.items) == 1


async def test_a_plan_of_another_operation_is_refused() -> None:
    """When it is planned, when it is loaded, and by a worker whose file names another one."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await rates_job(store).plan(map(series, range(5)))
    ours: Any = {**OURS, "transport": gateway}
    other = Job("rates", function=either, store=store, session=ours)

    with pytest.raises(PlanStoreError, match=r"is for exchange_rate_series, and this is for eith"):
        await other.plan(map(series, range(5)))
    with pytest.raises(PlanStoreError, match=r"for exchange_rate_series, and the job for either"):
        await other.load()
    async with other.worker() as worker:
        with pytest.raises(PlanStoreError, match=r"for exchange_rate_series, and the job for eith"):
            await worker.run(plan.address, 0)
    assert gateway.requests == 0


async def test_a_plan_of_another_version_is_refused() -> None:
    """It is stored in another way."""
    store = MemoryStore()
    plan = await rates_job(store).plan(map(series, range(5)))
    object.__setattr__(store.plans["rates"], "version", 2)

    for again in (rates_job(store).plan(map(series, range(5))), rates_job(store).load()):
        with pytest.raises(PlanStoreError, match="stored in version 2, and this is for 1"):
            await again
    async with Job(
        "rates", operation="exchange_rate_series", store=store, session=OURS
    ).worker() as w:
        with pytest.raises(PlanStoreError, match="stored in version 2"):
            await w.run(plan.address, 0)


@pytest.mark.parametrize("how", ["items", "store", "cancelled"])
async def test_a_plan_that_broke_off_does_not_exist(how: str) -> None:
    """Its items are deleted, and planning again is safe."""
    store = MemoryStore()

    async def fail(operation: str) -> None:
        if operation == "write_items" and how == "store":
            raise PlanStoreError("the store is full")
        if operation == "write_items" and how == "cancelled":
            planning.cancel()

    def items() -> Iterator[Any]:
        yield from map(series, range(10))
        if how == "items":
            raise KeyError

    store.before = fail
    planning = asyncio.create_task(rates_job(store).plan(items(), chunk=2))
    (outcome,) = await asyncio.gather(planning, return_exceptions=True)

    expected = {"items": KeyError, "store": PlanStoreError, "cancelled": asyncio.CancelledError}
    assert isinstance(outcome, expected[how])
    assert store.items == {}
    with pytest.raises(PlanStoreError, match="no plan 'rates': it was not planned"):
        await rates_job(store).load()
    store.before = MemoryStore().before
    assert (await rates_job(store).plan(map(series, range(10)))).record.items == 10


async def test_what_was_sealed_keeps_its_items() -> None:
    """Also if the answer of the store was lost: the plan can be loaded and run."""
    store, gateway = MemoryStore(), CountingGateway()

    async def fail(operation: str) -> None:
        if operation == "seal":
            raise PlanStoreError(operation)

    store.after = fail
    with pytest.raises(PlanStoreError, match="seal"):
        await rates_job(store).plan(map(series, range(3)))

    plan = await rates_job(store).load()
    async with session(gateway) as made:
        await plan.run(0, made)
    assert all_done(store, 3)


async def test_a_store_that_cannot_even_discard_tells_the_first_error() -> None:
    """The items stay until the next plan of this name is sealed."""
    store = MemoryStore()

    async def fail(operation: str) -> None:
        if operation != "find_plan":
            raise PlanStoreError(operation)

    store.before = fail
    with pytest.raises(PlanStoreError, match="write_items"):
        await rates_job(store).plan([series(1)])


async def test_of_two_planners_the_first_wins() -> None:
    """The second finds that its plan is the same."""
    store = MemoryStore()
    both = [rates_job(store).plan(map(series, range(50)), chunk=5) for _ in range(2)]
    first, second = await asyncio.gather(*both)

    assert first.record == second.record
    assert len(store.items) == 1


@pytest.mark.parametrize(
    ("items", "chunk", "message"),
    [
        ([], 100, "there are no items"),
        ("EUR", 100, "must be an iterable of items"),
        (5, 100, "must be an iterable of items"),
        ([series(1)], 0, "from 1 to 100000"),
        ([series(1)], 100_001, "from 1 to 100000"),
        ([series(1)], True, "must be a whole number"),
        ([series(1)], "5", "must be a whole number"),
        ([series(1), series(2), {"base": "EUR"}], 100, "item 2: exchange_rate_series: missing"),
    ],
)
async def test_wrong_plans_are_refused(items: Any, chunk: Any, message: str) -> None:
    """With the number of the item, and before anything is sealed."""
    store = MemoryStore()

    with pytest.raises(InvalidArgumentError, match=message):
        await rates_job(store).plan(items, chunk=chunk)
    assert store.plans == {}


async def test_equal_items_that_must_be_made_once_are_refused() -> None:
    """Whatever the order of their members; those that only read may be equal."""
    one, other = (
        {"person": {"email": "a", "gender": "b"}},
        {"person": {"gender": "b", "email": "a"}},
    )

    with pytest.raises(InvalidArgumentError, match="item 2: it is equal to item 0, and each would"):
        await customers_job().plan([one, customer(1), other])
    assert (await rates_job().plan([series(1), series(1)])).record.items == 2


OURS: Any = {"base_url": ADDRESS, "access_token": "t", "tenant_id": "acme"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": ""}, "name must be"),
        ({"name": "a/b"}, "name must be"),
        ({"name": ".."}, "name must be"),
        ({"name": 3}, "name must be"),
        ({"operation": "rates"}, "operation must be one of"),
        ({"store": None}, "store must be a PostgresStore"),
        ({"concurrency": 0}, "concurrency must be"),
        ({"max_starts": 0}, "max_starts must be"),
        ({"grace": -1}, "grace must be"),
        ({"session": "x"}, "session must be a dict"),
        ({"session": {"rate_limit": None}, "rate_limit": RateLimit(1, 1.0)}, "given twice"),
    ],
)
def test_wrong_settings_are_refused(settings: Any, message: str) -> None:
    """When the job is made."""
    given = {"name": "x", "operation": "order_history", "store": MemoryStore(), **settings}

    with pytest.raises(ConfigurationError, match=message):
        Job(given.pop("name"), **given)


async def test_sessions_have_the_settings_of_the_job() -> None:
    """And those of the environment."""
    store = MemoryStore()
    job = rates_job(store, session=OURS, rate_limit=RateLimit(5, 1.0), concurrency=Adaptive())

    async with job, job.gateway() as made:
        assert isinstance(made, GatewaySession)
        assert store.is_open == 1
    assert job.name == "rates"
    assert store.is_open == 0
    with pytest.raises(ConfigurationError, match="tokn"):
        rates_job(session={"access_tokn": "x"}).gateway()


async def test_a_worker_runs_what_messages_say() -> None:
    """With one session; it takes messages of its own plan only."""
    store, gateway = MemoryStore(), CountingGateway()
    job = rates_job(store, session={**OURS, "transport": gateway, "retry": None})
    plan = await job.plan(map(series, range(6)), chunk=2)
    worker = job.worker()

    with pytest.raises(SessionStateError, match=r"async with job\.worker"):
        await worker.run(plan.address, 0)
    async with worker:
        async for chunk in plan.missing():
            await worker.run(plan.address, chunk)
        with pytest.raises(InvalidArgumentError, match="planned anew after the message was sent"):
            await worker.run("rates#0", 0)
        with pytest.raises(InvalidArgumentError, match="from 0 to 2"):
            await worker.run(plan.address, 3)
    assert all_done(store, 6)
    assert store.is_open == 0
    async with rates_job(session=OURS).worker() as other:
        with pytest.raises(InvalidArgumentError, match="has no such plan of 'rates'"):
            await other.run(plan.address, 0)


async def test_a_worker_knows_what_is_done_of_other_jobs() -> None:
    """As far as they are in the same store: every item has a result, and none is under way."""
    store = MemoryStore()
    plan = await rates_job(store).plan(map(series, range(4)), chunk=2)
    await store.write_results(plan.record, 0, [done(0), done(1)])
    await store.write_results(plan.record, 1, [done(2)])
    async with Job("other", function=either, store=store, session=OURS).worker() as worker:
        assert await worker.has_done(plan.address, 0)
        assert not await worker.has_done(plan.address, 1)
        await store.begin(plan.record, 3, STARTER)
        assert not await worker.has_done(plan.address, 1)
        assert not await worker.has_done("rates#0", 0)
        assert not await worker.has_done("unheard#0", 0)


async def test_submitting_sends_what_the_store_lacks() -> None:
    """Each chunk once, a few at a time."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await rates_job(store).plan(map(series, range(200)), chunk=2)
    sent: list[tuple[str, int]] = []

    async def send(address: str, chunk: int) -> None:
        await asyncio.sleep(0)
        sent.append((address, chunk))

    async with session(gateway) as made:
        await plan.run(17, made)
    assert await plan.submit(send) == 99
    assert sorted(sent) == [(plan.address, chunk) for chunk in range(100) if chunk != 17]


async def test_only_chunks_that_are_broken_get_a_new_chance() -> None:
    """The starts of those that run now still count."""
    store = MemoryStore()
    plan = await rates_job(store).plan(map(series, range(4)), chunk=2)
    await store.start_chunk(plan.record, 0)
    await store.mark_chunk(plan.record, 1, ChunkState.BROKEN, "")

    async def send(address: str, chunk: int) -> None: ...

    await plan.submit(send)
    assert [chunk for _, chunk in store.chunks] == [0]


@pytest.mark.parametrize("broker", [None, "amqp://x"])
async def test_what_is_no_broker_is_refused(broker: Any) -> None:
    """Before the store is asked."""
    plan = await rates_job().plan([series(1)])

    with pytest.raises(InvalidArgumentError, match=r"or a coroutine function of \(address, chunk"):
        await plan.submit(broker)


async def test_failures_can_be_tried_again() -> None:
    """Those that are safe to repeat."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await rates_job(store).plan(map(series, range(6)), chunk=2)

    async def refuse(path: str, body: Any) -> Any:
        raise ValueError

    gateway.answer = refuse
    async with session(gateway) as made:
        await plan.run(1, made)
        assert (await plan.status()).missing == 4
        assert await plan.retry_failed() == 2
        gateway.answer = None
        await run_all(plan, made)
    assert all_done(store, 6)


async def test_the_status_is_that_of_the_store() -> None:
    """Items by their state, chunks under way, and what it waits for."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await customers_job(store).plan(map(customer, range(9)), chunk=3)
    async with session(gateway) as made:
        await plan.run(0, made)
    await store.begin(plan.record, 3, STARTER)
    await store.begin(plan.record, 4, STARTER)
    await store.settle_unknown(plan.record, [4])
    await store.start_chunk(plan.record, 1)
    await store.mark_chunk(plan.record, 2, ChunkState.WAITING, "waiting for a login")

    status = await plan.status()

    assert (status.items, status.done, status.failed) == (9, 3, {})
    assert (status.begun, status.unknown, status.missing) == (1, 1, 4)
    assert (status.running, status.waiting, status.broken) == (1, "waiting for a login", ())
    assert not status.is_complete


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_results_are_collected_into_one_file(tmp_path: Path) -> None:
    """In the order of the plan, when nothing is missing or if a part is wanted."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await rates_job(store).plan(map(series, range(5)), chunk=2)

    async def refuse(path: str, body: Any) -> Any:
        if body["base"] == "B3":
            raise ValueError

    gateway.answer = refuse
    place = tmp_path / "rates.parquet"
    async with session(gateway) as made:
        await plan.run(1, made)
        with pytest.raises(PlanStoreError, match="3 of 5 items have no result yet"):
            await plan.collect(place)
        assert not place.exists()
        assert await plan.collect(place, partial=True) == 2
        await run_all(plan, made)
    assert await plan.collect(str(place)) == 5

    rows = parquet.read_table(place).to_pylist()
    assert [row["index"] for row in rows] == list(range(5))
    assert [row["state"] for row in rows] == ["done"] * 3 + ["failed", "done"]
    assert json.loads(rows[4]["item"]) == series(4)
    assert json.loads(rows[4]["value"])["seen"]["base"] == "B4"
    assert rows[3]["error"] is not None
    assert rows[3]["advice"] == "repeat"
    assert names_in(tmp_path) == ["rates.parquet"]


async def test_two_may_collect_into_the_same_file_at_once(tmp_path: Path) -> None:
    """Each has a draft of its own."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await rates_job(store).plan(map(series, range(3)), chunk=3)
    async with session(gateway) as made:
        await plan.run(0, made)
    place = tmp_path / "rates.parquet"

    first, second = await asyncio.gather(plan.collect(place), plan.collect(place))

    assert (first, second) == (3, 3)
    assert parquet.read_table(place).num_rows == 3
    assert names_in(tmp_path) == ["rates.parquet"]


async def test_a_collection_that_lacks_something_is_an_error(tmp_path: Path) -> None:
    """All was there a moment ago, and then somebody had failures tried again."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await rates_job(store).plan(map(series, range(3)), chunk=3)
    async with session(gateway) as made:
        await plan.run(0, made)

    async def forget(operation: str) -> None:
        if operation == "results":
            store.states.popitem()

    store.before = forget
    with pytest.raises(PlanStoreError, match="gave 2 of 3 results"):
        await plan.collect(tmp_path / "rates.parquet")

    assert names_in(tmp_path) == []
    assert await plan.collect(tmp_path / "rates.parquet", partial=True) == 1


async def test_a_file_that_cannot_be_collected_is_not_there(tmp_path: Path) -> None:
    """Neither a part of it nor under another name."""
    store = MemoryStore()
    plan = await rates_job(store).plan(map(series, range(5)))

    with pytest.raises(InvalidArgumentError, match=r"must end in \.parquet"):
        await plan.collect(tmp_path / "rates.csv", partial=True)
    with pytest.raises(FileNotFoundError):
        await plan.collect(tmp_path / "nowhere" / "rates.parquet", partial=True)

    async def fail(operation: str) -> None:
        if operation == "results":
            raise PlanStoreError(operation)

    store.before = fail
    with pytest.raises(PlanStoreError):
        await plan.collect(tmp_path / "rates.parquet", partial=True)
    assert names_in(tmp_path) == []


async def test_a_cancelled_collection_ends_its_thread_first(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """The file is closed when nothing is written to it any more."""
    said: list[str] = []
    entered, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    class SlowWriter:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            said.append("closed")

        def write_table(self, _: object) -> None:
            loop.call_soon_threadsafe(entered.set)
            go_on.wait(30)
            said.append("written")

    monkeypatch.setattr("gateway_sdk.fleet._collect.open_writer", lambda _: SlowWriter())
    store, gateway = MemoryStore(), CountingGateway()
    plan = await rates_job(store).plan(map(series, range(3)))
    async with session(gateway) as made:
        await plan.run(0, made)

    collecting = asyncio.create_task(plan.collect(tmp_path / "rates.parquet"))
    await entered.wait()
    collecting.cancel()
    loop.call_later(0.01, go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await collecting
    assert said == ["written", "closed"]


async def test_large_results_are_written_in_groups(tmp_path: Path, monkeypatch: Any) -> None:
    """So that memory does not grow with them."""
    monkeypatch.setattr("gateway_sdk.fleet._collect._GROUP_ROWS", 3)
    store, gateway = MemoryStore(), CountingGateway()
    plan = await rates_job(store).plan(map(series, range(9)))
    async with session(gateway) as made:
        await plan.run(0, made)

    assert await plan.collect(tmp_path / "rates.parquet") == 9
    assert parquet.ParquetFile(tmp_path / "rates.parquet").num_row_groups == 3
