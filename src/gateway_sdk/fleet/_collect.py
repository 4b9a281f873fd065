"""Write results into one Parquet file, in memory that does not depend on their number."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, Final

from gateway_sdk.errors import InvalidArgumentError, PlanStoreError
from gateway_sdk.fleet._parquet import open_writer, row_of, table_of
from gateway_sdk.fleet._store import ItemRecord

_GROUP_BYTES: Final = 16 * 2**20
_GROUP_ROWS: Final = 50_000
"""A group of rows is written when it has so many bytes or rows."""


async def collect(
    results: AsyncIterator[Sequence[ItemRecord]], path: str | PathLike[str], *, rows: int | None
) -> int:
    """Write results to a file; return their number, which must be *rows* unless that is None."""
    place = Path(path)
    if place.suffix != ".parquet":
        raise InvalidArgumentError("the name of the file must end in .parquet")
    # Another process may collect into the same file at the same time.
    draft = place.with_name(f".{place.name}.{uuid.uuid4().hex}.part")
    try:
        count = await _write(results, draft)
        _check(count, rows)
        draft.replace(place)
    except BaseException:
        with suppress(FileNotFoundError):
            draft.unlink()
        raise
    return count


def _check(count: int, rows: int | None) -> None:
    if rows is not None and count != rows:
        raise PlanStoreError(
            f"the store gave {count} of {rows} results: failures were forgotten meanwhile, or files"
            " of the store were deleted; submit the plan again and wait for its workers"
        )


async def _write(results: AsyncIterator[Sequence[ItemRecord]], draft: Path) -> int:
    count = 0
    with open_writer(draft) as writer:
        ready: list[tuple[Any, ...]] = []
        size = 0
        async for records in results:
            for record in records:
                ready.append(row_of(record))
                size += len(record.item) + len(record.value or "")
            count += len(records)
            if size >= _GROUP_BYTES or len(ready) >= _GROUP_ROWS:
                await _written(writer, ready)
                ready, size = [], 0
        if ready:
            await _written(writer, ready)
    return count


async def _written(writer: Any, rows: list[tuple[Any, ...]]) -> None:
    """Write rows in a thread, which has ended in any case: the writer must not be closed before."""
    writing = asyncio.create_task(asyncio.to_thread(writer.write_table, table_of(rows)))
    try:
        await asyncio.shield(writing)
    finally:
        await asyncio.wait([writing])
