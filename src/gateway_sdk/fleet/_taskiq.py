"""The adapter for taskiq: a task of a job, on the user's own broker."""

import asyncio
import logging
from typing import Any, Final

from gateway_sdk._extras import needing_extra
from gateway_sdk.errors import (
    ConfigurationError,
    GatewayError,
    InvalidArgumentError,
    PoisonChunkError,
)
from gateway_sdk.fleet._brokers import AHEAD, check_broker
from gateway_sdk.fleet._deliveries import VERDICT, Deliveries, Verdict
from gateway_sdk.fleet._job import Job
from gateway_sdk.fleet._sender import continued, task_name
from gateway_sdk.fleet._worker import Worker, settle

_logger = logging.getLogger("gateway_sdk")

PAUSE: Final = 5.0
"""Seconds before a chunk is given back: else it uses up its deliveries while a disk is full."""


def on_taskiq(broker: Any, job: Job) -> None:
    """Add a job to a broker of taskiq; call it in the file that the workers import.

    Each worker process opens one session and the store when it starts, and runs two chunks at a
    time. A message is acknowledged when its chunk has ended. When a worker is asked to end
    (SIGTERM), calls in flight have the grace time of the job to end, what they return is stored,
    and the rest of the chunk is given back.

    Args:
        broker: AioPikaBroker of taskiq-aio-pika (RabbitMQ), with qos=2; or
            PullBasedJetStreamBroker of taskiq-nats. Use a broker of its own for plans. An
            InMemoryBroker is enough to try a job in one process.
        job: The job. Its name is part of the name of the task.

    Raises:
        ConfigurationError: The broker loses chunks, or its queue has no delivery limit.
    """
    with needing_extra("fleet", "on_taskiq"):
        from taskiq import Context, TaskiqDepends, TaskiqEvents  # noqa: PLC0415 - an extra
    check_broker(broker)
    if not isinstance(broker.listen, Deliveries):
        broker.listen = Deliveries(broker)
    process = Process(broker, job)
    broker.listen.add(process)
    broker.add_event_handler(TaskiqEvents.WORKER_STARTUP, process.open)
    broker.add_event_handler(TaskiqEvents.WORKER_SHUTDOWN, process.close)

    async def run_chunk(  # taskiq gives it a name: no method
        address: str, chunk: int, context: Context = TaskiqDepends()
    ) -> None:
        with continued(context.message.labels):
            await process.run(address, chunk)

    broker.register_task(run_chunk, task_name(job.name), ack_type="when_executed")


class Process:
    def __init__(self, broker: Any, job: Job) -> None:
        self._broker = broker
        self._job = job
        self._worker: Worker | None = None
        self._slots = asyncio.Semaphore(AHEAD)
        self._running: set[asyncio.Task[None]] = set()
        self._is_ending = False
        self._is_settled = False

    async def open(self, _: object) -> None:
        self._is_ending = False  # a broker that could not connect is started again
        self._worker = self._worker or await self._job.worker().__aenter__()

    async def close(self, _: object) -> None:
        self.drain()
        if self._running:
            await asyncio.wait(self._running)
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.__aexit__(None, None, None)
        await self._job.aclose()

    def drain(self) -> None:
        """End the chunks under way, each within the grace time of the job; begin no other one."""
        self._is_ending = True
        for task in self._running:
            task.cancel()

    async def run(self, address: str, chunk: int) -> None:
        """Run a chunk, and say what becomes of its message."""
        task = asyncio.create_task(self._run(address, chunk))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        if self._is_ending:  # taskiq had it already, and begins it all the same
            task.cancel()
        await asyncio.wait([task])
        VERDICT.set(_verdict(task, f"chunk {chunk} of {address}"))

    async def has_done(self, address: str, chunk: int) -> bool:
        """Tell whether a chunk of another job is done, as far as the store of this one knows."""
        return self._worker is not None and await self._worker.has_done(address, chunk)

    async def _run(self, address: str, chunk: int) -> None:
        async with self._slots:  # an InMemoryBroker starts all at once
            if self._worker is None:
                raise ConfigurationError("the broker was not started: await broker.startup()")
            try:
                await self._worker.run(address, chunk)
                self._settle()
            except (InvalidArgumentError, PoisonChunkError):
                raise
            except Exception:
                await asyncio.sleep(PAUSE)
                raise

    def _settle(self) -> None:
        """Settle the collector after the first chunk, when all is loaded."""
        # Another process, which only submits or has an InMemoryBroker, is the user's own.
        if self._broker.is_worker_process and not self._is_settled:
            self._is_settled = True
            settle()


def _verdict(task: asyncio.Task[None], name: str) -> Verdict:
    """Return what becomes of the message of a chunk, and log it if the chunk has not ended."""
    if task.cancelled():
        _logger.info("%s is given back: the worker ends", name)
        return Verdict.AGAIN
    error = task.exception()
    if error is None:
        return Verdict.DONE
    # The text of another error may contain items and values.
    said = str(error) if isinstance(error, GatewayError) else type(error).__name__
    if isinstance(error, InvalidArgumentError):
        _logger.error("the message for %s is dropped: %s", name, said)
        return Verdict.DONE
    if isinstance(error, PoisonChunkError):
        _logger.error("%s goes to the dead letters: %s", name, said)
        return Verdict.DEAD
    _logger.error("%s is given back: %s", name, said)
    return Verdict.AGAIN
