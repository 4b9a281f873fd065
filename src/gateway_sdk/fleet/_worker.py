"""A worker: one session, one store and one concurrency for all chunks of a process."""

import gc
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Any, Final, Self

from gateway_sdk.errors import InvalidArgumentError, PoisonChunkError, SessionStateError
from gateway_sdk.fleet._parts import Parts
from gateway_sdk.fleet._plan import Plan
from gateway_sdk.fleet._planning import check_work
from gateway_sdk.fleet._pool import run_all
from gateway_sdk.fleet._store import State
from gateway_sdk.session import GatewaySession

_CHUNKS_AT_ONCE: Final = 2
"""While the last calls of a chunk end, the next one has begun."""

_YOUNG: Final = 10_000
"""Objects made before the collector looks: a query makes some hundreds, and frees them itself."""


def settle() -> None:
    """Keep what is loaded out of the collector's sight, and let it look less often."""
    # Only for a process that does nothing but run chunks: what is loaded stays until it ends. A
    # full collection walks through it for 0.1 s, which took nearly a tenth of a worker's CPU time.
    gc.freeze()
    young, *older = gc.get_threshold()
    if 0 < young < _YOUNG:  # 0: the user has turned the collector off
        gc.set_threshold(_YOUNG, *older)


class Worker:
    """Runs chunks of a job, in the event loop in which it is entered; made by `Job.worker`.

    async with job.worker() as worker:
        await worker.run(address, chunk)
    """

    def __init__(self, parts: Parts, gateway: GatewaySession) -> None:
        self._parts = parts
        self._gateway = gateway
        self._stack = AsyncExitStack()
        self._is_open = False
        self._plan: Plan | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._parts.store.open()
            stack.push_async_callback(self._parts.store.aclose)
            await stack.enter_async_context(self._gateway)
            self._stack = stack.pop_all()
        self._is_open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_open = False
        await self._stack.aclose()

    async def run(self, address: str, chunk: int) -> None:
        """Do what the store lacks of a chunk, as `Plan.run` does.

        Args:
            address: The address of the plan, as its message has it.
            chunk: The number of the chunk.

        Raises:
            InvalidArgumentError: the address is that of another plan, or there is no such chunk:
                the message is to be dropped.
            PoisonChunkError: the chunk was started too often without an end: the message belongs
                to the dead letters.
            PlanStoreError: the store cannot be used, or the plan is for another operation than the
                job: the message is to be delivered again, perhaps to a worker with the right job.
            SessionStateError: the worker is not open.
        """
        if not self._is_open:
            raise SessionStateError("the worker is not open: use `async with job.worker()`")
        plan = await self._load(address)
        await plan.run(chunk, self._gateway)

    async def has_done(self, address: str, chunk: int) -> bool:
        """Tell whether the store knows the result of each item of a chunk, also of another job.

        Args:
            address: The address of the plan, as its message has it.
            chunk: The number of the chunk.

        Raises:
            PlanStoreError: the store cannot be used.
        """
        store = self._parts.store
        plan = await store.find_plan(address.partition("#")[0])
        if plan is None or plan.address != address:
            return False
        known = await store.known(plan, chunk)
        return State.BEGUN not in known.values() and len(known) == len(plan.indexes(chunk))

    async def run_missing(self, plan: Plan) -> None:
        """Do what the store lacks of a plan in this process alone, without any queue.

        For trying a job, and where one machine is enough. Broken chunks are left out: `status`
        names them.

        Raises:
            PlanStoreError: the store cannot be used.
        """
        await run_all(self._runs(plan), at_once=_CHUNKS_AT_ONCE)

    async def _runs(self, plan: Plan) -> AsyncGenerator[Coroutine[Any, Any, None], None]:
        async for chunk in plan.missing():
            yield self._run_unless_broken(plan.address, chunk)

    async def _run_unless_broken(self, address: str, chunk: int) -> None:
        with suppress(PoisonChunkError):
            await self.run(address, chunk)

    async def _load(self, address: str) -> Plan:
        if self._plan is None or self._plan.address != address:
            record = await self._parts.store.find_plan(self._parts.name)
            if record is None or record.address != address:
                raise InvalidArgumentError(
                    f"the store has no such plan of {self._parts.name!r}: it was planned anew after"
                    " the message was sent, or the message is for another store"
                )
            check_work(record, self._parts.work.name)
            self._plan = Plan(record, self._parts)
        return self._plan
