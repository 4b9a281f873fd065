"""The step: what the store lacks of a chunk is done, once."""

import asyncio
from typing import Any
from unittest.mock import create_autospec

import httpx
import pytest

from gateway_sdk import Advice, GatewaySession, RateLimit, Token
from gateway_sdk.errors import (
    ConfigurationError,
    InvalidArgumentError,
    LoginRequiredError,
    PlanStoreError,
    PoisonChunkError,
    SessionStateError,
)
from gateway_sdk.fleet import Job, Plan
from gateway_sdk.fleet._store import ChunkState, ItemRecord, State
from tests.fleet.gateways import (
    CountingGateway,
    all_done,
    customer,
    customers_job,
    either,
    rates_job,
    records,
    run_all,
    series,
    session,
    states,
)
from tests.fleet.plans import STARTER
from tests.support.memory_store import MemoryStore
from tests.support.virtual_time import run

REFUSED = httpx.Response(503, json={})


async def test_only_what_is_missing_is_done() -> None:
    """A chunk that is delivered twice is done once, also after a part of it."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await rates_job(store).plan(map(series, range(10)), chunk=10)
    known = ItemRecord(index=3, state=State.DONE, item="{}", value="3")
    await store.write_results(plan.record, 0, [known])

    async with session(gateway) as made:
        await plan.run(0, made)
        await plan.run(0, made)

    assert all_done(store, 10)
    assert gateway.requests == 9
    assert sorted(store.stored) == list(range(10))
    assert records(store)[3].value == "3"
    assert records(store)[4].value is not None
    assert records(store)[4].attempts == 1
    assert store.chunks == {}


async def test_results_are_stored_in_batches_while_calls_go_on() -> None:
    """What is stored when a worker dies needs not be done again."""
    store, gateway = MemoryStore(batch=4), CountingGateway()
    plan = await rates_job(store, concurrency=1).plan(map(series, range(10)), chunk=10)
    sizes: list[int] = []

    async def note(operation: str) -> None:
        if operation == "write_results":
            sizes.append(len(store.stored))

    store.after = note
    async with session(gateway) as made:
        await plan.run(0, made)

    assert sizes[0] >= 4
    assert len(sizes) >= 2
    assert sizes[-1] == 10


async def test_what_must_be_sent_once_is_recorded_before() -> None:
    """And its result is stored at once, without waiting for others."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await customers_job(store, concurrency=1).plan(map(customer, range(3)), chunk=3)
    begun: list[Any] = []

    async def note(path: str, body: Any) -> None:
        begun.append([state for state in states(store).values() if state == "begun"])

    gateway.answer = note
    async with session(gateway) as made:
        await plan.run(0, made)

    assert begun[0] == ["begun"]
    assert all_done(store, 3)


async def test_what_another_worker_began_is_not_sent() -> None:
    """Of an item that began before this chunk or while it runs, nothing is known from then on."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await customers_job(store, concurrency=1).plan(map(customer, range(3)), chunk=3)
    await store.begin(plan.record, 0, STARTER)

    async def begin_another(path: str, body: Any) -> None:
        if "c1" in str(body):
            await store.begin(plan.record, 2, STARTER)

    gateway.answer = begin_another
    async with session(gateway) as made:
        await plan.run(0, made)

    assert states(store) == {0: "unknown", 1: "done", 2: "unknown"}
    assert len(gateway.done) == 1


async def test_the_knowledge_of_a_slow_twin_wins() -> None:
    """It replaces what the second delivery had to call unknown."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await customers_job(store).plan([customer(0)])
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def wait(path: str, body: Any) -> None:
        arrived.set()
        await go_on.wait()

    gateway.answer = wait
    async with session(gateway) as made:
        slow = asyncio.create_task(plan.run(0, made))
        await arrived.wait()
        await plan.run(0, made)
        assert states(store) == {0: "unknown"}
        go_on.set()
        await slow

    assert states(store) == {0: "done"}
    assert gateway.requests == 1


