"""Jobs on brokers of taskiq: real ones, but for what no real broker does."""

import asyncio
import gc
from collections.abc import AsyncGenerator
from typing import Any

import aio_pika
import nats
import pytest
from nats.aio.msg import Msg
from taskiq import AckableMessage, AsyncBroker, BrokerMessage, InMemoryBroker

from gateway_sdk.errors import ConfigurationError, PlanStoreError
from gateway_sdk.fleet import Job, _deliveries, _taskiq, on_taskiq
from gateway_sdk.fleet._sender import task_name
from gateway_sdk.fleet._store import ChunkState
from tests.fleet.gateways import ADDRESS, CountingGateway, either, series, states
from tests.fleet.workers import (
    Ended,
    make_broker,
    nats_broker,
    new_name,
    rabbitmq_broker,
    submit,
    working,
)
from tests.support.hearing import heard
from tests.support.memory_store import MemoryStore
from tests.support.nats_server import NEEDS_NATS
from tests.support.rabbitmq_server import NEEDS_RABBITMQ

BROKERS = [
    pytest.param("rabbitmq_url", marks=NEEDS_RABBITMQ, id="rabbitmq"),
    pytest.param("nats_url", marks=NEEDS_NATS, id="nats"),
]


@pytest.fixture(params=BROKERS)
def url(request: pytest.FixtureRequest) -> str:
    """Provide the address of each kind of broker."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture
def gateway() -> CountingGateway:
    return CountingGateway()


def make_job(store: MemoryStore, gateway: CountingGateway, **settings: Any) -> Job:
    session: Any = {
        "base_url": ADDRESS,
        "access_token": "t",
        "tenant_id": "acme",
        "transport": gateway,
        "retry": None,
    }
    return Job(new_name(), function=either, store=store, session=session, **settings)


def refuse(store: MemoryStore, operation: str, *errors: Exception) -> None:
    """Make an operation of a store raise these errors, one each time, before it works."""
    left = iter(errors)

    async def fail(name: str) -> None:
        if name == operation:
            for error in left:
                raise error

    store.before = fail


async def left(url: str, name: str) -> int:
    """Return how many messages a queue would still deliver."""
    if url.startswith("amqp"):
        connection = await aio_pika.connect(url)
        async with connection, connection.channel() as channel:
            queue = await channel.declare_queue(name, passive=True)
            return queue.declaration_result.message_count or 0
    client = await nats.connect(url)
    try:
        return (await client.jetstream().stream_info(name)).state.messages
    finally:
        await client.close()


async def test_workers_do_what_was_submitted(url: str, gateway: CountingGateway) -> None:
    """Each item once, and nothing stays in the queue; what is done is not submitted again."""
    store = MemoryStore()
    job = make_job(store, gateway)
    plan = await job.plan([series(number) for number in range(25)], chunk=5)
    submitted = await submit(make_broker(url, job.name), job, plan)
    ended = Ended(store, 5)

    async with working(make_broker(url, job.name), job), working(make_broker(url, job.name), job):
        await ended.wait()

    assert submitted == 5
    assert states(store) == dict.fromkeys(range(25), "done")
    assert set(gateway.done.values()) == {1}
    assert await left(url, job.name) == 0
    assert await submit(make_broker(url, job.name), job, plan) == 0


async def test_submitting_twice_makes_nothing_twice(url: str, gateway: CountingGateway) -> None:
    """The second message of a chunk finds it done."""
    store = MemoryStore()
    job = make_job(store, gateway)
    plan = await job.plan([series(number) for number in range(6)], chunk=2)
    numbers = [await submit(make_broker(url, job.name), job, plan) for _ in range(2)]
    ended = Ended(store, 6)

    async with working(make_broker(url, job.name), job):
        await ended.wait()

    assert numbers == [3, 3]
    assert sorted(gateway.done.values()) == [1] * 6
    assert await left(url, job.name) == 0


async def test_a_worker_that_is_asked_to_end_gives_the_rest_back(
    url: str, gateway: CountingGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls in flight end and are stored, none is begun, and another worker does the rest."""
    store = MemoryStore()
    job = make_job(store, gateway, concurrency=2, grace=30.0)
    plan = await job.plan([series(number) for number in range(6)], chunk=6)
    await submit(make_broker(url, job.name), job, plan)
    arrived, asked = asyncio.Event(), asyncio.Event()
    drain = _taskiq.Process.drain

    def note(process: _taskiq.Process) -> None:
        drain(process)
        asked.set()

    async def hold(*_: object) -> None:
        arrived.set()
        await asked.wait()

    monkeypatch.setattr(_taskiq.Process, "drain", note)
    gateway.answer = hold
    async with working(make_broker(url, job.name), job) as end:
        await asyncio.wait_for(arrived.wait(), 30)
        end.set()
    done = dict(states(store))
    ended = Ended(store, 1)
    async with working(make_broker(url, job.name), job):
        await ended.wait()

    assert 1 <= len(done) <= 2
    assert states(store) == dict.fromkeys(range(6), "done")
    assert set(gateway.done.values()) == {1}
    assert await left(url, job.name) == 0


