"""Runs with a journal, and the rows of the journal."""

import sqlite3
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from gateway_sdk import bulk

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
        row |= {name: row[name] and from_json(row[name]) for name in ("item", "value")}
    return found


def _reading(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True))


async def fetch(
    path: Path, items: Iterable[Any], call: Callable[[Any], Awaitable[Any]], **options: Any
) -> dict[Any, bulk.BulkResult[Any, Any]]:
    run = bulk.run(call, items, journal=path, **{"job": JOB, **options})
    return {result.item: result async for result in run}


async def refused(item: Any) -> Any:
    raise AssertionError(item)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
