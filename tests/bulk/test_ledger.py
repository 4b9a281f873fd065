"""A ledger of the user: what a run asks of it, and what becomes of it when the run is cut."""

import asyncio
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import JournalError, bulk
from gateway_sdk._lock_file import LockFile
from gateway_sdk.bulk import Entry, State
from gateway_sdk.bulk._journal import SqliteLedger


class Memory:
    """Keeps entries in a dictionary, as slowly as its gate opens."""

    def __init__(self) -> None:
        self.entries: dict[bytes, Entry] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.at_gate = asyncio.Event()
        self.error: Exception | None = None
        self.is_open = False

    async def _pass(self) -> None:
        self.at_gate.set()
        await self.gate.wait()
        if self.error is not None:
            raise self.error

    async def open(self) -> None:
        self.is_open = True

    def has(self, key: bytes) -> bool:
        return key in self.entries

    async def read(self, keys: Sequence[bytes]) -> Sequence[Entry]:
        return [self.entries[key] for key in keys]

    async def write(self, entries: Sequence[Entry]) -> None:
        await self._pass()
        self.entries |= {entry.key: entry for entry in entries}

    async def aclose(self) -> None:
        await self._pass()
        self.is_open = False


async def same(item: Any) -> Any:
    return item


async def test_a_ledger_of_the_user_keeps_the_items() -> None:
    """A second run reads them there."""
    ledger = Memory()
    for from_journal in (False, True):
        run = bulk.run(same, [1, 2], journal=ledger, dump=str, load=int)
        results = [result async for result in run]
        assert {(one.item, one.value, one.from_journal) for one in results} == {
            (1, 1, from_journal), (2, 2, from_journal),
        }  # fmt: skip
    assert {entry.value for entry in ledger.entries.values()} == {'"1"', '"2"'}
    assert not ledger.is_open


@pytest.mark.parametrize(("concurrency", "most"), [(1, 1), (2, 6), (4, 16)])
async def test_few_calls_begin_while_results_are_written(concurrency: int, most: int) -> None:
    """A result may make the user leave: four are awaited for each further call at once.

    One call at a time waits for the result of the one before.
    """
    ledger, begun = Memory(), list[int]()
    ledger.gate.clear()

    async def call(item: int) -> int:
        begun.append(item)
        return item

    async with aclosing(bulk.run(call, range(100), journal=ledger, concurrency=concurrency)) as run:
        first = asyncio.ensure_future(anext(run))
        for _ in range(200):
            await asyncio.sleep(0)
        number = len(begun)
        ledger.gate.set()
        await first
    assert number == most


async def test_a_run_that_is_cancelled_while_its_ledger_closes_waits_for_it() -> None:
    """Else a next run would find it in use."""
    ledger = Memory()
    run = bulk.run(same, [1], journal=ledger)
    await anext(run)
    ledger.gate.clear()
    ledger.at_gate.clear()
    closing = asyncio.ensure_future(run.aclose())
    await ledger.at_gate.wait()

    closing.cancel()
    asyncio.get_running_loop().call_soon(ledger.gate.set)
    await asyncio.wait([closing])

    assert closing.cancelled()
    assert not ledger.is_open


async def test_a_ledger_that_fails_ends_the_run() -> None:
    """With its error, and no result that it does not have."""
    ledger = Memory()
    run = bulk.run(same, [1, 2, 3], journal=ledger, concurrency=1)
    assert (await anext(run)).value == 1
    ledger.error = JournalError("full")

    with pytest.raises(JournalError, match="full"):
        await anext(run)
    assert len(ledger.entries) == 1


async def test_a_cancelled_write_ends_with_its_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is never closed while a thread writes."""
    ledger = SqliteLedger(tmp_path / "journal.db", "test", retry_failed=False)
    await ledger.open()
    at_it, door = asyncio.Event(), threading.Event()
    loop, write = asyncio.get_running_loop(), ledger._write

    def slow(entries: Sequence[Entry]) -> None:
        loop.call_soon_threadsafe(at_it.set)
        door.wait()
        write(entries)

    monkeypatch.setattr(ledger, "_write", slow)
    writing = asyncio.ensure_future(ledger.write([Entry(key=b"1", state=State.DONE)]))
    await at_it.wait()
    writing.cancel()
    loop.call_soon(door.set)
    await asyncio.wait([writing])

    assert writing.cancelled()
    assert ledger.has(b"1")
    await ledger.aclose()


async def test_a_batch_that_the_disk_refused_leaves_no_gap(tmp_path: Path) -> None:
    """Later batches are written, and the next run takes the file."""
    path = tmp_path / "journal.db"
    ledger = SqliteLedger(path, "test", retry_failed=False)
    await ledger.open()
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(
            "create trigger full before insert on items when new.state = 'failed' "
            "begin select raise(abort, 'disk full'); end"
        )
    with pytest.raises(JournalError, match="disk full"):
        await ledger.write([Entry(key=b"1", state=State.DONE), Entry(key=b"2", state=State.FAILED)])
    await ledger.write([Entry(key=b"3", state=State.DONE)])
    await ledger.aclose()

    again = SqliteLedger(path, "test", retry_failed=False)
    await again.open()
    assert [again.has(key) for key in (b"1", b"2", b"3")] == [False, False, True]
    await again.aclose()


async def test_nothing_replaces_a_value(tmp_path: Path) -> None:
    """Also not what a slow twin of the call says later."""
    ledger = SqliteLedger(tmp_path / "journal.db", "test", retry_failed=True)
    await ledger.open()

    for state in (State.BEGUN, State.DONE, State.FAILED, State.INTERRUPTED):
        value = "1" if state is State.DONE else None
        await ledger.write([Entry(key=b"1", state=state, value=value)])
    (entry,) = await ledger.read([b"1"])
    await ledger.aclose()

    assert (entry.state, entry.value) == (State.DONE, "1")


def test_a_lock_that_is_not_held_is_released_without_effect(tmp_path: Path) -> None:
    LockFile(tmp_path / "lock").release()

    assert not list(tmp_path.iterdir())
