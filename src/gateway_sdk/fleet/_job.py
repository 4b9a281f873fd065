"""A job: what is done with the items of its plans, and the database that all processes share."""

import inspect
import json
import re
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from os import PathLike
from typing import Any, Final, Literal, TypeAlias, get_type_hints

from pydantic import BaseModel, ConfigDict, SecretStr, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, from_json, to_json

from gateway_sdk import bulk
from gateway_sdk.bulk import Adaptive, Exported
from gateway_sdk.errors import ConfigurationError, InvalidArgumentError
from gateway_sdk.fleet import _plans
from gateway_sdk.fleet._database import connected, fetch, init
from gateway_sdk.fleet._plans import Items, Plan, Status
from gateway_sdk.fleet._worker import Worker
from gateway_sdk.operations import CREATE_CUSTOMER, OPERATIONS, Operation
from gateway_sdk.outcome import Repeatability
from gateway_sdk.rate_limit import RateLimit
from gateway_sdk.session import GatewaySession, OperationMethod

Function: TypeAlias = Callable[[GatewaySession, Any], Awaitable[Any]]

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?", re.ASCII)
_NAMES: Final = 'must be up to 100 letters, digits, ".", "_" and "-", such as "rates-2026"'
_ANY: Final = TypeAdapter[Any](Any, config=ConfigDict(ser_json_inf_nan="constants"))
_MASK: Final = str(SecretStr("any")).encode()
_A_DAY: Final = 86_400.0
_LARGEST_CHUNK: Final = 100_000
"""Items of a chunk; all of them are in the memory of a worker."""

_SEEN: Final = """
select 1 from gateway_fleet.worker where queue = %(queue)s and host = %(host)s
  and seen > clock_timestamp() - lease * interval '1 second' limit 1
"""


