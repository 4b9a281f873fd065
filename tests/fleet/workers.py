"""Workers of taskiq in the process of a test, on real brokers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

from nats.js.api import ConsumerConfig, RetentionPolicy, StreamConfig
from taskiq import AsyncBroker
from taskiq.receiver import Receiver
from taskiq_aio_pika import AioPikaBroker
from taskiq_aio_pika.queue import Queue
from taskiq_nats import PullBasedJetStreamBroker

from gateway_sdk.fleet import Job, Plan, on_taskiq
from tests.support.memory_store import MemoryStore


class Ended:
    """Tells when so many chunks of a store have ended."""

    def __init__(self, store: MemoryStore, number: int) -> None:
        self._left = number
        self._event = asyncio.Event()
        store.after = self._note

    async def _note(self, operation: str) -> None:
        self._left -= operation == "clear_chunk"
        if not self._left:
            self._event.set()

    async def wait(self) -> None:
        await asyncio.wait_for(self._event.wait(), 60)


def rabbitmq_broker(url: str, name: str) -> AioPikaBroker:
    """Return a broker with a queue of its own, and with dead letters of its own."""
    return AioPikaBroker(
        url,
        qos=2,
        task_queues=[Queue(name=name, arguments={"x-delivery-limit": 5})],
        dead_letter_queue=Queue(name=f"{name}.dead"),
        reconnect_interval=0.1,
    )


def nats_broker(url: str, name: str, lease: float = 30.0) -> PullBasedJetStreamBroker:
    return PullBasedJetStreamBroker(
        url,
        subject=name,
        stream_name=name,
        stream_config=StreamConfig(retention=RetentionPolicy.WORK_QUEUE),
        durable=name,
        consumer_config=ConsumerConfig(durable_name=name, ack_wait=lease),
        pull_consume_timeout=0.2,
    )


def make_broker(url: str, name: str) -> AsyncBroker:
    """Return a broker for the address of RabbitMQ or NATS."""
    return (rabbitmq_broker if url.startswith("amqp") else nats_broker)(url, name)


def new_name() -> str:
    return f"test-{uuid4().hex}"


async def submit(broker: AsyncBroker, job: Job, plan: Plan) -> int:
    """Send what is missing, as a client does."""
    on_taskiq(broker, job)
    await broker.startup()
    try:
        return await plan.submit(broker)
    finally:
        await broker.shutdown()


@asynccontextmanager
async def working(
    broker: AsyncBroker, job: Job, *, at_once: int = 10, ahead: int = 0
) -> AsyncIterator[asyncio.Event]:
    """Run a worker; yield what asks it to end, as SIGTERM does."""
    on_taskiq(broker, job)
    broker.is_worker_process = True
    end = asyncio.Event()
    receiver = Receiver(broker, max_async_tasks=at_once, max_prefetch=ahead, run_startup=True)
    listening = asyncio.create_task(receiver.listen(end))
    try:
        yield end
    finally:
        end.set()
        await asyncio.wait_for(listening, 60)
        await broker.shutdown()
