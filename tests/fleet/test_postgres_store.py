"""PostgresStore, with a real server."""

import asyncio
import pickle
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import uuid4

import pytest

from gateway_sdk import ConfigurationError, PlanStoreError
from gateway_sdk.fleet import PostgresStore, _postgres_store as module
from gateway_sdk.fleet._store import ChunkState, Counts, State, Store, is_store
from tests.fleet.plans import STARTER, a_plan, all_results, begun, done, failed, stored, texts
from tests.support.postgres_server import NEEDS_POSTGRES, PostgresServer
from tests.support.secrecy import CANARY

pytestmark = NEEDS_POSTGRES


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(dsn)
    await store.open()
    yield store
    await store.aclose()


def test_it_is_a_store() -> None:
    """It has what the protocol asks for, for type checkers too."""
    store: Store = PostgresStore(f"postgresql://fleet:{CANARY}@127.0.0.1/plans")

    assert is_store(store)
    assert store.batch == 25


async def test_a_plan_is_there_when_it_is_sealed(store: PostgresStore) -> None:
    """What was planned to its end is found, with its items in their order."""
    plan = a_plan()
    await store.write_items(plan.name, plan.id, 0, ["1"])
    unsealed = await store.find_plan(plan.name)

    sealed = await stored(store, plan)

    assert unsealed is None
    assert sealed == await store.find_plan(plan.name) == plan
    assert [await store.read_items(plan, chunk) for chunk in range(3)] == [
        texts(plan, chunk) for chunk in range(3)
    ]


async def test_the_first_of_two_plans_is_that_of_the_name(store: PostgresStore) -> None:
    """Whoever is slower gets the plan of the faster one, and its own items are deleted."""
    faster, slower, late = a_plan(), a_plan(), a_plan()
    await store.write_items(slower.name, slower.id, 0, ["1"])
    await stored(store, faster)
    await store.write_items(late.name, late.id, 0, ["1"])
    await store.discard(late.name, late.id)
    await store.discard(faster.name, faster.id)  # it is sealed: nothing is deleted

    assert await store.seal(slower) == faster
    assert await store.read_items(faster, 0) == texts(faster, 0)
    for gone in (slower, late):
        with pytest.raises(PlanStoreError, match=r"has no chunk 0 of the plan rates#"):
            await store.read_items(gone, 0)


async def test_results_are_stored_once(store: PostgresStore) -> None:
    """The first result of an item stays, whatever comes later."""
    plan = await stored(store, a_plan())
    await store.write_results(plan, 0, [done(0), failed(1, 503)])

    await store.write_results(plan, 0, [done(0, "2"), done(1, "2"), done(2)])

    assert await all_results(store, plan) == [done(0), failed(1, 503), done(2)]
    assert await store.known(plan, 0) == {0: State.DONE, 1: State.FAILED, 2: State.DONE}
    assert await store.known(plan, 1) == {}