class Job:
    """What workers on many machines do with items: a template for any number of plans.

    Making a job does no I/O. Each process makes it in the same file, which all of them import.
    Every method raises `JournalError` if the database cannot be used, and if it takes the name of a
    plan that is not there, `InvalidArgumentError`.
    """

    def __init__(
        self,
        name: str,
        *,
        operation: str | Operation[Any] | None = None,
        function: Function | None = None,
        database: str = "",
        version: str = "",
        rate_limit: RateLimit | None = None,
        concurrency: int | Literal["adaptive"] | Adaptive = "adaptive",
        session: dict[str, Any] | None = None,
        lease: float = 30.0,
        grace: float = 5.0,
    ) -> None:
        """Check every setting; nothing is sent.

        Args:
            name: The name of the job: letters, digits, ".", "_" and "-".
            operation: The operation that is done with each item. An item is a mapping of the
                arguments of its method, or a model with them; of `create_customer` it is the
                request. Items must not hold secrets, because a plan is stored in clear.
            function: A coroutine function of a session and an item, in place of an operation. The
                item is JSON, or what the type of the second parameter makes of it.
            database: The PostgreSQL database, as libpq takes it: "postgresql://..." or
                "service=...". Empty: libpq's environment variables (PGHOST, PGPASSFILE, ...).
            version: Of the function, if results of an older body must not mix with those of a
                newer one: workers of one version do only plans of this version.
            rate_limit: The largest number of requests of all workers together, retries included.
                A twentieth may be sent at once, the others are spread evenly. A request counts
                from when it gets its permit. Without an answer of the database, nothing is sent.
            concurrency: The number of calls at once in a process, as `bulk.run` takes it.
            session: Arguments of `GatewaySession.from_env` for the sessions of workers.
            lease: Seconds after which a worker that gives no sign of life has lost its chunks.
            grace: Seconds that calls in flight have to end after a worker is told to stop.

        Raises:
            ConfigurationError: a setting is missing or wrong; the message names it.
        """
        for setting, text in (("name", name), ("version", version or "1")):
            if not _is_name(text):
                raise ConfigurationError(_NAMES, setting=setting)
        if not isinstance(database, str):
            raise ConfigurationError("must be what libpq takes, or empty", setting="database")
        if session is not None and not isinstance(session, dict):
            raise ConfigurationError(
                "must be a dict of arguments of GatewaySession.from_env", setting="session"
            )
        if "rate_limit" in (session or {}):
            raise ConfigurationError(
                "is an argument of the job, not of session", setting="rate_limit"
            )
        if rate_limit is not None and not isinstance(rate_limit, RateLimit):
            raise ConfigurationError("must be a RateLimit, or None", setting="rate_limit")
        for setting, seconds in (("lease", lease), ("grace", grace)):
            if not isinstance(seconds, int | float) or not 0 < seconds < _A_DAY:
                raise ConfigurationError("must be seconds, up to a day", setting=setting)
        self._name = name
        self._queue = f"{name}@{version}" if version else name
        self._work = make_work(operation, function)
        self._database = database
        self._session = dict(session or {})
        self._make_worker = partial(
            Worker, address=database, queue=self._queue, work=self._work.call,
            session=self._session, limit=(name, rate_limit) if rate_limit else None,
            concurrency=concurrency, lease=lease, grace=grace,
        )  # fmt: skip
        try:
            bulk.run(_nothing, [], concurrency=concurrency)  # checks it
        except InvalidArgumentError as error:
            raise ConfigurationError(error.problem, setting=error.field) from None

    @property
    def name(self) -> str:
        """The name of the job."""
        return self._name

    async def init(self) -> bool:
        """Make the tables of the fleet, where they are missing.

        Returns:
            Whether they were made.

        Raises:
            JournalError: the tables are of another version.
        """
        return await init(self._database)

    async def plan(self, plan: str, items: Items, *, chunk: int = 250) -> bool:
        """Store a plan, whose chunks the workers then take: whole or not at all.

        Equal items are done once each; for an operation that must not be made twice, they are
        refused.

        Args:
            plan: The name of the plan, such as "rates-2026-01"; of one plan in its database.
            items: Any iterable, also an asynchronous one; memory does not grow with it. To plan
                again, it must give the same items.
            chunk: Items of a chunk, which one worker does at a time: better 5 to 60 seconds of
                work, and at most 100,000.

        Returns:
            Whether it was stored: False if it is there with the same items.

        Raises:
            InvalidArgumentError: an item does not fit, there are none, or the plan is there with
                other items.
        """
        name = _plan_name(plan)
        is_number = isinstance(chunk, int) and not isinstance(chunk, bool)
        if not is_number or not 1 <= chunk <= _LARGEST_CHUNK:
            problem = f"must be a whole number of items, from 1 to {_LARGEST_CHUNK}"
            raise InvalidArgumentError(problem, field="chunk")
        if isinstance(items, str | bytes) or not isinstance(items, Iterable | AsyncIterable):
            raise InvalidArgumentError("must be an iterable of items", field="items")
        return await _plans.write_plan(
            self._database, name, items, queue=self._queue, size=chunk,
            unique=self._work.is_once, dump=self._work.dump,
        )  # fmt: skip

    async def status(self, plan: str) -> Status:
        """Return how far a plan is, and what its workers wait for."""
        async with self._opened(plan) as found:
            return await found.status()

    async def chunks(self, plan: str) -> list[int]:
        """Return the numbers of the chunks in which something is left to do, in order."""
        async with self._opened(plan) as found:
            return [number for (number,) in await found.fetch(_plans.OPEN_CHUNKS)]

    def failed(self, plan: str) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the items that failed, in order: number, item, error, message, advice, ..."""
        return self._in_state("failed", plan)

    def unknown(self, plan: str) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the items that may have been carried out, and are never sent again, in order.

        Ask the gateway what became of each of them.
        """
        return self._in_state("unknown", plan)

    async def _in_state(self, state: str, plan: str) -> AsyncGenerator[dict[str, Any], None]:
        async with self._opened(plan) as found:
            async for row in found.in_state(state):
                yield row

    def _opened(self, plan: str, *, is_read: bool = True) -> AbstractAsyncContextManager[Plan]:
        return _plans.opened(self._database, _plan_name(plan), is_read=is_read)

    async def collect(
        self,
        plan: str,
        out: str | PathLike[str],
        *,
        rates: bool | None = None,
        partial: bool = False,
    ) -> Exported:
        """Write the results of a plan into a file, in the order of its items, whole or not at all.

        Args:
            plan: The name of the plan.
            out: The file; .csv, .ndjson, .jsonl or .parquet, as `bulk.export` writes them.
            rates: Whether to write rates; None: if the first value has their shape.
            partial: Whether to write what is there while something is missing.

        Returns:
            What was written; `failed` counts the items without a value.

        Raises:
            InvalidArgumentError: the file has another suffix.
            JournalError: something is missing.
            OSError: the file cannot be written.
        """
        async with self._opened(plan) as found:
            return await found.collect(out, rates=rates, partial=partial)

    async def retry(self, plan: str, *, every: bool = False) -> int:
        """Forget failures, whose items the workers then do again.

        What is unknown stays, and so does what must not be made twice and may have been done.

        Args:
            plan: The name of the plan.
            every: Also those that would fail again unless something was changed; by default
                those whose advice is REPEAT or LOG_IN.

        Returns:
            How many were forgotten.

        Raises:
            JournalError: a worker has a chunk of it now.
        """
        async with self._opened(plan, is_read=False) as found:
            return sum(count for (count,) in await found.fetch(_plans.FORGET, all=every))

    async def delete(self, plan: str) -> None:
        """Delete a plan with its results.

        Raises:
            JournalError: a worker has a chunk of it now.
        """
        async with self._opened(plan, is_read=False) as found:
            await found.fetch(_plans.DELETE)

    async def is_alive(self, host: str) -> bool:
        """Tell whether a worker of the job on this machine gave a sign of life a moment ago."""
        async with connected(self._database) as connection:
            return bool(await fetch(connection, _SEEN, {"queue": self._queue, "host": host}))

    def worker(self) -> Worker:
        """Make a worker, for one process and the event loop in which it is entered.

        async with job.worker() as worker:
            await worker.run()
        """
        return self._make_worker()


