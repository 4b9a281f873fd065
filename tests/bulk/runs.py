"""Runs in virtual time and with journals, what they ask, and the rows of the journals."""

import asyncio
import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx

from gateway_sdk import GatewaySession, RetryPolicy, Token, bulk
from tests.support import virtual_time

if sys.platform != "win32":
    import resource

JOB = "test"


def job_of(path: Path) -> str:
    with _reading(path) as database:
        (job,) = database.execute("select job from run").fetchone()
    return str(job)


def rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a journal, in the order of their items' first entries."""
    with _reading(path) as database:
        database.row_factory = sqlite3.Row
        found = [dict(row) for row in database.execute("select * from items order by id")]
    for row in found:
        row |= {name: row[name] and json.loads(row[name]) for name in ("item", "value")}
    return found


def content(path: Path) -> bytes:
    return path.read_bytes()


def _reading(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True))


async def same(item: Any) -> Any:
    return item


async def refused(item: Any) -> Any:
    raise AssertionError(item)


async def keep_values(results: AsyncIterator[bulk.BulkResult[Any, Any]], seen: list[Any]) -> None:
    """Append the values of results; what comes before an error counts."""
    async for result in results:
        seen.append(result.value)  # noqa: PERF401 - see above


def results_of(
    call: Callable[[Any], Awaitable[Any]], items: Any, **options: Any
) -> list[bulk.BulkResult[Any, Any]]:
    """Run in virtual time."""

    async def main() -> list[bulk.BulkResult[Any, Any]]:
        return [result async for result in bulk.run(call, items, **options)]

    return virtual_time.run(main())


def session(transport: Any, base_url: str = "http://localhost", **options: Any) -> GatewaySession:
    """Make a session on a transport, or on a function that answers its requests."""
    transport = httpx.MockTransport(transport) if callable(transport) else transport
    given = {"access_token": "-", "tenant_id": "acme", "retry": None, **options}
    return GatewaySession(base_url, transport=transport, **given)


def ask(
    transport: Any,
    call: Callable[[GatewaySession, int], Any],
    items: int,
    *,
    retry: RetryPolicy | None = None,
    token: str | Token | None = None,
    **options: Any,
) -> list[bulk.BulkResult[int, Any]]:
    """Run over this number of items with a session, in virtual time."""

    async def main() -> list[bulk.BulkResult[int, Any]]:
        async with session(transport, retry=retry, access_token=token or "-") as gateway:
            run = bulk.run(lambda item: call(gateway, item), range(items), **options)
            return [result async for result in run]

    return virtual_time.run(main())


def list_countries(gateway: GatewaySession, _: int) -> Any:
    return gateway.country_data.list_countries()


class Answering(httpx.AsyncBaseTransport):
    """Replies as a function decides, after some seconds; records paths and times."""

    def __init__(
        self, answer: Callable[[httpx.Request], httpx.Response], *, seconds: float = 0.0
    ) -> None:
        self.answer = answer
        self.seconds = seconds
        self.asked: list[tuple[str, float]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(self.seconds)
        self.asked.append((request.url.path.rsplit("/", 1)[-1], virtual_time.now()))
        return self.answer(request)


def created(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json={"customerId": "c-1"})


class Stuck(httpx.AsyncBaseTransport):
    """Replies to some requests; sends nothing of others, or all, and replies when it may."""

    def __init__(self, *, sends: bool = True, replies: int = 0) -> None:
        self.sends, self.replies = sends, replies
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions["gateway_sdk.transmission"].sent = self.sends
        self.replies -= 1
        if self.replies < 0:
            self.asked.set()
            await self.may_answer.wait()
        return created(request)


class Memory:
    """A ledger that keeps entries in a dictionary, as slowly as its gate opens."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bulk.Entry] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.at_gate = asyncio.Event()
        self.is_open = False

    async def _pass(self) -> None:
        self.at_gate.set()
        await self.gate.wait()

    async def open(self) -> None:
        self.is_open = True

    def has(self, key: bytes) -> bool:
        entry = self.entries.get(key)
        return entry is not None and entry.state not in (bulk.State.BEGUN, bulk.State.INTERRUPTED)

    async def read(self, keys: Sequence[bytes]) -> Sequence[bulk.Entry]:
        return [self.entries[key] for key in keys]

    async def write(self, entries: Sequence[bulk.Entry]) -> None:
        await self._pass()
        self.entries |= {entry.key: entry for entry in entries}

    async def aclose(self) -> None:
        await self._pass()
        self.is_open = False


async def fetch(
    path: Path, items: Iterable[Any], call: Callable[[Any], Awaitable[Any]], **options: Any
) -> dict[Any, bulk.BulkResult[Any, Any]]:
    run = bulk.run(call, items, journal=path, **{"job": JOB, **options})
    return {result.item: result async for result in run}


def insert(journal: Path, entries: Iterable[bulk.Entry]) -> None:
    """Fill a journal with rows, whose times may be missing."""
    asyncio.run(fetch(journal, [], same))
    rows = [
        (it.key, it.state, it.item, it.value, it.time.isoformat() if it.time else "")
        for it in entries
    ]
    with closing(sqlite3.connect(journal)) as database, database:
        database.executemany(
            "insert into items(key, state, item, value, time, once, attempts, elapsed) "
            "values(?, ?, ?, ?, ?, 0, 1, 0)",
            rows,
        )


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
