"""A job: an operation or a function, a store, and the settings of the sessions of its workers."""

import re
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Any, Final, Literal, Self, cast

from gateway_sdk._checks import check_count, check_wait
from gateway_sdk._settings import EnvironmentSettings
from gateway_sdk._transport.rate_limit import AnyRateLimit
from gateway_sdk.bulk import Adaptive
from gateway_sdk.bulk.run import limit_of
from gateway_sdk.errors import ConfigurationError, InvalidArgumentError, PlanStoreError
from gateway_sdk.fleet._parts import Parts
from gateway_sdk.fleet._plan import Plan
from gateway_sdk.fleet._planning import check_work, store_plan
from gateway_sdk.fleet._shared import PerLoop
from gateway_sdk.fleet._store import Store, is_store
from gateway_sdk.fleet._work import make_work
from gateway_sdk.fleet._worker import Worker
from gateway_sdk.operations import Operation
from gateway_sdk.session import GatewaySession

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?", re.ASCII)
_LARGEST_CHUNK: Final = 100_000
"""Items of a chunk; all of them are in the memory of a worker, with their values."""


class Job:
    """What a fleet of workers does with the items of one plan.

    Making a job does no I/O. Each process makes it in the same file, which all of them import.
    """

    def __init__(
        self,
        name: str,
        *,
        operation: str | Operation[Any] | None = None,
        function: Callable[[GatewaySession, Any], Awaitable[Any]] | None = None,
        store: Store,
        rate_limit: AnyRateLimit | None = None,
        concurrency: int | Literal["adaptive"] | Adaptive = "adaptive",
        session: EnvironmentSettings | None = None,
        max_starts: int = 10,
        grace: float = 5.0,
    ) -> None:
        """Check every setting; nothing is sent.

        Args:
            name: The name of the job and of its one plan, such as "rates-2026-q1": letters,
                digits, ".", "_" and "-".
            operation: The operation that is done with each item. An item is a mapping of the
                arguments of its method, or a model with them; of `create_customer` it is the
                request. Items must not hold secrets, because a plan is stored in clear.
            function: A coroutine function of a session and an item, in place of an operation. The
                item is JSON, or what the type of the second parameter makes of it.
            store: A `PostgresStore`, which all processes reach.
            rate_limit: A `SharedRateLimit` for the whole fleet, or a `RateLimit` for each process.
            concurrency: The number of calls at once in a process, for all its chunks together, as
                `bulk.run` takes it.
            session: Arguments of `GatewaySession.from_env` for the sessions of workers.
            max_starts: How often a chunk is started without an end before it counts as broken.
            grace: Seconds that the calls of a chunk have to end after it was cancelled.

        Raises:
            ConfigurationError: a setting is missing or wrong; the message names it.
        """
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigurationError(
                'name must be up to 100 letters, digits, ".", "_" and "-", such as "rates-2026-q1"'
            )
        self._session = _settings(session, rate_limit)
        work = make_work(operation, function)
        if not is_store(store):
            raise ConfigurationError("must be a PostgresStore", setting="store")
        limit_of("concurrency", concurrency)
        self._parts = Parts(
            name=name,
            work=work,
            store=store,
            shared=PerLoop(partial(limit_of, "concurrency", concurrency)),
            max_starts=check_count("max_starts", max_starts),
            grace=check_wait("grace", grace),
        )

    @property
    def name(self) -> str:
        """The name of the job, and of its plan."""
        return self._parts.name

    async def plan(self, items: Iterable[Any] | AsyncIterable[Any], *, chunk: int = 250) -> Plan:
        """Store the plan of the job, item by item; if it is there already, compare with it.

        Equal items at two places are done twice; for an operation that must not be made twice,
        they are refused. A plan whose planning broke off does not exist.

        Args:
            items: Any iterable, also an asynchronous one. It is taken as it is stored, so memory
                does not grow with it. It must give the same items each time.
            chunk: Items of one chunk, which is the part of a plan that one worker does at a time:
                better 5 to 60 seconds of work.

        Raises:
            InvalidArgumentError: an item does not fit, or there are none; the message names it.
            PlanStoreError: the store has another plan of this name, or cannot be used.
        """
        if isinstance(chunk, bool) or not isinstance(chunk, int):
            raise InvalidArgumentError("chunk must be a whole number of items")
        if not 1 <= chunk <= _LARGEST_CHUNK:
            raise InvalidArgumentError(f"chunk must be from 1 to {_LARGEST_CHUNK} items")
        if isinstance(items, str | bytes) or not isinstance(items, Iterable | AsyncIterable):
            raise InvalidArgumentError("items must be an iterable of items")
        await self._parts.store.open()
        return Plan(await store_plan(self._parts, items, chunk), self._parts)

    async def load(self) -> Plan:
        """Return the plan that is stored.

        Raises:
            PlanStoreError: there is none, it is of another operation, or the store cannot be used.
        """
        await self._parts.store.open()
        record = await self._parts.store.find_plan(self.name)
        if record is None:
            raise PlanStoreError(
                f"the store has no plan {self.name!r}: it was not planned, or not to its end"
            )
        check_work(record, self._parts.work.name)
        return Plan(record, self._parts)

    def gateway(self) -> GatewaySession:
        """Make a session as workers do, with the rate limit of the job; the caller closes it.

        Raises:
            ConfigurationError: a setting is missing or wrong; the message names it.
        """
        return GatewaySession.from_env(**self._session)

    def worker(self) -> Worker:
        """Make a worker, for one process and the event loop in which it is entered.

        Raises:
            ConfigurationError: a setting of its session is missing or wrong.
        """
        return Worker(self._parts, self.gateway())

    async def __aenter__(self) -> Self:
        await self._parts.store.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the store."""
        await self._parts.store.aclose()


def _settings(session: object, rate_limit: AnyRateLimit | None) -> EnvironmentSettings:
    if session is not None and not isinstance(session, dict):
        raise ConfigurationError("session must be a dict of arguments of GatewaySession.from_env")
    settings = cast("EnvironmentSettings", dict(session or {}))
    if rate_limit is None:
        return settings
    if "rate_limit" in settings:
        raise ConfigurationError("rate_limit was given twice: leave it out of session")
    return {**settings, "rate_limit": rate_limit}