async def _nothing(item: object) -> None: ...


def _is_name(text: object) -> bool:
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def _plan_name(plan: str) -> str:
    if not _is_name(plan):
        raise InvalidArgumentError(_NAMES, field="plan")
    return plan


class OperationWork:
    """One of the twelve operations; an item is a mapping of the arguments of its method."""

    def __init__(self, operation: Operation[Any]) -> None:
        self.is_once = operation.repeatability is Repeatability.ONCE
        # The arguments have the names of Python, those of a request the names of the wire.
        self._by_alias = operation is CREATE_CUSTOMER
        self._method = OperationMethod(operation)

    def dump(self, item: Any) -> bytes:
        """Return an item as JSON, after checking everything that can be checked before."""
        if isinstance(item, BaseModel):
            try:
                item = item.model_dump(mode="json", by_alias=self._by_alias, exclude_unset=True)
            except (RecursionError, ValueError):  # its text may show the value
                raise InvalidArgumentError("it is a model with a value that is not JSON") from None
        text = _json(dict(item) if isinstance(item, Mapping) else item)
        self._method.check(from_json(text))
        return text

    def call(self, gateway: GatewaySession, item: Any) -> Awaitable[Any]:
        return self._method.call(gateway, item)


class FunctionWork:
    """A coroutine function of a session and an item, which is validated as its type."""

    is_once = False  # it is only known when something is sent

    def __init__(self, function: Any) -> None:
        given: Any = function
        called: Any = function if inspect.isroutine(function) else type(function).__call__
        if not callable(function) or not inspect.iscoroutinefunction(called):
            raise ConfigurationError(
                "must be a coroutine function of (gateway, item)", setting="function"
            )
        self._function: Function = given
        self._items = _adapter_of(called, given)

    def dump(self, item: Any) -> bytes:
        text = _json(item)
        self._load(text)
        return text

    def _load(self, text: bytes) -> Any:
        try:
            return self._items.validate_json(text)
        except ValidationError as error:
            raise InvalidArgumentError(_described(error)) from None

    def call(self, gateway: GatewaySession, item: Any) -> Awaitable[Any]:
        # As JSON: strict models take other things from Python.
        return self._function(gateway, self._load(to_json(item)))


def _adapter_of(called: Any, function: Any) -> TypeAdapter[Any]:
    try:
        bound = inspect.signature(function).bind(None, None)
    except TypeError:
        raise ConfigurationError(
            "must take two arguments: (gateway, item)", setting="function"
        ) from None
    parameter = list(bound.signature.parameters.values())[min(1, len(bound.arguments) - 1)]
    hint: Any = None
    try:
        hint = get_type_hints(called).get(parameter.name, Any)
        return TypeAdapter(hint)
    except NameError as error:
        problem = (
            f"names a type that is not there when it runs ({error.name}): import it outside of "
            "`if TYPE_CHECKING`"
        )
    except PydanticUserError:
        name = getattr(hint, "__name__", hint)
        problem = f"takes a {name} as its item: items are JSON, or models of pydantic"
    raise ConfigurationError(problem, setting="function")


def _described(error: ValidationError) -> str:
    """Name what is wrong without showing the values."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or 'it'}: {problem['msg']}" for problem in problems
    )


def _json(item: Any) -> bytes:
    """Write an item; equal items have equal texts."""
    try:
        # Refused: too deep items, too long integers, and numbers that JSON does not know.
        plain = from_json(_ANY.dump_json(item, by_alias=True, exclude_unset=True))
        text = json.dumps(
            plain, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True
        ).encode()
    except (PydanticSerializationError, RecursionError, TypeError, ValueError) as error:
        # Without the cause, whose text may show the value.
        raise InvalidArgumentError(f"it is no JSON value ({type(error).__name__})") from None
    if _MASK in text:
        raise InvalidArgumentError(
            "it holds a secret, which would be kept in clear: use function=, and let it fetch the"
            " secret where the call is made"
        )
    return text


Work: TypeAlias = OperationWork | FunctionWork


def make_work(operation: object, function: object) -> Work:
    if (operation is None) == (function is None):
        raise ConfigurationError("give either operation= or function=")
    if operation is None:
        return FunctionWork(function)
    names = {known.name: known for known in OPERATIONS}
    name = operation.name if isinstance(operation, Operation) else operation
    if not isinstance(name, str) or name not in names:
        raise ConfigurationError(f"operation must be one of {', '.join(names)}")
    return OperationWork(names[name])