async def test_a_failure_before_the_request_leaves_that_of_a_twin_alone() -> None:
    """Else it would be tried again, although the twin's request is under way."""
    store, gateway = MemoryStore(), CountingGateway()
    arrived, go_on = asyncio.Event(), asyncio.Event()
    looks = 0

    async def look_and_create(made: GatewaySession, item: dict[str, Any]) -> Any:
        nonlocal looks
        looks += 1
        if looks == 2:  # after both deliveries have asked the store
            await arrived.wait()
            raise TimeoutError
        return await made.customer.create_customer(item)

    async def wait(path: str, body: Any) -> None:
        arrived.set()
        await go_on.wait()

    gateway.answer = wait
    job = Job("twins", function=look_and_create, store=store)
    plan = await job.plan([customer(0)])
    both = asyncio.Barrier(2)

    async def meet(operation: str) -> None:
        if operation == "known":
            await both.wait()

    store.after = meet
    async with session(gateway) as made:
        twins = [asyncio.create_task(plan.run(0, made)) for _ in range(2)]
        await asyncio.wait(twins, return_when=asyncio.FIRST_COMPLETED)
        assert states(store) == {0: "begun"}
        assert await plan.retry_failed() == 0
        go_on.set()
        await asyncio.gather(*twins)

    assert states(store) == {0: "done"}
    assert gateway.requests == 1


