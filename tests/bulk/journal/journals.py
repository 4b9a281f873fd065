"""Runs with a journal, and the lines of the journal."""

import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from gateway_sdk import bulk

JOB = "test"


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a journal as JSON; every line must be complete."""
    text = path.read_bytes()
    assert not text or text.endswith(b"\n")
    return [json.loads(line) for line in text.splitlines()]


async def fetch(
    path: Path, items: Iterable[Any], call: Callable[[Any], Awaitable[Any]], **options: Any
) -> dict[Any, bulk.BulkResult[Any, Any]]:
    run = bulk.run(call, items, journal=path, **{"job": JOB, **options})
    return {result.item: result async for result in run}


async def refused(item: Any) -> Any:
    raise AssertionError(item)
