"""A job: an operation or a function, a store, and the settings of the sessions of its workers."""

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import Any, Literal

from gateway_sdk._call.overrides import Overrides
from gateway_sdk._transport.admission import RateLimit
from gateway_sdk.bulk import Adaptive
from gateway_sdk.fleet._plan import Plan
from gateway_sdk.fleet._store import Store
from gateway_sdk.fleet._worker import Worker
from gateway_sdk.session import GatewaySession


class Job:
    """What a fleet of workers does with the items of one plan.

    Making a job does no I/O; each process makes its own, of the same file.
    """

    def __init__(
        self,
        name: str,
        *,
        operation: str | None = None,
        function: Callable[[GatewaySession, Any], Awaitable[Any]] | None = None,
        store: Store,
        rate_limit: RateLimit | None = None,
        concurrency: int | Literal["adaptive"] | Adaptive = "adaptive",
        session: Overrides | None = None,
        max_starts: int = 10,
        grace: float = 5.0,
    ) -> None:
        self._given = (name, operation, function, store, rate_limit, concurrency, session)
        self._numbers = (max_starts, grace)
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The name of the job, and of its plan."""
        raise NotImplementedError

    async def plan(self, items: Iterable[Any] | AsyncIterable[Any], *, chunk: int = 100) -> Plan:
        """Store the plan, or compare with the one that is stored."""
        raise NotImplementedError

    async def load(self) -> Plan:
        """Return the plan that is stored."""
        raise NotImplementedError

    def worker(self) -> Worker:
        """Make a worker for this process, in the event loop that it runs in."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close the store."""
        raise NotImplementedError
