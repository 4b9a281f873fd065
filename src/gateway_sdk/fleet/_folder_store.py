"""A store in a folder or an object store: one Parquet file for each chunk."""

import asyncio
import json
import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Self, TypeVar, cast
from uuid import UUID

from gateway_sdk._python import safe_repr
from gateway_sdk.errors import ConfigurationError, GatewayError, PlanStoreError
from gateway_sdk.fleet._folder_files import Files, is_outage, open_files, why
from gateway_sdk.fleet._folder_parts import (
    DONE,
    REST,
    add_results,
    folder_of,
    forget_all,
    is_chunk,
    parts_of,
    read_part,
)
from gateway_sdk.fleet._outage import PATIENCE, outlast
from gateway_sdk.fleet._store import (
    ChunkRecord,
    ChunkState,
    Counts,
    ItemRecord,
    PlanRecord,
    State,
    chunk_of,
    plan_of,
    reason_of,
)

T = TypeVar("T")

_AHEAD: Final = 8
"""Files that are read before they are wanted: object stores take a while for each."""

_USER: Final = re.compile(r"[^/]*://[^/]*@")


class FolderStore:
    """Keeps plans and results as files below an address, each job in a folder of its name.

    For operations that may be made twice without harm: a folder cannot record that a request is
    about to be sent. The results of a chunk are one file, which appears when the chunk has ended,
    so a worker that dies loses the results of its chunk, and another worker fetches them again. If
    two workers end the same chunk at the same moment, the file is that of one of them.

    Args:
        address: A folder, or an address of `fsspec`, such as "s3://bucket/rates".
        options: Arguments of the file system of fsspec, such as credentials.

    Raises:
        ConfigurationError: the address is empty, or holds a user name.
    """

    takes_once: bool = False
    batch: int | None = None

    def __init__(self, address: str, *, options: Mapping[str, Any] | None = None) -> None:
        if not isinstance(address, str) or not address:
            raise ConfigurationError("a FolderStore needs the address of a folder")
        if _USER.match(address):
            raise ConfigurationError(
                "the address of a FolderStore holds a user name: give credentials as options="
            )
        if options is not None and not isinstance(options, Mapping):
            raise ConfigurationError(
                "must be a mapping of arguments of the file system", setting="options"
            )
        self._address = address
        self._options = dict(options or {})
        self._files: Files | None = None
        self._tallies: dict[str, tuple[object, Counter[str]]] = {}

    @safe_repr
    def __repr__(self) -> str:
        return f"<FolderStore {self._address}>"

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        if self._options:
            raise TypeError(
                "the options of a FolderStore may hold a password: it cannot be pickled"
            )
        return type(self), (self._address,)

    async def open(self) -> None:
        """Load the file system.

        Raises:
            ConfigurationError: a package is missing, or the address is none of fsspec.
            PlanStoreError: the file system does not take the options, or cannot be used.
        """
        if self._files is not None:
            return
        try:
            self._files = open_files(self._address, self._options)
        except GatewayError:
            raise
        except Exception as error:  # noqa: BLE001 - each file system has errors of its own
            raise PlanStoreError(f"the store at {self._address}: {why(error)}") from None

    async def aclose(self) -> None:
        """Do nothing: the file system closes its connections itself."""

    async def _do(self, work: Callable[[Files], T]) -> T:
        """Work on files in a thread; wait for a file system that does not answer."""
        await self.open()
        try:
            return await outlast(
                lambda: asyncio.to_thread(work, cast("Files", self._files)),
                is_outage=is_outage,
                what=f"the store at {self._address}",
                patience=PATIENCE,
            )
        except GatewayError:
            raise
        except Exception as error:  # noqa: BLE001 - each file system has errors of its own
            raise PlanStoreError(f"the store at {self._address}: {why(error)}") from None

    async def find_plan(self, name: str) -> PlanRecord | None:
        """Read the header of the plan; None if there is none."""
        text = await self._do(lambda files: files.read(f"{name}/plan.json"))
        return None if text is None else plan_of(text)

    async def write_items(self, name: str, plan_id: str, chunk: int, items: Sequence[str]) -> None:
        """Write the items of a chunk, one on each line."""
        data = "".join(f"{item}\n" for item in items).encode()
        await self._do(lambda files: files.write(f"{name}/items/{plan_id}/{chunk:08}.jsonl", data))

    async def seal(self, plan: PlanRecord) -> PlanRecord:
        """Write the header of the plan, unless there is one; delete items without a header."""

        def work(files: Files) -> PlanRecord:
            place = f"{plan.name}/plan.json"
            files.create(place, json.dumps(asdict(plan)).encode())
            sealed = plan_of(files.read(place) or b"")
            for plan_id in {*files.names(f"{plan.name}/items")} - {sealed.id}:
                files.remove(f"{plan.name}/items/{plan_id}")
            return sealed

        return await self._do(work)

    async def discard(self, name: str, plan_id: str) -> None:
        """Delete the items of a plan that was not sealed."""
        await self._do(lambda files: files.remove(f"{name}/items/{plan_id}"))

    async def read_items(self, plan: PlanRecord, chunk: int) -> list[str]:
        """Read the items of a chunk; none if the file is not there."""
        place = f"{plan.name}/items/{plan.id}/{chunk:08}.jsonl"
        text = await self._do(lambda files: files.read(place))
        try:
            return (text or b"").decode().split("\n")[:-1]
        except UnicodeDecodeError:
            raise PlanStoreError(
                f"the items of chunk {chunk} of {plan.name!r} were changed: plan it under another"
                " name"
            ) from None

    async def known(self, plan: PlanRecord, chunk: int) -> dict[int, State]:
        """Return the state of each item of a chunk that has one."""

        def work(files: Files) -> dict[int, State]:
            if files.exists(f"{folder_of(plan)}/{chunk:08}.{DONE}"):
                return dict.fromkeys(plan.indexes(chunk), State.DONE)
            return {index: record.state for index, record in read_part(files, plan, chunk).items()}

        return await self._do(work)

    async def begin(self, plan: PlanRecord, index: int, starter: UUID) -> bool:
        """Refuse: a folder cannot record this.

        Raises:
            PlanStoreError: always.
        """
        del plan, index, starter
        raise PlanStoreError(
            "nothing was sent: a FolderStore cannot record it, use a PostgresStore"
        )

    async def release(self, plan: PlanRecord, indexes: Iterable[int], starter: UUID) -> None:
        """Do nothing: no item is `begun`."""

    async def settle_unknown(self, plan: PlanRecord, indexes: Iterable[int]) -> None:
        """Do nothing: no item is `begun`."""

    async def write_results(
        self, plan: PlanRecord, chunk: int, records: Sequence[ItemRecord]
    ) -> None:
        """Write the file of a chunk, with what its file has already."""
        await self._do(partial(add_results, plan=plan, chunk=chunk, records=records))

    async def counts(self, plan: PlanRecord) -> Counts:
        """Count the items by state; only files with failures are read, and once."""
        found: Counter[str] = await self._do(lambda files: self._count(files, plan))
        return Counts(done=found.pop("", 0), failed=dict(found))

    def _count(self, files: Files, plan: PlanRecord) -> Counter[str]:
        counts: Counter[str] = Counter()
        for chunk, kind in parts_of(files, plan):
            if kind == DONE:
                counts[""] += len(plan.indexes(chunk))
            else:
                counts += self._tally(files, plan, chunk, kind)
        return counts

    def _tally(self, files: Files, plan: PlanRecord, chunk: int, kind: str) -> Counter[str]:
        """Count the items of a file by reason, "" for done; reads it only if it has changed."""
        place = f"{folder_of(plan)}/{chunk:08}.{kind}"
        stamp = files.stamp(place)
        known = self._tallies.get(place)
        if known is None or known[0] != stamp:
            found = read_part(files, plan, chunk).values()
            tally = Counter("" if one.failure is None else reason_of(one.failure) for one in found)
            known = self._tallies[place] = stamp, tally
        return known[1]

    async def missing(self, plan: PlanRecord) -> AsyncIterator[int]:
        """Yield the numbers of chunks that have no complete file."""
        parts = await self._do(lambda files: list(parts_of(files, plan)))
        complete = {chunk for chunk, kind in parts if kind != REST}
        for chunk in range(plan.chunks):
            if chunk not in complete:
                yield chunk

    async def results(self, plan: PlanRecord) -> AsyncIterator[Sequence[ItemRecord]]:
        """Yield the results of one chunk after the other."""
        parts = await self._do(lambda files: list(parts_of(files, plan)))
        chunks = iter([chunk for chunk, _ in parts])
        reading: deque[asyncio.Task[list[ItemRecord]]] = deque()
        try:
            while True:
                while len(reading) < _AHEAD and (chunk := next(chunks, None)) is not None:
                    reading.append(asyncio.create_task(self._read_part(plan, chunk)))
                if not reading:
                    return
                yield await reading.popleft()
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)

    async def _read_part(self, plan: PlanRecord, chunk: int) -> list[ItemRecord]:
        found = await self._do(lambda files: read_part(files, plan, chunk))
        return [found[index] for index in sorted(found)]

    async def unknown(self, plan: PlanRecord) -> AsyncIterator[ItemRecord]:
        """Yield nothing: no item is `unknown`."""
        del plan
        for record in tuple[ItemRecord, ...]():
            yield record  # pragma: no cover - there is none

    async def forget_failed(self, plan: PlanRecord) -> int:
        """Leave out failures that are safe to repeat, and return their number."""
        return await self._do(lambda files: forget_all(files, plan))

    async def start_chunk(self, plan: PlanRecord, chunk: int) -> int:
        """Count a start; starts at the same moment may be counted as one."""
        return await self._note(plan, chunk, ChunkState.RUNNING, "", more=1)

    async def mark_chunk(
        self, plan: PlanRecord, chunk: int, state: ChunkState, message: str
    ) -> None:
        """Write what a worker says of a chunk."""
        await self._note(plan, chunk, state, message, more=0)

    async def _note(
        self, plan: PlanRecord, chunk: int, state: ChunkState, message: str, *, more: int
    ) -> int:
        """Write the record of a chunk, and return how often it was started."""

        def work(files: Files) -> int:
            known = _read_note(files, plan, chunk)
            starts = 0 if known is None or state is ChunkState.WAITING else known.starts
            now = datetime.now(UTC).isoformat(timespec="seconds")
            note = {"state": state, "starts": starts + more, "message": message, "at": now}
            # A worker that is killed leaves it whole. Nearly all chunks have one start, which is
            # not synced: if the machine crashes, the note may be lost or empty, and then this start
            # does not count.
            lasts = starts > 0 or state is not ChunkState.RUNNING
            files.write(_note_place(plan, chunk), json.dumps(note).encode(), lasts=lasts)
            return starts + more

        return await self._do(work)

    async def clear_chunk(self, plan: PlanRecord, chunk: int) -> None:
        """Delete the record of a chunk."""
        await self._do(lambda files: files.remove(_note_place(plan, chunk)))

    async def open_chunks(self, plan: PlanRecord) -> AsyncIterator[ChunkRecord]:
        """Yield the records of chunks that have not ended."""
        folder = f"{plan.name}/chunks/{plan.id}"
        for name in await self._do(lambda files: files.names(folder)):
            number, _, kind = name.partition(".")
            if not is_chunk(number) or kind != "json":
                continue
            note = await self._do(partial(_read_note, plan=plan, chunk=int(number)))
            if note is not None:  # else it has ended meanwhile
                yield note


def _note_place(plan: PlanRecord, chunk: int) -> str:
    return f"{plan.name}/chunks/{plan.id}/{chunk:08}.json"


def _read_note(files: Files, plan: PlanRecord, chunk: int) -> ChunkRecord | None:
    text = files.read(_note_place(plan, chunk))
    try:
        return None if text is None else chunk_of(chunk, text)
    except (KeyError, TypeError, ValueError):  # after a crash of the machine
        return None
