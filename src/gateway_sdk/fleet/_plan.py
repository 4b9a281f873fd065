"""A plan: what is to be done with many items, of which the store knows what is done."""

from collections.abc import AsyncGenerator, Coroutine, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final

from gateway_sdk.errors import InvalidArgumentError, PlanStoreError
from gateway_sdk.fleet._chunk import Chunk
from gateway_sdk.fleet._collect import collect
from gateway_sdk.fleet._parts import Parts
from gateway_sdk.fleet._pool import run_all
from gateway_sdk.fleet._sender import Send, sender
from gateway_sdk.fleet._store import ChunkRecord, ChunkState, ItemRecord, PlanRecord
from gateway_sdk.session import GatewaySession

_MESSAGES_AT_ONCE: Final = 32
"""Messages that wait for the broker's answer at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStatus:
    """What the store knows of a plan.

    Attributes:
        items: The number of items.
        done: Items with a value.
        failed: Failed items by reason: the name of the error, with its status if it has one.
        begun: Items whose request may be under way and must not be sent twice.
        unknown: Items whose request may have been sent; they are never sent again.
        missing: Items of which nothing is known.
        running: Chunks that were started and have not ended; also those of workers that died.
        waiting: What the plan waits for, such as a login; "" if it does not wait.
        broken: Chunks that ended with an error that is not that of an item.
    """

    items: int
    done: int
    failed: Mapping[str, int]
    begun: int
    unknown: int
    missing: int
    running: int
    waiting: str
    broken: tuple[ChunkRecord, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every item is done, failed or unknown."""
        return not self.missing and not self.begun


class Plan:
    """A plan that is stored; made by `Job.plan` and `Job.load`."""

    def __init__(self, record: PlanRecord, parts: Parts) -> None:
        self._record = record
        self._parts = parts
        self._store = parts.store

    @property
    def record(self) -> PlanRecord:
        """What the store keeps of the plan itself."""
        return self._record

    @property
    def address(self) -> str:
        """What messages call the plan."""
        return self._record.address

    async def run(self, chunk: int, gateway: GatewaySession) -> None:
        """Do what the store lacks of a chunk; the step for any engine, which may repeat it.

        Cancelling it lets calls in flight end, for the grace time of the job, and stores their
        results. A call without a usable access token waits, and goes on after a login.

        Args:
            chunk: The number of the chunk, from 0.
            gateway: The session that makes the calls. It may be shared by all chunks of a process.

        Raises:
            InvalidArgumentError: there is no such chunk, or *gateway* is no session.
            ConfigurationError: the session has no tenant, and the operation needs one.
            PoisonChunkError: the chunk was started too often without an end.
            PlanStoreError: the store cannot be used; what is stored stays.
        """
        number, chunks = chunk, self._record.chunks
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < chunks:
            raise InvalidArgumentError(f"chunk must be a whole number from 0 to {chunks - 1}")
        self._parts.work.check(gateway)
        await self._store.open()
        await Chunk(self._record, number, self._parts, gateway).run()

    async def missing(self) -> AsyncGenerator[int, None]:
        """Yield the numbers of the chunks in which something is left to do, in order."""
        await self._store.open()
        async for chunk in self._store.missing(self._record):
            yield chunk

    async def submit(self, broker: Any) -> int:
        """Send a message for each chunk in which something is left to do.

        Saying it again is safe: a chunk that is delivered twice is done once. Chunks that were
        started too often get a new chance.

        Args:
            broker: A started broker of taskiq to which `on_taskiq` added the job; or, for other
                engines, a coroutine function of the plan's address and the number of a chunk.

        Returns:
            The number of messages.

        Raises:
            InvalidArgumentError: the broker does not know the job, or is none.
            PlanStoreError: the store cannot be used.
        """
        send = sender(broker, self._record.name)
        await self.retry_broken()
        return await run_all(self._messages(send), at_once=_MESSAGES_AT_ONCE)

    async def _messages(self, send: Send) -> AsyncGenerator[Coroutine[Any, Any, Any], None]:
        async for chunk in self._store.missing(self._record):
            yield _sent(send, self.address, chunk)

    async def retry_broken(self) -> int:
        """Give chunks that were started too often a new chance, as `submit` does.

        Returns:
            The number of these chunks.
        """
        await self._store.open()
        broken = [
            record.chunk
            async for record in self._store.open_chunks(self._record)
            if record.state is ChunkState.BROKEN
        ]
        for chunk in broken:
            await self._store.clear_chunk(self._record, chunk)
        return len(broken)

    async def retry_failed(self) -> int:
        """Forget failures that are safe to repeat; `submit` then sends their chunks again.

        Returns:
            The number of failures that were forgotten.
        """
        await self._store.open()
        return await self._store.forget_failed(self._record)

    async def status(self) -> PlanStatus:
        """Return what the store knows."""
        await self._store.open()
        counts = await self._store.counts(self._record)
        records = [record async for record in self._store.open_chunks(self._record)]
        waiting = [record for record in records if record.state is ChunkState.WAITING]
        known = counts.done + sum(counts.failed.values()) + counts.begun + counts.unknown
        return PlanStatus(
            items=self._record.items,
            done=counts.done,
            failed=counts.failed,
            begun=counts.begun,
            unknown=counts.unknown,
            missing=self._record.items - known,
            running=sum(record.state is ChunkState.RUNNING for record in records),
            waiting=waiting[0].message if waiting else "",
            broken=tuple(record for record in records if record.state is ChunkState.BROKEN),
        )

    async def unknown(self) -> AsyncGenerator[ItemRecord, None]:
        """Yield the items that may have been sent and are never sent again, in order.

        Ask the gateway what became of each of them.
        """
        await self._store.open()
        async for record in self._store.unknown(self._record):
            yield record

    async def collect(self, path: str | PathLike[str], *, partial: bool = False) -> int:
        """Write all results into one Parquet file, in the order of the plan.

        Its columns are `index`, `state`, `item` and `value` (JSON texts), `error`, `message`,
        `operation`, `outcome`, `status`, `advice`, `attempts` and `elapsed` (seconds).
        The file appears when it is complete, and replaces another. Memory does not depend on the
        size of the plan.

        Args:
            path: The file, whose name ends in ".parquet".
            partial: Whether to write what is there while something is missing.

        Returns:
            The number of rows.

        Raises:
            InvalidArgumentError: the name ends otherwise.
            PlanStoreError: something is missing, also if it was forgotten while the file was
                written; or the store cannot be used.
            OSError: the file cannot be written.
        """
        await self._store.open()
        if not partial and not (status := await self.status()).is_complete:
            raise PlanStoreError(
                f"{status.missing + status.begun} of {status.items} items have no result yet:"
                " submit the plan again and wait for its workers, or give partial=True"
            )
        rows = None if partial else self._record.items
        return await collect(self._store.results(self._record), path, rows=rows)


async def _sent(send: Send, address: str, chunk: int) -> None:
    await send(address, chunk)
