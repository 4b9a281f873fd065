"""Store a plan: item by item, in memory that does not grow with their number."""

import asyncio
import sqlite3
import uuid
from collections.abc import AsyncGenerator, AsyncIterable, Coroutine, Iterable
from contextlib import aclosing, closing, suppress
from hashlib import blake2b
from typing import Any, Final

from gateway_sdk.errors import InvalidArgumentError, PlanStoreError
from gateway_sdk.fleet._parts import Parts
from gateway_sdk.fleet._pool import run_all
from gateway_sdk.fleet._store import VERSION, PlanRecord

_AT_ONCE: Final = 8
"""Chunks that are written at the same time: object stores take a while for each."""

_BREATH: Final = 100
"""Items that are taken in a row before other tasks may run."""

DIGEST_BYTES: Final = 16
"""Two of a billion items share one with a chance of 1 to 10**21."""


async def store_plan(
    parts: Parts, items: Iterable[Any] | AsyncIterable[Any], chunk_size: int
) -> PlanRecord:
    """Store a plan and return it; if the job has one, compare instead."""
    planning = _Planning(parts, chunk_size)
    known = await parts.store.find_plan(parts.name)
    if known is not None:
        _check_version(known)
        return _same(known, await planning.digest_all(items))
    try:
        made = await planning.write_all(items)
    except BaseException:
        with suppress(PlanStoreError):
            await parts.store.discard(parts.name, planning.id)
        raise
    # If this fails or is cancelled, the plan may be sealed all the same: its items must stay.
    return _same(await parts.store.seal(made), made)


def check_work(plan: PlanRecord, operation: str) -> None:
    _check_version(plan)
    if plan.operation != operation:
        raise PlanStoreError(
            f"the plan {plan.name!r} is for {plan.operation}, and the job for {operation}: give the"
            " new job a name of its own"
        )


def _check_version(plan: PlanRecord) -> None:
    if plan.version != VERSION:
        raise PlanStoreError(
            f"plan {plan.name!r} is stored in version {plan.version}, and this is for {VERSION}:"
            " use the version of gateway-sdk that planned it, or plan under another name"
        )


def _same(stored: PlanRecord, made: PlanRecord) -> PlanRecord:
    differences = (
        ("is for {0}, and this is for {1}", stored.operation, made.operation),
        ("has chunks of {0} items, and this of {1}", stored.chunk_size, made.chunk_size),
        ("has {0} items, and this {1}", stored.items, made.items),
        ("has other items or another order", stored.digest, made.digest),
    )
    for text, one, other in differences:
        if one != other:
            raise PlanStoreError(
                f"the store has another plan {stored.name!r}: it {text.format(one, other)};"
                " give the new job a name of its own"
            )
    return stored


class _Planning:
    def __init__(self, parts: Parts, chunk_size: int) -> None:
        self.id = uuid.uuid4().hex
        self._parts = parts
        self._chunk_size = chunk_size
        self._digest = blake2b(digest_size=DIGEST_BYTES)
        self._count = 0

    async def digest_all(self, items: Iterable[Any] | AsyncIterable[Any]) -> PlanRecord:
        async with aclosing(self._texts(items)) as texts:
            async for _ in texts:
                pass
        return self._record()

    async def write_all(self, items: Iterable[Any] | AsyncIterable[Any]) -> PlanRecord:
        async with aclosing(self._writes(items)) as writes:
            await run_all(writes, at_once=_AT_ONCE)
        return self._record()

    async def _writes(
        self, items: Iterable[Any] | AsyncIterable[Any]
    ) -> AsyncGenerator[Coroutine[Any, Any, None], None]:
        write, name = self._parts.store.write_items, self._parts.name
        chunk, ready = 0, list[str]()
        async with aclosing(self._texts(items)) as texts:
            async for text in texts:
                ready.append(text)
                if len(ready) == self._chunk_size:
                    yield write(name, self.id, chunk, ready)
                    chunk, ready = chunk + 1, []
        if ready:
            yield write(name, self.id, chunk, ready)

    async def _texts(self, items: Iterable[Any] | AsyncIterable[Any]) -> AsyncGenerator[str, None]:
        work = self._parts.work
        with closing(_Seen()) as seen:
            async for item in _each(items):
                try:
                    text = work.dump(item)
                    if work.sends_once:
                        seen.add(text, self._count)
                except InvalidArgumentError as error:
                    raise InvalidArgumentError(f"item {self._count}: {error}") from None
                self._digest.update(text.encode() + b"\n")
                self._count += 1
                yield text

    def _record(self) -> PlanRecord:
        if not self._count:
            raise InvalidArgumentError("there are no items: a plan has at least one")
        return PlanRecord(
            name=self._parts.name,
            id=self.id,
            operation=self._parts.work.name,
            chunk_size=self._chunk_size,
            items=self._count,
            digest=self._digest.hexdigest(),
        )


async def _each(items: Iterable[Any] | AsyncIterable[Any]) -> AsyncGenerator[Any, None]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
        return
    for count, item in enumerate(items, 1):
        if count % _BREATH == 0:
            await asyncio.sleep(0)
        yield item


class _Seen:
    """The items so far, in a file that disappears: two that are made once must not be equal."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("", isolation_level=None)
        self._file.execute("PRAGMA journal_mode = OFF")
        self._file.execute("CREATE TABLE seen (digest BLOB PRIMARY KEY, place INT) WITHOUT ROWID")
        self._file.execute("BEGIN")

    def add(self, text: str, place: int) -> None:
        digest = blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()
        try:
            self._file.execute("INSERT INTO seen VALUES (?, ?)", (digest, place))
        except sqlite3.IntegrityError:
            found = self._file.execute("SELECT place FROM seen WHERE digest = ?", (digest,))
            raise InvalidArgumentError(
                f"it is equal to item {found.fetchone()[0]}, and each would be made: leave one out"
            ) from None

    def close(self) -> None:
        self._file.close()