async def test_a_lost_reply_of_what_must_be_sent_once_is_unknown() -> None:
    """It has to be looked into, as that of a worker that died; one that reads has just failed."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await Job("mixed", function=either, store=store).plan([customer(0), series(1)])

    async def lose(path: str, body: Any) -> None:
        raise httpx.ReadError("secret")

    gateway.after = lose
    async with session(gateway) as made:
        await plan.run(0, made)

    lost, read = records(store)
    assert (lost.state, read.state) == (State.UNKNOWN, State.FAILED)
    assert lost.failure is not None
    assert lost.failure.error == "ReplyLostError"
    assert "secret" not in str(store.states)
    unknown = [record async for record in plan.unknown()]
    assert [record.index for record in unknown] == [0]
    assert "firstName" not in repr(unknown)


async def test_errors_are_those_of_their_items() -> None:
    """Of the gateway and of functions, without their texts; and values that are no JSON."""
    store, gateway = MemoryStore(), CountingGateway()

    async def work(made: Any, item: Any) -> Any:
        if item == 1:
            raise KeyError("secret")
        if item == 2:
            return object()
        return await made.currency.exchange_rate_series(**series(item))

    async def refuse(path: str, body: Any) -> httpx.Response | None:
        return REFUSED if body["base"] == "B3" else None

    gateway.answer = refuse
    plan = await Job("mixed", function=work, store=store).plan(range(4))
    async with session(gateway) as made:
        await plan.run(0, made)

    assert states(store) == {0: "done", 1: "failed", 2: "failed", 3: "failed"}
    failures = [record.failure for record in records(store)[1:]]
    assert [failure and failure.error for failure in failures] == [
        "KeyError",
        "GatewayError",
        "ServerError",
    ]
    assert failures[1] is not None
    assert "the value is no JSON" in str(failures[1].message)
    assert "secret" not in str(store.states)
    assert (await plan.status()).failed == {
        "KeyError": 1,
        "GatewayError": 1,
        "ServerError 503": 1,
    }


async def test_a_second_request_of_an_item_needs_no_second_record() -> None:
    """A function may create a customer, and then revise it."""
    store, gateway = MemoryStore(), CountingGateway()

    async def work(made: Any, item: Any) -> Any:
        await made.customer.create_customer(customer(item))
        return await made.customer.revise_customer(f"c{item}", {"a": "b"})

    plan = await Job("both", function=work, store=store).plan(range(2))
    async with session(gateway) as made:
        await plan.run(0, made)

    assert all_done(store, 2)
    assert gateway.requests == 4


async def test_a_cancelled_chunk_ends_its_calls_and_stores_them() -> None:
    """No new ones start; what was stored stays, and the start does not count."""
    store, gateway = MemoryStore(batch=100), CountingGateway()
    plan = await rates_job(store, concurrency=2).plan(map(series, range(10)), chunk=10)
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def wait(path: str, body: Any) -> None:
        if gateway.requests == 4:
            arrived.set()
        if gateway.requests > 2:
            await go_on.wait()

    gateway.answer = wait
    async with session(gateway) as made:
        running = asyncio.create_task(plan.run(0, made))
        await arrived.wait()
        running.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert len(states(store)) == 4
        assert gateway.requests == 4
        assert store.chunks == {}
        await plan.run(0, made)
    assert all_done(store, 10)
    assert gateway.requests == 10


def test_what_was_not_sent_is_missing_again() -> None:
    """A worker ends while items wait for a permit, or to be sent again: none becomes unknown."""
    store, gateway = MemoryStore(), CountingGateway()

    async def refuse_one(path: str, body: Any) -> httpx.Response | None:
        return httpx.Response(429, headers={"retry-after": "60"}) if "c1" in str(body) else None

    async def both() -> None:
        job = customers_job(store, grace=1.0, concurrency=4)
        plan = await job.plan(map(customer, range(4)), chunk=4)
        gateway.answer = refuse_one
        async with session(gateway, rate_limit=RateLimit(2, 60)) as made:
            running = asyncio.create_task(plan.run(0, made))
            await asyncio.sleep(1)
            running.cancel()
            await asyncio.wait([running])
        assert states(store) == {0: "done"}
        gateway.answer = None
        async with session(gateway) as made:
            await run_all(plan, made)

    run(both())
    assert all_done(store, 4)
    assert set(gateway.done.values()) == {1}


def test_calls_that_do_not_end_in_time_are_cut() -> None:
    """What may have been sent stays begun, and is unknown at the next delivery."""
    store, gateway = MemoryStore(), CountingGateway()

    async def wait(path: str, body: Any) -> None:
        await asyncio.sleep(1000)

    async def cancel_twice(plan: Plan) -> float:
        gateway.answer = wait
        loop = asyncio.get_running_loop()
        async with session(gateway) as made:
            running = asyncio.create_task(plan.run(0, made))
            await asyncio.sleep(1)
            running.cancel()
            await asyncio.wait([running])
            took = loop.time() - 1
            again = asyncio.create_task(plan.run(1, made))
            await asyncio.sleep(1)
            again.cancel()
            await asyncio.sleep(1)
            again.cancel()
            await asyncio.wait([again])
            assert loop.time() < took + 4
        return took

    async def both() -> None:
        plan = await customers_job(store, grace=3.0).plan([customer(0), customer(1)], chunk=1)
        assert await cancel_twice(plan) == pytest.approx(3)
        assert states(store) == {0: "begun", 1: "begun"}
        gateway.answer = None
        async with session(gateway) as made:
            await run_all(plan, made)
        assert states(store) == {0: "unknown", 1: "unknown"}

    run(both())
    assert sum(gateway.done.values()) == 0


async def test_a_chunk_that_never_ends_is_given_up() -> None:
    """It is in the status, and gets a new chance when the plan is submitted again."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await rates_job(store, max_starts=2).plan(map(series, range(4)), chunk=2)
    for _ in range(2):  # workers that die
        await store.start_chunk(plan.record, 1)

    async with session(gateway) as made:
        with pytest.raises(PoisonChunkError, match="chunk 1 of 'rates' was started 2 times"):
            await plan.run(1, made)
        (broken,) = (await plan.status()).broken
        assert (broken.chunk, broken.message) == (1, "started 2 times without an end")
        assert gateway.requests == 0

        sent: list[int] = []

        async def send(address: str, chunk: int) -> None:
            sent.append(chunk)

        assert await plan.submit(send) == 2
        assert sent == [0, 1]
        await run_all(plan, made)
    assert all_done(store, 4)