async def test_a_worker_that_is_asked_to_end_begins_no_other_chunk(
    url: str, gateway: CountingGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even one that taskiq has taken already: it is given back."""
    store = MemoryStore()
    job = make_job(store, gateway, concurrency=1, grace=30.0)
    plan = await job.plan([series(number) for number in range(2)], chunk=1)
    await submit(make_broker(url, job.name), job, plan)
    arrived, go_on, both_taken = asyncio.Event(), asyncio.Event(), asyncio.Event()
    take, taken = _deliveries.Deliveries._watched, 0

    def note(*arguments: Any) -> Any:
        nonlocal taken
        taken += 1
        if taken == 2:
            both_taken.set()
        return take(*arguments)

    async def hold(*_: object) -> None:
        arrived.set()
        await go_on.wait()

    monkeypatch.setattr(_deliveries.Deliveries, "_watched", note)
    gateway.answer = hold
    async with working(make_broker(url, job.name), job, at_once=1, ahead=1) as end:
        await asyncio.wait_for(arrived.wait(), 30)
        await asyncio.wait_for(both_taken.wait(), 30)
        end.set()
        go_on.set()

    assert gateway.requests == 1
    assert await left(url, job.name) == 2  # the first one is done, which its next worker will find


async def test_a_poison_chunk_is_put_away(url: str, gateway: CountingGateway) -> None:
    """It is in the status, and in the dead letters if the broker has them; the others go on."""
    store = MemoryStore()
    job = make_job(store, gateway, max_starts=2)
    plan = await job.plan([series(number) for number in range(3)], chunk=1)
    for _ in range(2):  # workers that were killed
        await store.start_chunk(plan.record, 1)
    await submit(make_broker(url, job.name), job, plan)
    ended = Ended(store, 2)

    with heard("goes to the dead letters") as put_away:
        async with working(make_broker(url, job.name), job):
            await ended.wait()
            await asyncio.wait_for(put_away.wait(), 30)

    ((chunk,), missing) = (await plan.status()).broken, (await plan.status()).missing
    assert (chunk.chunk, chunk.state, missing) == (1, ChunkState.BROKEN, 1)
    assert await left(url, job.name) == 0
    if url.startswith("amqp"):
        assert await left(url, f"{job.name}.dead") == 1


async def test_a_chunk_that_cannot_be_stored_comes_back(
    url: str, gateway: CountingGateway, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """After a pause; what the store says is logged."""
    monkeypatch.setattr(_taskiq, "PAUSE", 0.01)
    store = MemoryStore()
    job = make_job(store, gateway)
    plan = await job.plan([series(1)], chunk=1)
    await submit(make_broker(url, job.name), job, plan)
    ended = Ended(store, 1)
    refuse(
        store, "write_results", PlanStoreError("its disk is full"), KeyError("the text of an item")
    )
    async with working(make_broker(url, job.name), job):
        await ended.wait()

    assert "is given back: its disk is full" in caplog.text
    assert "is given back: KeyError" in caplog.text
    assert states(store) == {0: "done"}
    assert await left(url, job.name) == 0


async def test_a_message_of_another_plan_is_dropped(
    url: str, gateway: CountingGateway, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody can do anything with it."""
    store = MemoryStore()
    job = make_job(store, gateway)
    plan = await job.plan([series(1)], chunk=1)
    broker = make_broker(url, job.name)
    on_taskiq(broker, job)
    await broker.startup()
    task: Any = broker.find_task(task_name(job.name))
    await task.kiq(f"{job.name}#{'0' * 32}", 0)
    await plan.submit(broker)
    await broker.shutdown()
    ended = Ended(store, 1)

    async with working(make_broker(url, job.name), job):
        await ended.wait()

    assert "is dropped: the store has no such plan" in caplog.text
    assert await left(url, job.name) == 0


async def test_a_message_of_a_job_of_another_file_is_not_lost(
    url: str, gateway: CountingGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files of jobs share a queue: the worker of one gives back what is for the other."""
    monkeypatch.setattr(_deliveries, "_PAUSE", 0.0)
    job, other = (make_job(MemoryStore(), gateway) for _ in range(2))
    plan = await other.plan([series(1)], chunk=1)
    await submit(make_broker(url, job.name), other, plan)

    with heard(f"for {task_name(other.name)} is given back") as given_back:
        async with working(make_broker(url, job.name), job):
            await asyncio.wait_for(given_back.wait(), 30)

    dead = await left(url, f"{job.name}.dead") if url.startswith("amqp") else 0
    assert await left(url, job.name) + dead == 1


async def test_a_message_of_another_job_is_dropped_if_its_chunk_is_done(
    url: str, gateway: CountingGateway, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that was submitted twice leaves messages, which a later job may find in its queue."""
    caplog.set_level("INFO")
    monkeypatch.setattr(_deliveries, "_PAUSE", 0.0)
    store = MemoryStore()
    job, other = (make_job(store, gateway) for _ in range(2))
    plan = await other.plan([series(1), series(2)], chunk=1)
    await submit(make_broker(url, job.name), other, plan)
    async with other.worker() as worker:
        await worker.run_missing(plan)
    refuse(store, "known", PlanStoreError("its disk is full"), KeyError("anything"))
    with heard("is dropped: its chunk is done", times=2) as dropped:
        async with working(make_broker(url, job.name), job):
            await asyncio.wait_for(dropped.wait(), 30)

    assert caplog.text.count("is given back") == 2
    assert await left(url, job.name) == 0
    assert sorted(gateway.done.values()) == [1, 1]


@NEEDS_NATS
async def test_a_chunk_may_take_longer_than_its_lease(
    nats_url: str, gateway: CountingGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker says that it is still at work, also after it could not say so once."""
    store = MemoryStore()
    job = make_job(store, gateway)
    plan = await job.plan([series(1)], chunk=1)
    brokers = [nats_broker(nats_url, job.name, lease=0.5) for _ in range(3)]
    await submit(brokers.pop(), job, plan)
    ended = Ended(store, 1)

    renewals, is_late = 0, asyncio.Event()
    renew = Msg.in_progress

    async def note(message: Msg) -> None:
        nonlocal renewals
        renewals += 1
        if renewals == 1:
            raise ConnectionError
        await renew(message)
        if renewals == 7:  # three in each lease, so more than two leases have passed
            is_late.set()

    async def be_slow(*_: object) -> None:
        await is_late.wait()

    monkeypatch.setattr(Msg, "in_progress", note)
    gateway.answer = be_slow
    async with working(brokers.pop(), job), working(brokers.pop(), job):
        await ended.wait()

    assert gateway.requests == 1
    assert await left(nats_url, job.name) == 0


@NEEDS_RABBITMQ
async def test_a_worker_takes_two_chunks_at_a_time(
    rabbitmq_url: str, gateway: CountingGateway
) -> None:
    """The others stay in the queue for other workers, whatever the limits of taskiq are."""
    store = MemoryStore()
    job = make_job(store, gateway, concurrency=100)
    plan = await job.plan([series(number) for number in range(8)], chunk=1)
    await submit(rabbitmq_broker(rabbitmq_url, job.name), job, plan)
    ended, busy, most = Ended(store, 8), 0, 0
    both, go_on = asyncio.Event(), asyncio.Event()

    async def hold(*_: object) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        if busy == 2:
            both.set()
        await go_on.wait()
        busy -= 1

    gateway.answer = hold
    async with working(rabbitmq_broker(rabbitmq_url, job.name), job):
        await asyncio.wait_for(both.wait(), 30)
        in_queue = await left(rabbitmq_url, job.name)
        go_on.set()
        await ended.wait()

    assert in_queue == 6
    assert most == 2


async def test_one_process_needs_no_server(gateway: CountingGateway) -> None:
    """An InMemoryBroker does the chunks where they are submitted."""
    store = MemoryStore()
    job = make_job(store, gateway)
    plan = await job.plan([series(number) for number in range(10)], chunk=2)
    broker = InMemoryBroker()
    ended = Ended(store, 5)

    submitted = await submit_and_wait(broker, job, plan, ended)

    assert submitted == 5
    assert states(store) == dict.fromkeys(range(10), "done")


async def submit_and_wait(broker: InMemoryBroker, job: Job, plan: Any, ended: Ended) -> int:
    on_taskiq(broker, job)
    await broker.startup()
    number: int = await plan.submit(broker)
    await ended.wait()
    await broker.wait_all()
    await broker.shutdown()
    return number


async def test_a_broker_must_be_started(
    gateway: CountingGateway, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else there is no session; the log says so."""
    monkeypatch.setattr(_taskiq, "PAUSE", 0.0)
    job = make_job(MemoryStore(), gateway)
    plan = await job.plan([series(1)], chunk=1)
    broker = InMemoryBroker(await_inplace=True)
    on_taskiq(broker, job)

    await plan.submit(broker)

    assert "the broker was not started" in caplog.text


async def test_closing_waits_for_chunks_under_way(gateway: CountingGateway) -> None:
    """A broker may close earlier than its tasks have ended; closing it again changes nothing."""
    store = MemoryStore()
    job = make_job(store, gateway, grace=30.0)
    plan = await job.plan([series(1), series(2)], chunk=1)
    broker = InMemoryBroker()
    arrived, reply = asyncio.Event(), asyncio.Event()

    async def hold(*_: object) -> None:
        arrived.set()
        await reply.wait()

    gateway.answer = hold
    on_taskiq(broker, job)
    await broker.startup()
    await plan.submit(broker)
    await asyncio.wait_for(arrived.wait(), 30)
    closing = asyncio.create_task(broker.shutdown())
    await asyncio.sleep(0)
    reply.set()
    await closing
    await broker.wait_all()
    await broker.shutdown()

    assert set(states(store).values()) == {"done"}
    assert store.is_open == 0


async def test_a_broker_that_is_started_again_keeps_its_session(gateway: CountingGateway) -> None:
    """Workers of taskiq start it again until it can connect."""
    store = MemoryStore()
    broker = InMemoryBroker()
    on_taskiq(broker, make_job(store, gateway))

    await broker.startup()
    await broker.startup()

    assert store.is_open == 1
    await broker.shutdown()


async def test_two_jobs_share_a_broker(gateway: CountingGateway) -> None:
    """Each has a session of its own."""
    store = MemoryStore()
    jobs = [make_job(store, gateway) for _ in range(2)]
    broker = InMemoryBroker(await_inplace=True)
    for job in jobs:
        on_taskiq(broker, job)
    await broker.startup()
    for job in jobs:
        await (await job.plan([series(1)], chunk=1)).submit(broker)
    await broker.shutdown()

    assert list(gateway.done.values()) == [2]


class QueueBroker(AsyncBroker):
    """A broker of somebody else, whose messages have no client of their own."""

    def __init__(self, *, can_acknowledge: bool = True) -> None:
        super().__init__()
        self.waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self.acknowledged = 0
        self._can_acknowledge = can_acknowledge

    async def kick(self, message: BrokerMessage) -> None:
        self.waiting.put_nowait(message.message)

    async def listen(self) -> AsyncGenerator[bytes | AckableMessage, None]:
        while True:
            text = await self.waiting.get()
            yield (
                AckableMessage(data=text, ack=self._acknowledge) if self._can_acknowledge else text
            )

    async def _acknowledge(self) -> None:
        self.acknowledged += 1


class Consumer:
    """Stands for the consumer of a broker of NATS."""

    def __init__(self, failure: Exception | None) -> None:
        self.withdrawn = 0
        self._failure = failure

    async def unsubscribe(self) -> None:
        """Count, and fail as a connection that is gone."""
        self.withdrawn += 1
        if self._failure is not None:
            raise self._failure


@pytest.mark.parametrize("failure", [None, ConnectionError()])
async def test_a_worker_that_ends_withdraws_its_request_for_messages(
    failure: Exception | None,
) -> None:
    """NATS would deliver to that request what the worker gives back."""
    broker, consumer = QueueBroker(), Consumer(failure)
    vars(broker)["consumer"] = consumer
    messages = _deliveries.Deliveries(broker)()
    waiting = asyncio.ensure_future(anext(messages))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])

    assert waiting.cancelled()
    assert consumer.withdrawn == 1


async def test_another_broker_acknowledges_what_is_settled(
    gateway: CountingGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk that comes back is not; one that is put away is, and what no worker understands."""
    monkeypatch.setattr(_taskiq, "PAUSE", 0.0)
    store = MemoryStore()
    job = make_job(store, gateway, max_starts=1)
    plan = await job.plan([series(number) for number in range(3)], chunk=1)
    await store.start_chunk(plan.record, 1)
    broker = QueueBroker()
    broker.waiting.put_nowait(b"no message of taskiq")
    ended = Ended(store, 1)
    refuse(store, "write_results", PlanStoreError("its disk is full"))
    async with working(broker, job):
        await plan.submit(broker)
        await ended.wait()

    assert broker.acknowledged == 3
    assert states(store) == {2: "done"}


async def test_a_message_that_cannot_be_acknowledged_any_more_does_no_harm(
    gateway: CountingGateway, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the broker's restart: the log says so in a line, and the worker goes on."""
    store = MemoryStore()
    job = make_job(store, gateway)
    plan = await job.plan([series(number) for number in range(2)], chunk=1)
    broker, ended = QueueBroker(), Ended(store, 2)

    async def fail() -> None:
        raise ConnectionError("amqp://guest:guest@queue")

    monkeypatch.setattr(broker, "_acknowledge", fail)
    async with working(broker, job, at_once=1):
        await plan.submit(broker)
        await ended.wait()

    told = [record.getMessage() for record in caplog.records if record.name == "gateway_sdk"]
    assert len(told) == 2
    assert all("could not be answered (ConnectionError)" in each for each in told)
    assert states(store) == {0: "done", 1: "done"}


@pytest.mark.parametrize("is_worker", [True, False])
async def test_a_worker_process_collects_no_garbage_among_what_it_has_loaded(
    gateway: CountingGateway, monkeypatch: pytest.MonkeyPatch, *, is_worker: bool
) -> None:
    """After its first chunk, once; the user's own process, with its InMemoryBroker, goes on so."""
    frozen: list[int] = []
    store = MemoryStore()
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(len(states(store))))
    gc.set_threshold(700, 9, 8)
    job = make_job(store, gateway)
    plan = await job.plan([series(number) for number in range(3)], chunk=1)
    if is_worker:
        broker, ended = QueueBroker(), Ended(store, 3)
        async with working(broker, job, at_once=1):
            await plan.submit(broker)
            await ended.wait()
    else:
        await submit_and_wait(InMemoryBroker(), job, plan, Ended(store, 3))

    assert frozen == [1] * is_worker
    assert gc.get_threshold() == (10_000 if is_worker else 700, 9, 8)


@pytest.mark.parametrize("pace", [(0, 10, 10), (50_000, 10, 10)])
async def test_a_worker_process_keeps_a_slower_pace_of_the_collector(
    gateway: CountingGateway, pace: tuple[int, int, int]
) -> None:
    """0 means that the user has turned it off."""
    store = MemoryStore()
    gc.set_threshold(*pace)
    job = make_job(store, gateway)
    plan = await job.plan([series(1)], chunk=1)
    broker, ended = QueueBroker(), Ended(store, 1)
    async with working(broker, job, at_once=1):
        await plan.submit(broker)
        await ended.wait()

    assert gc.get_threshold() == pace


async def test_messages_that_cannot_be_acknowledged_are_refused(gateway: CountingGateway) -> None:
    """They are lost with their worker."""
    job = make_job(MemoryStore(), gateway)
    plan = await job.plan([series(1)], chunk=1)
    broker = QueueBroker(can_acknowledge=False)
    on_taskiq(broker, job)
    await plan.submit(broker)

    with pytest.raises(ConfigurationError, match="cannot be acknowledged"):
        await anext(broker.listen())


async def test_an_in_memory_broker_has_no_worker_processes(gateway: CountingGateway) -> None:
    """`taskiq worker` says so, in place of waiting for messages that cannot come."""
    broker = InMemoryBroker()
    on_taskiq(broker, make_job(MemoryStore(), gateway))

    with pytest.raises(ConfigurationError, match="keeps its messages in one process"):
        await anext(broker.listen())
    broker.executor.shutdown()
