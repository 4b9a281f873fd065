"""Bulk runs on the workers of a Dask cluster, for what may be made twice; needs [cluster].

from gateway_sdk import cluster

cluster.run(latest, queries, address="tls://scheduler:8786", journal="rates.db", job="rates")
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_address
from math import ceil
from os import PathLike
from types import NoneType
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from typing_extensions import TypeVar

from gateway_sdk import bulk, operations
from gateway_sdk.bulk import BulkResult, Progress
from gateway_sdk.bulk.results import Results as Yielded, value_of
from gateway_sdk.cluster._worker import (
    FULL,
    ONCE,
    EndOfRun,
    Kept,
    Sealed,
    Work,
    call_by_name,
    failed,
)
from gateway_sdk.errors import GatewayError, InvalidArgumentError, needing_extra
from gateway_sdk.outcome import Advice, Outcome, Repeatability
from gateway_sdk.rate_limit import RateLimit
from gateway_sdk.session import GatewaySession

__all__ = ["run"]

Item = TypeVar("Item")
Value = TypeVar("Value", default=Any)  # that of an operation

_LINGER: Final = 0.005
"""Seconds in which further items may join a chunk."""

_ENDS: Final = 4
"""How many workers with an item end, before it may be the cause and is done alone, as in Dask."""

_BURST: Final = 4
"""Requests that a slot may send together: one by one, late timers take a tenth of the rate."""

_HELD: Final = {"headers", "http_client", "observers", "rate_limit", "token_header", "transport"}
"""Settings of a session that hold secrets, or that cannot travel."""

_KILLED: Final = GatewayError("each process ended that did this item alone")
_KILLED.outcome, _KILLED.advice = Outcome.UNKNOWN, Advice.FIX


def run(
    work: Callable[[GatewaySession, Item], Awaitable[Value]] | str,
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    address: str | None = None,
    workers: int = 2,
    security: Any = None,
    allow_insecure: bool = False,
    session: Mapping[str, Any] | None = None,
    rate_limit: RateLimit | None = None,
    chunk: int = 100,
    at_once: int = 8,
    concurrency: int | Literal["adaptive"] | bulk.Adaptive = 25,
    key: Callable[[Item], object] | None = None,
    subject: Callable[[Item], object] | None = None,
    deadline: float | None = None,
    patience: float | None = 3600.0,
    on_progress: Callable[[Progress], object] | None = None,
    journal: str | PathLike[str] | None = None,
    job: str | None = None,
    retry_failed: bool = False,
    load: Callable[[Any], Value] | None = None,
) -> AsyncGenerator[BulkResult[Item, Value], None]:
    """Call a coroutine function with each item, in the workers of a cluster.

    For what may be made twice: a cluster does the work of a worker that dies again. Results,
    errors, progress, outages and the journal are those of `gateway_sdk.bulk.run`; a value is the
    JSON of what the function returned. This program writes the journal: if it is killed, the same
    call goes on. It holds up to `2 * at_once * chunk` items and the values of `at_once` chunks; no
    chunk begins while more than 16 MiB of values wait for you to take them.

    Args:
        work: A coroutine function of a session and an item, which workers can import; or the name
            of an operation, if the items are its arguments by name.
        items: The items; a generator may be endless, and may be asynchronous.
        address: The address of a Dask scheduler, such as "tls://scheduler:8786"; None for a
            cluster on this machine, which ends with the run.
        workers: The processes of a cluster on this machine.
        security: Dask's `Security`, with the certificates for "tls://".
        allow_insecure: Allow "tcp://" to another machine: who can reach its port can run code.
        session: Settings for `GatewaySession.from_env` in the workers, whose environment has the
            others. No secrets: an access token comes from the environment, a token store, or a
            function that is given as `access_token`.
        rate_limit: The limit for all workers together. A worker that is stopped and goes on later
            may exceed it by the share of one chunk at once.
        chunk: Items of a chunk at most.
        at_once: Chunks at once: give at least the number of workers.
        concurrency: Calls at once of a chunk.
        patience: Seconds for which the run waits for a gateway, a login, the scheduler or workers
            that are away. At the start, a cluster that cannot be used ends the run within 15 s;
            one on this machine has a minute more to start its workers.
        load: Converts the JSON of a value, also without a journal.
        key, subject, deadline, on_progress, journal, job, retry_failed: As in `bulk.run`; the
            journal is the path of a file.

    Yields:
        One result per item. An item whose process ends each time, also if it is done alone, has a
        `GatewayError` with the outcome UNKNOWN.

    Raises:
        InvalidArgumentError: an argument is wrong, or the operation must not be sent twice; at
            once, and nothing is sent.
        MissingExtraError: the extra `cluster` is not installed; at once.
        ConnectionFailedError: there is no scheduler, or no worker.
        ConfigurationError: the scheduler or the workers cannot do the work; the message says why.
        GatewayError: as in `bulk.run`.
    """
    for name, number in {"workers": workers, "chunk": chunk, "at_once": at_once}.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise InvalidArgumentError("must be a whole number of at least 1", field=name)
    kinds: dict[str, tuple[Any, Any, str]] = {
        "address": (address, str | None, "the address of a scheduler"),
        "allow_insecure": (allow_insecure, bool, "True or False"),
        "journal": (journal, (str, PathLike, NoneType), "the path of a file"),
        "rate_limit": (rate_limit, RateLimit | None, "a RateLimit"),
        "session": (session, (Mapping, NoneType), "a mapping with settings"),
    }
    for name, (value, kind, wanted) in kinds.items():
        if not isinstance(value, kind) or value == "":
            raise InvalidArgumentError(f"must be {wanted}", field=name)
    function = _function(work)
    # What `bulk.run` checks else only in a worker, or with a journal.
    bulk.run(function, (), concurrency=concurrency, load=load, journal=Kept())
    given = Work(uuid.uuid4().hex, function, _settings(session), concurrency)
    if address is not None and not allow_insecure and security is None:
        _check_address(address)
    with needing_extra("cluster", "a cluster"):
        from gateway_sdk.cluster._dask import Workers  # noqa: PLC0415
    place = Workers(_sealed(given), workers if address is None else address, security)
    chunks = _Chunks(place, chunk, rate_limit, at_once, None if journal else load)
    results = bulk.run(
        chunks.call, items, concurrency=2 * at_once * chunk, key=key, subject=subject,
        deadline=deadline, patience=patience, on_progress=on_progress, journal=journal, job=job,
        retry_failed=retry_failed, load=load if journal else None,
    )  # fmt: skip
    return Yielded(_until_closed(results, chunks))


def _function(work: Any) -> Any:
    if callable(work):
        return work
    for operation in operations.OPERATIONS:
        if operation.name == work:
            if operation.repeatability is Repeatability.ONCE:
                raise InvalidArgumentError(f"{work} {ONCE}", field="work")
            return partial(call_by_name, work)
    raise InvalidArgumentError(
        "must be a coroutine function of a session and an item, or the name of an operation",
        field="work",
    )


def _settings(session: Mapping[str, Any] | None) -> dict[str, Any]:
    settings = dict(session or {})
    held = sorted(_HELD & settings.keys())
    if not callable(settings.get("access_token", callable)):
        held.append("access_token")
    if isinstance(cert := settings.get("cert"), tuple) and cert[2:]:
        held.append("cert with a password")
    if "@" in str(settings.get("proxy")):
        held.append("proxy with a password")
    if held:
        raise InvalidArgumentError(
            f"cannot hold {held[0]}, which would travel through the cluster: set it in the "
            "environment of the workers, use a token store, or give a function as access_token",
            field="session",
        )
    return settings


def _check_address(address: str) -> None:
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    try:
        is_here = parts.hostname == "localhost" or ip_address(parts.hostname or "").is_loopback
    except ValueError:
        is_here = False
    if parts.scheme not in ("tls", "wss") and not is_here:
        raise InvalidArgumentError(
            f"is {parts.scheme}:// to another machine: who can reach its port can run code in the "
            "workers, and reads what travels; use tls:// with security=, or allow_insecure=True "
            "if the network itself is private",
            field="address",
        )


def _sealed(work: Work) -> Sealed:
    try:
        return Sealed(work)
    except Exception as error:
        problem = f"cannot be pickled ({type(error).__name__}: {error})"
        raise InvalidArgumentError(
            f"{problem}: give a function of a module", field="work"
        ) from error


def _limits(rate: RateLimit | None, at_once: int) -> list[RateLimit | None]:
    """Return the limits of the slots, and of a chunk alone; a chunk elsewhere makes no burst."""
    if rate is None:
        return [None] * (at_once + 1)
    burst = max(1, min(_BURST, rate.requests // (4 * at_once)))  # so that few are left over
    parts = rate.requests // burst
    slots = min(at_once, parts)
    least, more = divmod(parts, slots)
    shares = [least] * (slots - more) + [least + 1] * more
    return [RateLimit(burst, rate.seconds / share) for share in (*shares, parts)]


async def _until_closed(
    results: AsyncGenerator[Any, None], chunks: "_Chunks"
) -> AsyncGenerator[Any]:
    try:
        async with aclosing(results):
            async for result in results:
                chunks.take(result.item)
                yield result
    except EndOfRun as end:
        raise end.error from None
    finally:
        await chunks.aclose()


@dataclass(eq=False, slots=True)
class _Waiting:
    """An item whose result is to come."""

    item: Any
    result: "asyncio.Future[BulkResult[Any, Any]]"
    ends: int = 0  # of workers that had it


class _Chunks:
    """Puts items into chunks, and chunks into slots; the item of a call waits for its result."""

    def __init__(
        self, workers: Any, size: int, rate: RateLimit | None, at_once: int, load: Any
    ) -> None:
        self._workers, self._size, self._load = workers, size, load
        self._waiting = asyncio.Queue[_Waiting]()
        self._limits = _limits(rate, at_once)
        self._slots = len(self._limits) - 1
        self._free = asyncio.Queue[int]()
        for slot in range(self._slots):
            self._free.put_nowait(slot)
        self._alone = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._untaken: dict[int, int] = {}  # by item: characters of its value, until it is taken
        self._taken = asyncio.Event()

    async def call(self, item: Any) -> Any:
        """Return the result of the item in a worker."""
        if not self._tasks:
            self._begin(self._fill())
        one = _Waiting(item, asyncio.get_running_loop().create_future())
        self._waiting.put_nowait(one)
        result = await one.result
        if result.error is not None:
            return result
        size = len(value_of(result).text)
        if self._load is not None:
            result = replace(result, _value=self._load(result.value))
        self._untaken[id(item)] = size
        return result

    def take(self, item: Any) -> None:
        """Note that the user gets the result of the item."""
        self._untaken.pop(id(item), None)
        self._taken.set()

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fill(self) -> None:
        while True:
            chunk = [await self._waiting.get()]
            await asyncio.sleep(_LINGER)
            slot = await self._free.get()
            while sum(self._untaken.values()) > FULL:
                self._taken.clear()
                await self._taken.wait()
            size = ceil((1 + self._waiting.qsize()) / (1 + self._free.qsize()))
            while len(chunk) < min(size, self._size):
                chunk.append(self._waiting.get_nowait())
            self._begin(self._do(slot, chunk))

    async def _do(self, slot: int, chunk: list[_Waiting]) -> None:
        is_done = await self._try(slot, chunk)
        self._free.put_nowait(slot)
        left = [] if is_done else [one for one in chunk if not one.result.done()]
        for one in left:
            one.ends += 1
            if one.ends < _ENDS:
                self._waiting.put_nowait(one)
        if suspects := [one for one in left if one.ends >= _ENDS]:
            async with self._alone:
                taken = [await self._free.get() for _ in range(self._slots)]
                if limit := self._limits[0]:
                    await asyncio.sleep(limit.seconds)  # after the last request of each slot
                await self._do_alone(suspects)
                for other in taken:
                    self._free.put_nowait(other)

    async def _do_alone(self, chunk: list[_Waiting]) -> None:
        """Do a chunk beside which nothing runs, at the whole rate; else each item by itself."""
        if await self._try(self._slots, chunk):
            return
        if chunk[1:]:
            for one in chunk:
                await self._do_alone([one])
        else:
            _end(chunk[0], failed(_KILLED))

    async def _try(self, slot: int, chunk: list[_Waiting]) -> bool:
        """Do a chunk; False if it ended its worker."""
        results, error = dict[int, BulkResult[Any, Any]](), None
        try:
            if (done := await self._workers.do(self._seal(slot, chunk))) is None:
                return False
            results, error = done[0], done[1] and done[1].open()
            if error and not isinstance(error, InvalidArgumentError):  # which is of an item
                error = EndOfRun(error)
        except (GatewayError, EndOfRun) as caught:
            error = caught
        except Exception as caught:  # noqa: BLE001 - ours: else the items would wait for ever
            text = f"a chunk failed with {type(caught).__name__}"  # whose text may show an item
            error = EndOfRun(GatewayError(text))
        if isinstance(error, InvalidArgumentError) and chunk[1:]:  # of an item
            half = len(chunk) // 2
            return all([await self._try(slot, part) for part in (chunk[:half], chunk[half:])])
        for number, one in enumerate(chunk):
            if found := results.get(number) or (error and failed(error)):
                _end(one, found)
            else:  # the chunk was full
                self._waiting.put_nowait(one)
        return True

    def _seal(self, slot: int, chunk: list[_Waiting]) -> Sealed:
        try:
            return Sealed((slot, self._limits[slot], [one.item for one in chunk]))
        except Exception as error:  # noqa: BLE001 - whatever the item's class raises
            what = f"of the type {type(chunk[0].item).__name__}"
            problem = f"{what} cannot be pickled for a worker ({type(error).__name__})"
            raise InvalidArgumentError(problem, field="item") from None

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._workers.aclose()


def _end(one: _Waiting, found: BulkResult[Any, Any]) -> None:
    """Give an item its result, unless it was cancelled, or is a part that was done before."""
    if not one.result.done():
        error: Any = found.error
        error = error.open() if isinstance(error, Sealed) else copy(error)
        one.result.set_result(replace(found, error=error))