async def test_an_error_that_is_not_of_an_item_ends_the_chunk() -> None:
    """The status shows it; no item is called failed."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await rates_job(store).plan(map(series, range(4)))
    made = session(gateway)
    await made.aclose()

    with pytest.raises(SessionStateError):
        await plan.run(0, made)

    status = await plan.status()
    assert (status.missing, status.running) == (4, 0)
    assert "closed" in status.broken[0].message


@pytest.mark.parametrize("operation", ["begin", "write_results", "settle_unknown"])
async def test_a_store_that_fails_ends_the_chunk(operation: str) -> None:
    """Its error is that of the chunk; what was stored stays, and the rest is done later."""
    store, gateway = MemoryStore(batch=1), CountingGateway()
    plan = await customers_job(store, concurrency=1).plan(map(customer, range(4)), chunk=4)
    await store.begin(plan.record, 0, STARTER)
    calls = 0

    async def fail(name: str) -> None:
        nonlocal calls
        calls += name == operation
        if name == operation and calls == (1 if operation == "settle_unknown" else 2):
            raise PlanStoreError("the store is full")

    store.before = fail
    async with session(gateway) as made:
        with pytest.raises(PlanStoreError, match="is full"):
            await plan.run(0, made)
        await plan.run(0, made)

    assert set(states(store).values()) <= {"done", "unknown"}
    assert set(gateway.done.values()) == {1}
    assert len(states(store)) == 4


async def test_an_error_of_the_function_s_own_store_is_named_by_its_class() -> None:
    """Its text may show an item."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await rates_job(store).plan([series(0)])

    async def fail(name: str) -> None:
        if name in {"write_results", "clear_chunk"}:
            raise KeyError("secret")

    store.before = fail
    async with session(gateway) as made:
        with pytest.raises(KeyError):
            await plan.run(0, made)

    assert [record.message for record in (await plan.status()).broken] == ["KeyError"]


async def test_a_last_word_that_cannot_be_said_is_left_out() -> None:
    """The error of the chunk matters more."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await rates_job(store).plan([series(0)])

    async def fail(name: str) -> None:
        if name in {"write_results", "mark_chunk"}:
            raise PlanStoreError(name)

    store.before = fail
    async with session(gateway) as made:
        with pytest.raises(PlanStoreError, match="write_results"):
            await plan.run(0, made)


async def test_changed_items_are_not_done() -> None:
    """Somebody wrote over the plan."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await rates_job(store).plan(map(series, range(4)), chunk=2)
    store.items["rates", plan.record.id][1].pop()

    async with session(gateway) as made:
        with pytest.raises(PlanStoreError, match="should have 2 items and has 1"):
            await plan.run(1, made)


@pytest.mark.parametrize("chunk", [-1, 2, True, "1"])
async def test_there_is_no_such_chunk(chunk: Any) -> None:
    """It is refused by its number."""
    plan = await rates_job().plan(map(series, range(4)), chunk=2)

    async with session(CountingGateway()) as made:
        with pytest.raises(InvalidArgumentError, match="from 0 to 1"):
            await plan.run(chunk, made)


