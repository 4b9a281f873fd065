"""What a worker does: it calls the function for each item of a chunk, in a bulk run of its own."""

import asyncio
import pickle
import platform
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from operator import attrgetter
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

Results = tuple[dict[int, BulkResult[Any, Any]], GatewayError | None]
"""The results by the number of the item; then the error because of which others have none."""


class Sealed:
    """Carries an object through Dask, which cannot print it: items and values may be personal."""

    def __init__(self, content: object) -> None:
        try:
            self._pickle = pickle.dumps(content)
        except (AttributeError, pickle.PicklingError):
            self._pickle = b"__main__"
        if b"__main__" in self._pickle:  # which is another module in a worker
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
    """A chunk was under way in several processes that ended."""


@dataclass(frozen=True)
class Work:
    """What a worker needs to know of a run."""

    run: str
    function: Callable[[GatewaySession, Any], Awaitable[Any]] | str
    session: dict[str, Any]
    concurrency: Any

    def open(self, rate: RateLimit | None) -> "_Opened":
        limit: Any = {} if rate is None else {"rate_limit": rate}
        gateway = GatewaySession.from_env(**self.session, **limit)
        if not isinstance(self.function, str):
            return _Opened(gateway, partial(self.function, gateway))
        name = self.function
        method = next(getattr(area, name) for area in _AREAS(gateway) if hasattr(area, name))
        return _Opened(gateway, lambda arguments: method(**dict(arguments)))


@dataclass(eq=False)
class _Opened:
    """A session of a run in this process, and the chunks that use it."""

    gateway: GatewaySession
    call: Callable[[Any], Awaitable[Any]]
    chunks: int = 0
    timer: asyncio.TimerHandle | None = None


_OPENED: Final[dict[tuple[str, int], _Opened]] = {}
_TASKS: Final[set["asyncio.Task[Any]"]] = set()  # they have the name of their run


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


async def run_chunk(work: Sealed, slot: int, rate: RateLimit | None, chunk: Sealed) -> Sealed:
    # A task of its own: Dask must not see its cancellation.
    job: Work = work.open()
    task = asyncio.create_task(_results(job, slot, rate, chunk.open()), name=job.run)
    _TASKS.add(task)
    await asyncio.wait([task])
    _TASKS.discard(task)
    return Sealed(({}, None) if task.cancelled() else task.result())


async def stop(run: str) -> None:
    """End what is left of a run in this process."""
    tasks = [task for task in _TASKS if task.get_name() == run]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for place in [place for place in _OPENED if place[0] == run]:
        await _OPENED.pop(place).gateway.aclose()


@contextmanager
def _session(job: Work, slot: int, rate: RateLimit | None) -> Generator[_Opened]:
    place = job.run, slot if rate else 0
    if place not in _OPENED:
        _OPENED[place] = job.open(rate)
    opened = _OPENED[place]
    opened.chunks += 1
    if opened.timer is not None:
        opened.timer.cancel()
    try:
        yield opened
    finally:
        opened.chunks -= 1
        if not opened.chunks:
            opened.timer = asyncio.get_running_loop().call_later(_IDLE, _close, place, opened)


def _close(place: tuple[str, int], opened: _Opened) -> None:
    if _OPENED.pop(place, None) is opened:
        closing = asyncio.get_running_loop().create_task(opened.gateway.aclose(), name=place[0])
        _TASKS.add(closing)
        closing.add_done_callback(_TASKS.discard)


async def _results(job: Work, slot: int, rate: RateLimit | None, items: Sequence[Any]) -> Results:
    kept, results, failed = _Kept(), dict[int, BulkResult[Any, Any]](), dict[int, GatewayError]()

    def new() -> Iterator[tuple[int, Any]]:
        for pair in enumerate(items):
            if kept.size > _FULL:
                return
            yield pair

    with _session(job, slot, rate) as opened:

        async def once(pair: tuple[int, Any]) -> Any:
            """Call the function, but in later rounds not: the program decides on those."""
            number, item = pair
            if number in failed:
                raise failed[number]
            try:
                return await opened.call(item)
            except GatewayError as error:
                failed[number] = error
                raise

        if rate is not None:  # the chunk before may have sent its last request in another worker
            await asyncio.sleep(rate.seconds)
        run = bulk.run(
            once, new(), key=_number, journal=kept, concurrency=job.concurrency, patience=0
        )
        try:
            async with aclosing(run):
                async for result in run:
                    error = result.error and _portable(result.error)
                    results[result.item[0]] = replace(result, item=(0, None), error=error)
        except GatewayError as error:
            cause = error.__cause__ if isinstance(error, OutageError) else None
            return results, _portable(cause if isinstance(cause, GatewayError) else error)
    return results, None


def _number(pair: tuple[int, Any]) -> int:
    return pair[0]


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
