"""What a broker delivers: few messages at a time, acknowledged by what became of the work."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from contextvars import ContextVar
from enum import Enum, auto
from functools import partial
from typing import Any, Final, Protocol

from gateway_sdk.errors import ConfigurationError
from gateway_sdk.fleet._brokers import AHEAD, IN_MEMORY, names_of
from gateway_sdk.fleet._sender import task_name

_logger = logging.getLogger("gateway_sdk")


class Verdict(Enum):
    DONE = auto()
    AGAIN = auto()
    """It is delivered again, here or elsewhere."""
    DEAD = auto()
    """It goes to the dead letters, if the broker has them."""


VERDICT: Final[ContextVar[Verdict]] = ContextVar("what becomes of a message", default=Verdict.DONE)
"""Set by a task; taskiq acknowledges in the context of the task."""

_LEASE: Final = 30.0
"""Seconds after which NATS delivers a message again, unless the broker was told otherwise."""

_PAUSE: Final = 5.0
"""Seconds before a chunk of a job that this worker does not have is given back."""


class Owner(Protocol):
    def drain(self) -> None: ...

    async def has_done(self, address: str, chunk: int) -> bool:
        """Tell whether a chunk of any job is done, as far as is known here."""
        ...


class Deliveries:
    """Stands for `listen` of a broker; takes two messages at a time, whatever that would take."""

    def __init__(self, broker: Any) -> None:
        self._broker = broker
        self._listen: Callable[[], AsyncGenerator[Any]] = broker.listen
        self._lease = getattr(getattr(broker, "consumer_config", None), "ack_wait", None) or _LEASE
        self._is_in_memory = IN_MEMORY in names_of(broker)
        self._owners: list[Owner] = []

    def add(self, owner: Owner) -> None:
        self._owners.append(owner)

    async def __call__(self) -> AsyncIterator[Any]:
        if self._is_in_memory:
            raise ConfigurationError(
                "an InMemoryBroker keeps its messages in one process, and no worker process gets "
                "them: use a broker such as AioPikaBroker, or run the chunks where they are "
                "submitted"
            )
        slots = asyncio.Semaphore(AHEAD)
        try:
            async with aclosing(self._listen()) as messages:
                await slots.acquire()
                async for message in messages:
                    yield self._watched(message, slots.release)
                    await slots.acquire()
        finally:
            for owner in self._owners:
                owner.drain()
            await self._stop_pulling()

    async def _stop_pulling(self) -> None:
        """Withdraw the open request of this worker for messages, if NATS has one."""
        # NATS would deliver to it what this worker gives back, and wait for the lease to end.
        consumer: Any = getattr(self._broker, "consumer", None)
        if hasattr(consumer, "unsubscribe"):
            with suppress(Exception):  # the connection is gone, and the request with it
                await consumer.unsubscribe()

    def _watched(self, message: Any, release: Callable[[], None]) -> Any:
        if not hasattr(message, "ack"):
            raise ConfigurationError(
                "this broker cannot carry a plan: its messages cannot be acknowledged, so they are "
                "lost with the worker that took them"
            )
        delivery = _Delivery(message.ack, release, self._lease, self._foreign(message.data))
        return type(message)(data=message.data, ack=delivery.settle)

    def _foreign(self, data: bytes) -> Callable[[], Awaitable[Verdict]] | None:
        """Return what judges a message of a job that this worker does not have; else None."""
        try:
            message = self._broker.formatter.loads(message=data)
        except Exception:  # noqa: BLE001 - taskiq says so, and drops the message
            return None
        name = str(message.task_name)
        if not name.startswith(task_name("")) or self._broker.find_task(name) is not None:
            return None
        return partial(self._judge, name, message.args)  # taskiq would acknowledge, so lose it

    async def _judge(self, name: str, arguments: Sequence[Any]) -> Verdict:
        """Drop a message whose chunk is done, as after submitting twice; give back another one."""
        for owner in self._owners:
            with suppress(Exception):  # of a store, or of odd arguments: it is then given back
                if await owner.has_done(*arguments):
                    _logger.info("a message for %s is dropped: its chunk is done", name)
                    return Verdict.DONE
        _logger.error(
            "a message for %s is given back: this worker does not have the job; give each file"
            " of jobs a queue of its own",
            name,
        )
        await asyncio.sleep(_PAUSE)
        return Verdict.AGAIN


class _Delivery:
    def __init__(
        self,
        ack: Callable[[], Awaitable[None]],
        release: Callable[[], None],
        lease: float,
        judge: Callable[[], Awaitable[Verdict]] | None,
    ) -> None:
        self._judge = judge
        self._ack = ack
        self._release = release
        # An acknowledgement is a method of the message of the broker's own client.
        self._message: Any = getattr(ack, "__self__", None)
        self._renewal: asyncio.Task[None] | None = None
        if hasattr(self._message, "in_progress"):
            self._renewal = asyncio.create_task(self._renew(lease / 3))

    async def _renew(self, seconds: float) -> None:
        """Ask NATS again and again not to deliver the message to another worker."""
        while True:
            await asyncio.sleep(seconds)
            with suppress(Exception):  # such as of a connection that is being opened again
                await self._message.in_progress()

    async def settle(self) -> None:
        verdict = VERDICT.get() if self._judge is None else await self._judge()
        self._release()
        if self._renewal is not None:
            self._renewal.cancel()
        try:
            await self._answer(verdict)
        except Exception as error:  # noqa: BLE001 - of the broker's client, such as a lost channel
            _logger.warning(
                "a message could not be answered (%s): the broker delivers it again, and what is"
                " stored is not done again",
                type(error).__name__,
            )

    async def _answer(self, verdict: Verdict) -> None:
        if verdict is Verdict.DONE:
            await self._ack()
        elif hasattr(self._message, "reject"):  # RabbitMQ
            await self._message.reject(requeue=verdict is Verdict.AGAIN)
        elif hasattr(self._message, "nak"):  # NATS, which has no dead letters
            await (self._message.nak() if verdict is Verdict.AGAIN else self._message.term())
        elif verdict is Verdict.DEAD:
            await self._ack()