async def test_a_session_that_cannot_do_it_is_refused() -> None:
    """Before the first item: none of them is to blame."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await customers_job(store).plan([customer(0)])

    with pytest.raises(InvalidArgumentError, match="must be a GatewaySession"):
        await plan.run(0, None)  # type: ignore[arg-type]
    async with session(gateway) as made:
        with pytest.raises(ConfigurationError, match="create_customer needs a tenant"):
            await plan.run(0, made.with_options(tenant_id=None))
    assert (store.states, gateway.requests) == ({}, 0)
    double = create_autospec(GatewaySession, instance=True)
    double.customer.create_customer.return_value = {"id": 1}
    await plan.run(0, double)
    assert all_done(store, 1)


class Tokens:
    """A token source that needs a login."""

    def __init__(self) -> None:
        self.is_logged_in = False
        self.asked = 0

    async def token(self, rejected: Token | None = None) -> str:
        self.asked += 1
        if not self.is_logged_in:
            raise LoginRequiredError("run `gateway login`")
        return "new"


def test_a_plan_waits_for_a_login(caplog: Any) -> None:
    """The status says so, nothing is sent or begun, and it goes on without a restart."""
    store, gateway, tokens = MemoryStore(), CountingGateway(), Tokens()

    async def whole() -> None:
        plan = await customers_job(store, max_starts=1).plan(map(customer, range(20)), chunk=10)
        async with session(gateway, access_token=tokens) as made:
            running = [asyncio.create_task(plan.run(chunk, made)) for chunk in range(2)]
            await asyncio.sleep(3600)
            status = await plan.status()
            assert status.waiting == "waiting for a login: run `gateway login`"
            assert (status.missing, status.begun, gateway.requests) == (20, 0, 0)
            assert tokens.asked < 1000
            tokens.is_logged_in = True
            await asyncio.gather(*running)
        assert (await plan.status()).waiting == ""

    run(whole())
    assert all_done(store, 20)
    assert set(gateway.done.values()) == {1}
    assert caplog.text.count("there is a token again") == 1


def test_a_token_that_the_gateway_refuses_is_waited_for() -> None:
    """The worker may have to be started again with another; no item fails meanwhile."""
    store, gateway = MemoryStore(), CountingGateway()

    async def refuse(path: str, body: Any) -> httpx.Response:
        return httpx.Response(401, json={})

    async def whole() -> None:
        plan = await rates_job(store).plan(map(series, range(5)))
        gateway.answer = refuse
        async with session(gateway) as made:
            running = asyncio.create_task(plan.run(0, made))
            await asyncio.sleep(100)
            assert "start the workers again with another" in (await plan.status()).waiting
            gateway.answer = None
            await running

    run(whole())
    assert all_done(store, 5)


async def test_what_was_made_is_not_made_again_for_want_of_a_token() -> None:
    """A function whose first call was sent fails if its second has no token."""
    store, gateway, tokens = MemoryStore(), CountingGateway(), Tokens()
    tokens.is_logged_in = True

    async def work(made: Any, item: Any) -> Any:
        await made.customer.create_customer(customer(item))
        tokens.is_logged_in = False
        return await made.customer.revise_customer(f"c{item}", {"a": "b"})

    plan = await Job("both", function=work, store=store, concurrency=1).plan([1])
    async with session(gateway, access_token=tokens) as made:
        await plan.run(0, made)

    (record,) = records(store)
    assert (record.state, gateway.requests) == (State.FAILED, 1)
    assert record.failure is not None
    assert record.failure.advice is Advice.CHECK


async def test_a_call_in_another_event_loop_is_not_sent() -> None:
    """The store could not record it."""
    store, gateway = MemoryStore(), CountingGateway()

    async def work(_: Any, item: Any) -> None:
        async def elsewhere() -> None:
            async with session(gateway) as made:
                await made.customer.create_customer(customer(item))

        await asyncio.to_thread(asyncio.run, elsewhere())

    plan = await Job("threads", function=work, store=store).plan([1])
    async with session(gateway) as made:
        with pytest.raises(SessionStateError, match="in another event loop than its chunk"):
            await plan.run(0, made)

    assert gateway.requests == 0


async def test_chunks_of_a_process_share_their_concurrency() -> None:
    """Two chunks at once make no more calls than one."""
    store, gateway = MemoryStore(), CountingGateway()
    plan = await rates_job(store, concurrency=3).plan(map(series, range(40)), chunk=10)
    running = most = 0

    async def count(path: str, body: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running -= 1

    gateway.answer = count
    async with session(gateway) as made:
        await asyncio.gather(*(plan.run(chunk, made) for chunk in range(4)))

    assert most == 3
    assert all_done(store, 40)
    assert ChunkState.RUNNING not in {record.state for record in store.chunks.values()}