async def test_results_come_in_the_order_of_the_plan(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when they fill several pages, of which one is empty."""
    monkeypatch.setattr(module, "_PAGE", 10)
    plan = await stored(store, a_plan(35))

    await store.write_results(plan, 3, [done(index) for index in (34, 30)])
    await store.write_results(plan, 0, [done(index) for index in (7, 3)])
    await store.write_results(plan, 1, [done(11)])

    assert [record.index for record in await all_results(store, plan)] == [3, 7, 11, 30, 34]
    assert [chunk async for chunk in store.missing(plan)] == [0, 1, 2, 3]


async def test_one_caller_may_begin(store: PostgresStore, dsn: str) -> None:
    """Of many processes that find an item at the same time, one may send it."""
    plan = await stored(store, a_plan())
    others = [PostgresStore(dsn) for _ in range(5)]

    began = await asyncio.gather(*(one.begin(plan, 7, uuid4()) for one in (store, *others)))

    assert sorted(began) == [False] * 5 + [True]
    assert await store.known(plan, 0) == {7: State.BEGUN}
    assert await store.counts(plan) == Counts(begun=1)
    await asyncio.gather(*(one.aclose() for one in others))


async def test_a_slow_twin_knows_better(store: PostgresStore) -> None:
    """What is unknown is listed until the worker that sent it says what became of it."""
    plan = await stored(store, a_plan())
    for index in (3, 14, 21):
        await store.begin(plan, index, STARTER)
    await store.write_results(plan, 2, [begun(done(21))])
    await store.settle_unknown(plan, [3, 14, 21, 22])
    listed = [(record.index, record.item) async for record in store.unknown(plan)]

    await store.write_results(plan, 0, [begun(failed(3, 500, is_safe=False))])
    await store.settle_unknown(plan, [3])

    assert listed == [(3, '{"number":3}'), (14, '{"number":14}')]
    assert [record.index async for record in store.unknown(plan)] == [14]
    assert not await store.begin(plan, 14, uuid4())
    counts = await store.counts(plan)
    assert (counts.done, dict(counts.failed), counts.unknown) == (1, {"ServerError 500": 1}, 1)


async def test_what_a_worker_did_not_begin_replaces_nothing(store: PostgresStore) -> None:
    """Neither the mark of another worker nor what that one says later."""
    plan = await stored(store, a_plan())
    for index in (3, 4):
        await store.begin(plan, index, STARTER)
    await store.settle_unknown(plan, [4])

    others = [failed(3), replace(failed(4), starter=uuid4()), failed(5)]
    await store.write_results(plan, 0, [*others, begun(done(6))])

    assert await store.known(plan, 0) == {
        3: State.BEGUN,
        4: State.UNKNOWN,
        5: State.FAILED,
        6: State.DONE,
    }


async def test_all_that_is_unknown_is_counted(store: PostgresStore) -> None:
    """With a failure or without one: else the plan would lack something for ever."""
    plan = await stored(store, a_plan())
    for index in range(4):
        await store.begin(plan, index, STARTER)
    lost = [replace(begun(failed(index)), state=State.UNKNOWN) for index in (0, 1)]
    busy = replace(begun(failed(2, 503)), state=State.UNKNOWN)
    await store.write_results(plan, 0, [*lost, busy])
    await store.settle_unknown(plan, [3])

    assert await store.counts(plan) == Counts(unknown=4)


async def test_only_who_began_an_item_releases_it(store: PostgresStore) -> None:
    """It is missing again, also if it was unknown; what has a result keeps it."""
    plan = await stored(store, a_plan())
    for index in (3, 4, 5):
        await store.begin(plan, index, STARTER)
    await store.begin(plan, 6, uuid4())
    await store.settle_unknown(plan, [4])
    await store.write_results(plan, 0, [begun(done(5))])

    await store.release(plan, [3, 4, 5, 6, 7], STARTER)

    assert await store.known(plan, 0) == {5: State.DONE, 6: State.BEGUN}
    assert await store.begin(plan, 3, uuid4())


async def test_chunks_with_something_left_are_missing(store: PostgresStore) -> None:
    """A chunk is missing until each of its items has a state that stays."""
    plan = await stored(store, a_plan())
    await store.write_results(plan, 2, [done(index) for index in range(20, 25)])
    await store.write_results(plan, 0, [done(index) for index in range(9)])
    await store.begin(plan, 9, STARTER)
    before = [chunk async for chunk in store.missing(plan)]

    await store.settle_unknown(plan, [9])

    assert before == [0, 1]
    assert [chunk async for chunk in store.missing(plan)] == [1]


async def test_what_has_to_be_checked_is_not_forgotten(store: PostgresStore) -> None:
    """A failure that may have changed something stays."""
    plan = await stored(store, a_plan())
    await store.write_results(plan, 0, [failed(0), failed(1, is_safe=False), failed(2), done(3)])

    assert await store.forget_failed(plan) == 2
    assert await store.forget_failed(plan) == 0
    assert set(await store.known(plan, 0)) == {1, 3}


async def test_starts_of_a_chunk_are_counted(store: PostgresStore) -> None:
    """Until it ends; a chunk that waits starts anew."""
    plan = await stored(store, a_plan())
    starts = [await store.start_chunk(plan, 1) for _ in range(3)]
    await store.mark_chunk(plan, 1, ChunkState.BROKEN, "started too often")
    await store.mark_chunk(plan, 2, ChunkState.WAITING, "for a login")
    (broken, waiting) = [record async for record in store.open_chunks(plan)]
    await store.mark_chunk(plan, 1, ChunkState.WAITING, "for a login")

    assert starts == [1, 2, 3]
    assert (broken.chunk, broken.state, broken.starts) == (1, ChunkState.BROKEN, 3)
    assert broken.message == "started too often"
    assert broken.at.tzinfo is not None
    assert (waiting.chunk, waiting.state, waiting.starts) == (2, ChunkState.WAITING, 0)
    assert await store.start_chunk(plan, 1) == 1
    await store.clear_chunk(plan, 1)
    await store.clear_chunk(plan, 1)
    assert [record.chunk async for record in store.open_chunks(plan)] == [2]


async def test_two_plans_share_tables(store: PostgresStore) -> None:
    """Each has results of its own."""
    first, second = await stored(store, a_plan()), await stored(store, a_plan(name="other"))
    await store.write_results(first, 0, [done(0)])

    assert await store.counts(second) == Counts()
    assert await store.begin(second, 0, STARTER)
    assert [record.index for record in await all_results(store, first)] == [0]


async def test_schemas_are_apart(store: PostgresStore, dsn: str) -> None:
    """The same database can hold the tables of several teams."""
    other = PostgresStore(dsn, schema="team_b")
    plan = await stored(store, a_plan())

    assert await other.find_plan(plan.name) is None
    await other.aclose()


async def test_tables_are_made_once(dsn: str) -> None:
    """Workers that start at the same time do not disturb one another."""
    stores = [PostgresStore(dsn) for _ in range(6)]

    await asyncio.gather(*(store.open() for store in stores))

    await asyncio.gather(*(store.aclose() for store in stores))


def test_it_serves_one_event_loop_after_another(postgres: PostgresServer) -> None:
    """A store that was used before a worker made its own loop opens anew."""
    with asyncio.Runner() as first, asyncio.Runner() as second:
        store = PostgresStore(first.run(postgres.new_database()))
        plan = first.run(stored(store, a_plan()))

        assert second.run(store.find_plan(plan.name)) == plan
        second.run(store.aclose())
        second.run(store.aclose())
        assert second.run(store.find_plan(plan.name)) == plan
        second.run(store.aclose())
        first.run(store.aclose())


def test_it_serves_event_loops_that_run_at_the_same_time(postgres: PostgresServer) -> None:
    """Each has connections of its own, such as those of threads; closed loops are forgotten."""
    with asyncio.Runner() as other:
        store = PostgresStore(other.run(postgres.new_database()))
        plan = other.run(stored(store, a_plan()))
        pools = store._database._pools
        for _ in range(2):
            with asyncio.Runner() as runner:
                mine = runner.run(store.find_plan(plan.name)), pools[runner.get_loop()]
                theirs = other.run(store.find_plan(plan.name)), pools[other.get_loop()]
                assert (runner.run(store.find_plan(plan.name)), pools[runner.get_loop()]) == mine
                runner.run(mine[1].close())
            assert (other.run(store.find_plan(plan.name)), pools[other.get_loop()]) == theirs
            assert mine[0] == theirs[0] == plan
        assert len(pools) == 2
        other.run(store.aclose())


def test_it_shows_no_password() -> None:
    """Neither printed nor pickled."""
    store = PostgresStore(f"postgresql://fleet:{CANARY}@127.0.0.1:5433/plans")

    assert repr(store) == "<PostgresStore 127.0.0.1:5433/plans gateway_fleet>"
    with pytest.raises(TypeError, match="may hold a password"):
        pickle.dumps(store)


@pytest.mark.parametrize(
    ("dsn", "part"),
    [
        (7, "must be a string"),
        ("mysql://fleet@127.0.0.1/plans", "must be postgresql://"),
        ("postgresql://127.0.0.1", "must be postgresql://"),
        ("postgresql:///plans", "must be postgresql://"),
        (f"postgresql://fleet:{CANARY}/a@db.example/plans?sslmode=require", "percent-encoded"),
        (f"postgresql://fleet:{CANARY}\u2100@db.example/plans", "percent-encoded"),
        (f"postgresql://fleet:{CANARY}@db.example/plans", "sslmode=verify-full"),
        (f"postgresql://fleet:{CANARY}@127.0.0.1,db.example/plans", "sslmode=verify-full"),
        (f"postgresql://fleet:{CANARY}@db.example/plans?sslmode=prefer", "sslmode=verify-full"),
        (f"postgresql://fleet:{CANARY}@[2001:db8::1]:5432/plans", "sslmode=verify-full"),
    ],
)
def test_a_wrong_dsn_is_refused(dsn: str, part: str) -> None:
    """The message says what is right, and does not show the password."""
    with pytest.raises(ConfigurationError, match=part) as caught:
        PostgresStore(dsn)

    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://fleet@127.0.0.1/plans",
        "postgres://fleet@[::1]:5432/plans",
        "postgresql://fleet@localhost:1,127.0.0.1:2/plans",
        "postgresql://fleet@%2Frun%2Fpostgresql/plans",
        "postgresql://?host=/run/postgresql&dbname=plans",
        "postgresql://fleet@db.example/plans?sslmode=verify-full",
        "postgresql://fleet@db.example/plans?sslmode=disable",
    ],
)
def test_a_right_dsn_is_taken(dsn: str) -> None:
    """Hosts, sockets and TLS; nothing is sent."""
    assert "plans" in repr(PostgresStore(dsn))


@pytest.mark.parametrize("schema", ["", "Plans", 'a"b', "public; drop", 7])
def test_a_wrong_schema_is_refused(schema: str) -> None:
    """It is part of the statements."""
    with pytest.raises(ConfigurationError, match="schema must be a name"):
        PostgresStore("postgresql://fleet@127.0.0.1/plans", schema=schema)
