"""What a worker does: it calls the function for each item of a chunk, in a bulk run of its own."""

import asyncio
import pickle
import platform
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from operator import attrgetter, itemgetter
from typing import Any, Final

from gateway_sdk import bulk
from gateway_sdk._version import __version__
from gateway_sdk.bulk import BulkResult, Entry, State
from gateway_sdk.errors import GatewayError, InvalidArgumentError, OutageError
from gateway_sdk.rate_limit import RateLimit
from gateway_sdk.session import GatewaySession

_FULL: Final = 2**24
"""Bytes of values after which a chunk takes no more items: the program gives the others again."""

_IDLE: Final = 10.0
"""Seconds without a chunk after which a session is closed, also when the program was killed."""

VERSIONS: Final = (
    f"gateway-sdk {__version__}, Python {platform.python_version().rpartition('.')[0]}"
)
_AREAS: Final = attrgetter("customer", "currency", "wallet", "aml", "kyc", "country_data")

ONCE: Final = (
    "must not be sent twice, and a cluster does the work of a worker that dies again: use "
    "bulk.run on one machine, with its journal, or a queue"
)

Call = Callable[[Any], Awaitable[Any]]
Results = tuple[dict[int, BulkResult[Any, Any]], GatewayError | None]
"""The results by the number of the item; then the error because of which others have none."""


class Sealed:
    """Carries an object through Dask, which cannot print it: items and values may be personal."""

    def __init__(self, content: object) -> None:
        # The module of the script has another name in a worker: what it defines travels too.
        self._pickle = import_module("cloudpickle").dumps(content)

    def open(self) -> Any:
        return pickle.loads(self._pickle)  # noqa: S301 - of the program, or of a worker of it

    def __repr__(self) -> str:
        return "<sealed>"


class EndOfRun(BaseException):
    """Ends a bulk run with an error, because all other items would fail too."""

    def __init__(self, error: GatewayError) -> None:
        super().__init__(error)
        self.error = error


class KilledError(Exception):
    """A chunk was under way in several workers that ended."""


@dataclass(frozen=True)
class Work:
    """What a worker needs to know of a run."""

    run: str
    function: Callable[[GatewaySession, Any], Awaitable[Any]] | str
    session: dict[str, Any]
    concurrency: Any

    def open(self, rate: RateLimit | None) -> tuple[GatewaySession, Call]:
        limit: Any = {} if rate is None else {"rate_limit": rate}
        gateway = GatewaySession.from_env(**self.session, **limit)
        if not isinstance(self.function, str):
            return gateway, partial(self.function, gateway)
        name = self.function
        method = next(getattr(area, name) for area in _AREAS(gateway) if hasattr(area, name))
        return gateway, lambda arguments: method(**dict(arguments))


def check(versions: str, work: Sealed | None) -> str | None:
    """Tell why this process cannot do the work; None if it can."""
    if versions != VERSIONS:
        return f"it has {VERSIONS}, and the program {versions}: install the same"
    try:
        if work is not None:  # else it is the scheduler
            work.open().open(None)
    except Exception as error:  # noqa: BLE001 - whatever the import of the function raises
        return f"{type(error).__name__}: {error}"
    return None


_LANES: Final[dict[tuple[str, int], tuple["asyncio.Task[None]", "asyncio.Queue[Any]"]]] = {}
"""By run and slot: what does its chunks in this process, one after the other; and the chunks."""

_STOPPED: Final[set[str]] = set()
"""The runs that have ended: a chunk that Dask starts afterwards is not begun."""


async def run_chunk(work: Sealed, slot: int, rate: RateLimit | None, chunk: Sealed) -> Sealed:
    """Return the `Results` of a chunk; no results if it was stopped."""
    job: Work = work.open()
    if job.run in _STOPPED:
        return Sealed(({}, None))
    place = job.run, slot
    if place not in _LANES:
        chunks = asyncio.Queue[Any]()
        task = asyncio.create_task(_do_chunks(job, rate, chunks))
        task.add_done_callback(lambda _: _LANES.pop(place))
        _LANES[place] = task, chunks
    task, chunks = _LANES[place]
    ended = asyncio.get_running_loop().create_future()
    chunks.put_nowait((chunk.open(), ended))
    await asyncio.wait([task, ended], return_when=asyncio.FIRST_COMPLETED)
    return Sealed(ended.result() if ended.done() else ({}, None))


async def stop(run: str) -> None:
    """End what is left of a run in this process."""
    _STOPPED.add(run)
    tasks = [task for place, (task, _) in _LANES.items() if place[0] == run]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _do_chunks(job: Work, rate: RateLimit | None, chunks: "asyncio.Queue[Any]") -> None:
    gateway, call = job.open(rate)
    async with gateway:
        with suppress(TimeoutError):
            while True:
                items, ended = await asyncio.wait_for(chunks.get(), _IDLE)
                if rate is not None:  # the last request of this slot may be that of another worker
                    await asyncio.sleep(rate.seconds)
                ended.set_result(await _results(job, call, items))


async def _results(job: Work, call: Call, items: Sequence[Any]) -> Results:
    kept, results, failed = _Kept(), dict[int, BulkResult[Any, Any]](), dict[int, GatewayError]()

    def new() -> Iterator[tuple[int, Any]]:
        for pair in enumerate(items):
            if kept.size > _FULL:
                return
            yield pair

    async def once(pair: tuple[int, Any]) -> Any:
        """Call the function, but in later rounds not: the program decides on those."""
        number, item = pair
        if number in failed:
            raise failed[number]
        try:
            return await call(item)
        except GatewayError as error:
            failed[number] = error
            raise

    run = bulk.run(
        once, new(), key=itemgetter(0), journal=kept, concurrency=job.concurrency, patience=0
    )
    try:
        async with aclosing(run):
            async for result in run:
                error = result.error and _portable(result.error)
                results[result.item[0]] = replace(result, item=(0, None), error=error)
    except Exception as error:  # noqa: BLE001 - the program has to know
        cause = error.__cause__ if isinstance(error, OutageError) else None
        return results, _portable(cause or error)
    return results, None


def _portable(error: Any) -> Any:
    """Return an error that can travel."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - whatever the class of the user raises
        return GatewayError(f"{type(error).__name__}, in a worker: its class cannot be pickled")
    return copy(error) if isinstance(error, GatewayError) else error


class _Kept:
    """The ledger of a chunk: it makes JSON of the values, and refuses what must not be repeated."""

    size = 0

    async def open(self) -> None: ...

    def has(self, key: bytes) -> bool:
        del key
        return False

    async def read(self, keys: Sequence[bytes]) -> Sequence[Entry]:
        raise NotImplementedError

    async def write(self, entries: Sequence[Entry]) -> Sequence[Exception | None]:
        self.size += sum(len(entry.value or "") for entry in entries)
        refusal = InvalidArgumentError(f"the request {ONCE}")
        return [refusal if entry.state is State.BEGUN else None for entry in entries]

    async def aclose(self) -> None: ...
