"""A worker: one session, one store and one concurrency for all chunks of a process."""

from types import TracebackType
from typing import Self

from gateway_sdk.fleet._parts import Parts
from gateway_sdk.session import GatewaySession


class Worker:
    """Runs chunks of a job; made by `Job.worker`, in the event loop that it runs in.

    async with job.worker() as worker:
        await worker.run(address, chunk)
    """

    def __init__(self, parts: Parts, gateway: GatewaySession) -> None:
        self._parts = parts
        self._gateway = gateway

    async def __aenter__(self) -> Self:
        raise NotImplementedError

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        raise NotImplementedError

    async def run(self, address: str, chunk: int) -> None:
        """Do what the store lacks of a chunk.

        Cancelling it lets calls in flight end within the grace time and stores their results.

        Raises:
            InvalidArgumentError: the address is that of another plan, or there is no such chunk:
                the message is to be dropped.
            PoisonChunkError: the chunk was started too often without an end: the message belongs
                to the dead letters; the store says so too.
            PlanStoreError: the store cannot be used: deliver the message again.
        """
        raise NotImplementedError
