"""What a worker does: it calls the function for each item of a chunk, in a bulk run of its own."""

import asyncio
import pickle
import platform
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from copy import copy
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import takewhile
from operator import attrgetter, itemgetter
from typing import Any, Final

from gateway_sdk import bulk
from gateway_sdk._version import __version__
from gateway_sdk.bulk import BulkResult, Entry, State
from gateway_sdk.errors import GatewayError, InvalidArgumentError, OutageError
from gateway_sdk.outcome import Outcome
from gateway_sdk.rate_limit import RateLimit
from gateway_sdk.session import GatewaySession

FULL: Final = 2**24
"""Bytes of values after which a chunk takes no more items: the program gives the others again. It
begins no chunk while so many wait for the user."""

_IDLE: Final = 3.0
"""Seconds without a chunk after which a session is closed."""

_LOOK: Final = 0.2
"""Seconds between two looks at whether the program still waits for a chunk."""

VERSIONS: Final = (
    f"gateway-sdk {__version__}, Python {platform.python_version().rpartition('.')[0]}"
)
_AREAS: Final = attrgetter("customer", "currency", "wallet", "aml", "kyc", "country_data")

ONCE: Final = (
    "must not be sent twice, and a cluster does the work of a worker that dies again: use "
    "bulk.run on one machine, with its journal, or a queue"
)

Results = tuple[dict[int, BulkResult[Any, Any]], "SealedError | None"]
"""The results by the number of the item; then the error that ends the run, or that of an item
that cannot be loaded. All errors are sealed: the program may lack a class that the worker has."""


class Sealed:
    """Carries an object through Dask, which cannot print it: items and values may be personal."""

    def __init__(self, content: object) -> None:
        # The module of the script has another name in a worker: what it defines travels too.
        self._pickle = import_module("cloudpickle").dumps(content)

    def open(self) -> Any:
        return pickle.loads(self._pickle)  # noqa: S301 - of the program, or of a worker of it

    def __repr__(self) -> str:
        return "<sealed>"


class SealedError(Sealed):
    """Carries an error, or the name of one that cannot travel."""

    def __init__(self, error: BaseException, outcome: Outcome | None = None) -> None:
        self._name, self._outcome = type(error).__name__, outcome or Outcome.UNKNOWN
        try:
            super().__init__(copy(error) if isinstance(error, GatewayError) else error)
        except Exception:  # noqa: BLE001 - whatever the class of the user raises
            self._pickle = b""

    def open(self) -> Any:
        try:
            return super().open()
        except Exception:  # noqa: BLE001 - as above
            what = "in a worker: its class cannot be pickled or is not here"
            error = GatewayError(f"{self._name}, {what}")
            error.outcome = self._outcome
            return error


def failed(error: Any) -> BulkResult[Any, Any]:
    return BulkResult(item=(), error=error, elapsed=0.0, _value=None)


class EndOfRun(BaseException):
    """Ends a bulk run with an error, because all other items would fail too."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


@dataclass(frozen=True)
class Work:
    """What a worker needs to know of a run."""

    run: str
    function: Callable[[GatewaySession, Any], Awaitable[Any]]
    session: dict[str, Any]
    concurrency: Any


async def call_by_name(operation: str, gateway: GatewaySession, arguments: Any) -> Any:
    area = next(area for area in _AREAS(gateway) if hasattr(area, operation))
    return await getattr(area, operation)(**dict(arguments))


def check(versions: str) -> None:
    """Raise an error if this process has other versions than the program."""
    if versions != VERSIONS:
        problem = f"it has {VERSIONS}, and the program {versions}: install the same"
        raise RuntimeError(problem)


_LANES: Final[dict[tuple[str, int], tuple["asyncio.Task[None]", "asyncio.Queue[Any]"]]] = {}
"""By run and slot: what does its chunks in this process, one after the other; and the chunks."""


async def run_chunk(key: str, sealed: Sealed, chunk: Sealed) -> Sealed:
    """Return the `Results` of a chunk; none if the program, which may be gone, does not wait."""
    try:
        work = sealed.open()
    except Exception as error:  # noqa: BLE001 - an OSError as it is would mean a worker that is gone
        # These texts name a module or a file; others may hold anything.
        is_shown = isinstance(error, ImportError | AttributeError | OSError)
        problem = f"{type(error).__name__}{f': {error}' if is_shown else ''}"
        raise RuntimeError(problem) from None
    try:
        slot, rate, items = chunk.open()
    except ImportError:
        raise
    except Exception as error:  # noqa: BLE001 - of an item, whatever its class raises
        problem = f"cannot be loaded in a worker ({type(error).__name__})"
        return Sealed(({}, SealedError(InvalidArgumentError(problem, field="item"))))
    place = work.run, slot
    if place not in _LANES:
        gateway = GatewaySession.from_env(**work.session, rate_limit=rate)
        chunks = asyncio.Queue[Any]()
        task = asyncio.create_task(_do_chunks(work, gateway, rate, chunks))
        task.add_done_callback(lambda _: _LANES.pop(place))
        _LANES[place] = task, chunks
    task, chunks = _LANES[place]
    ended = asyncio.get_running_loop().create_future()
    chunks.put_nowait((items, ended))
    state = import_module("distributed").get_worker().state
    while not task.done() and not ended.done():
        # Dask lets a coroutine run on whose result nobody waits for any more.
        if key not in state.tasks or state.tasks[key].state != "executing":
            task.cancel()
        await asyncio.wait([task, ended], timeout=_LOOK, return_when=asyncio.FIRST_COMPLETED)
    if not ended.done() and not task.cancelled():
        task.result()  # raises why the session could not be opened
    return Sealed(ended.result() if ended.done() else ({}, None))


async def _do_chunks(
    work: Work, gateway: GatewaySession, rate: RateLimit | None, chunks: "asyncio.Queue[Any]"
) -> None:
    async with gateway:
        with suppress(TimeoutError):
            while True:
                items, ended = await asyncio.wait_for(chunks.get(), _IDLE)
                if rate is not None:  # the last request of this slot may be that of another worker
                    await asyncio.sleep(rate.seconds)
                ended.set_result(await _results(work, gateway, items))


async def _results(work: Work, gateway: GatewaySession, items: Sequence[Any]) -> Results:
    kept, results, errors = Kept(), dict[int, BulkResult[Any, Any]](), dict[int, GatewayError]()

    async def once(pair: tuple[int, Any]) -> Any:
        """Call the function, but in later rounds not: the program decides on those."""
        number, item = pair
        if number in errors:
            raise errors[number]
        try:
            return await work.function(gateway, item)
        except GatewayError as error:
            errors[number] = error
            raise

    new = takewhile(lambda _: kept.size <= FULL, enumerate(items))
    key, calls = itemgetter(0), work.concurrency
    run = bulk.run(once, new, key=key, journal=kept, concurrency=calls, patience=0)
    try:
        async with aclosing(run):
            async for result in run:
                error: Any = result.error and SealedError(result.error, result.outcome)
                results[result.item[0]] = replace(result, item=(0, None), error=error)
    except OutageError as outage:
        away = failed(SealedError(outage.__cause__ or outage))
        return dict.fromkeys(range(len(items)), away) | results, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - the program has to know
        return results, SealedError(error)
    return results, None


class Kept:
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
        refusal = InvalidArgumentError(ONCE, field="request")
        return [refusal if entry.state is State.BEGUN else None for entry in entries]

    async def aclose(self) -> None: ...
