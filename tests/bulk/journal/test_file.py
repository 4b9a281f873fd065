"""Ledgers: the journal's file, which one run at a time has, and those of the user."""

import asyncio
import errno
import os
import random
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, closing, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import ANY, AsyncMock, Mock, patch

import pytest

from gateway_sdk import JournalError, _files, bulk
from gateway_sdk._files import LockFile
from gateway_sdk.bulk import Entry, State
from gateway_sdk.bulk._journal import SqliteLedger
from tests.bulk.runs import JOB, Memory, content, fetch, keep_values, refused, room_for, rows, same

HOLD = """
import asyncio, sys
from gateway_sdk import bulk

async def main():
    run = bulk.run(lambda item: asyncio.sleep(0, item), [1], journal=sys.argv[1], job="test")
    async for result in run:
        print("held", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


def execute(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteLedger]:
    ledger = SqliteLedger(path, JOB, retry_failed=False, patience=0)
    await ledger.open()
    yield ledger
    await ledger.aclose()


async def test_two_runs_in_one_process_do_not_share_a_journal(path: Path) -> None:
    async with aclosing(bulk.run(same, [1, 2], journal=path, job=JOB)) as first:
        await anext(first)
        with pytest.raises(JournalError, match="in use by another run"):
            await fetch(path, [3], refused)

    assert set(await fetch(path, [3], same)) == {3}


async def test_two_processes_do_not_share_a_journal(path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    paths = [path, link] if link.is_symlink() else [path]  # wine makes no links
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, str(path), stdin=pipe, stdout=pipe
    )
    assert process.stdout is not None
    assert (await process.stdout.readline()).strip() == b"held"

    for name in paths:
        with pytest.raises(JournalError, match="in use by another run"):
            await fetch(name, [2], refused)
    await process.communicate(b"")

    assert process.returncode == 0
    results = await fetch(paths[-1], [1, 2], same)
    assert {item: one.from_journal for item, one in results.items()} == {1: True, 2: False}
    assert {*path.parent.iterdir()} == {*paths}


async def test_a_reader_sees_what_was_yielded_and_stops_no_run(path: Path) -> None:
    seen: list[int] = []
    async with aclosing(bulk.run(same, range(5), journal=path, job=JOB)) as results:
        await anext(results)
        with closing(sqlite3.connect(path)) as reader:
            async for _ in results:
                seen += reader.execute("select count(*) from items").fetchone()
    assert seen == sorted(seen)
    assert all(number <= count for number, count in enumerate(seen, 2))
    await fetch(path, [], refused)

    assert [*path.parent.iterdir()] == [path]
    assert len(rows(path)) == 5


@pytest.mark.parametrize("is_taken", [False, True])
async def test_windows_has_a_lock_of_its_own(
    path: Path, monkeypatch: pytest.MonkeyPatch, is_taken: bool
) -> None:
    """There an open file cannot be deleted, so it is deleted after it was closed."""
    locking = Mock(side_effect=OSError(errno.ENOENT, "not its reason") if is_taken else None)
    monkeypatch.setitem(sys.modules, "msvcrt", Mock(locking=locking, LK_NBLCK=7))
    monkeypatch.setattr(_files, "_WINDOWS", True)

    if is_taken:
        with pytest.raises(JournalError, match="in use"):
            await fetch(path, [1], refused)
    else:
        assert set(await fetch(path, [1], same)) == {1}
        assert [*path.parent.iterdir()] == [path]
    locking.assert_called_once_with(ANY, 7, 1)


async def test_a_disk_without_locks_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Network disks may have none: then nobody knows whether another run has the file."""
    no_locks = Mock(side_effect=OSError(errno.ENOLCK, "No locks available"))
    monkeypatch.setattr(_files, "_lock", no_locks)

    with pytest.raises(JournalError, match="cannot be opened: No locks available"):
        await fetch(path, [1], refused)


@pytest.mark.posix
async def test_a_lock_whose_file_was_just_deleted_is_taken_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last holder deletes the file between the opening and the lock of the next one."""
    lock, held = _files._lock, [path.with_name("journal.db-lock")]

    def late(descriptor: int) -> None:
        if held:
            held.pop().unlink()
        lock(descriptor)

    monkeypatch.setattr(_files, "_lock", late)

    assert set(await fetch(path, [1], same)) == {1}


def of_version(number: int, path: Path) -> None:
    asyncio.run(fetch(path, [1], same))
    execute(path, f"pragma user_version = {number}")


USERS = "create table users(name text)"
LOOK = "before you give another file, look at the gateway: items that were begun are sent again"
NO_DATABASE = f"file is not a database; {LOOK}"
FOREIGN = "is of another program: give another file"
OTHER_VERSION = (
    "is of another version of gateway_sdk: end its run with that version; "
    "another file would send its items again"
)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: path.write_bytes(b"precious"), NO_DATABASE),
        (lambda path: path.write_bytes(b"\0" * 4096), NO_DATABASE),
        (lambda path: path.write_text('{"job":"test","key":"00","state":"done"}\n'), NO_DATABASE),
        (lambda path: path.write_bytes(b"x"), "is no journal: give another file"),
        (lambda path: execute(path, USERS), FOREIGN),
        (lambda path: execute(path, f"pragma journal_mode = wal; {USERS}"), FOREIGN),
        (partial(of_version, 1), OTHER_VERSION),
        (partial(of_version, 99), OTHER_VERSION),
        (
            lambda path: asyncio.run(fetch(path, [1], same, job="other")),
            "belongs to the job 'other', not to 'test': give another file",
        ),
    ],
)
def test_a_file_that_is_no_journal_is_left_as_it_is(
    path: Path, make: Callable[[Path], object], problem: str
) -> None:
    """Another file is advised without a word of care only where nothing can have been begun."""
    make(path)
    before = path.read_bytes()

    with pytest.raises(JournalError, match=problem):
        asyncio.run(fetch(path, [1], refused))

    assert path.read_bytes() == before
    assert [*path.parent.iterdir()] == [path]


async def test_a_journal_that_lacks_rows_is_damaged(path: Path) -> None:
    await fetch(path, [1, 2], same)
    execute(path, "delete from items where id = 1")

    with pytest.raises(JournalError, match=f"is damaged: rows are missing; {LOOK}"):
        await fetch(path, [1, 2], refused)


def test_another_form_of_the_journal_is_another_version(path: Path) -> None:
    """Else a file of before would be taken for damaged. Change both here, never the tables only."""
    asyncio.run(fetch(path, [1], same))

    with closing(sqlite3.connect(path)) as database:
        (version,) = database.execute("pragma user_version").fetchone()
        tables = database.execute("select sql from sqlite_schema order by name").fetchall()

    assert (version, sha256(repr(tables).encode()).hexdigest()[:16]) == (2, "ea9ab678903e3bf1")


@pytest.mark.parametrize("seed", range(40))
def test_damage_is_an_error_or_changes_nothing(path: Path, seed: int) -> None:
    """A cut or overwritten file gives no false value, and no item is taken for a new one."""
    chance = random.Random(seed)  # noqa: S311 - repeatable
    asyncio.run(fetch(path, map(str, range(300)), same))
    whole = path.read_bytes()
    # Damage of several rows: nothing tells a single damaged key from that of another item.
    at, junk = chance.randrange(16, len(whole) - 500), chance.choice([b"", b"\0", b"\xff"]) * 500
    path.write_bytes(whole[:at] + (junk + whole[at + len(junk) :] if junk else b""))

    with suppress(JournalError):
        for item, result in asyncio.run(fetch(path, map(str, range(300)), refused)).items():
            assert result.value == item


@pytest.mark.posix
async def test_an_impossible_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="No such file or directory"):
        await fetch(tmp_path / "missing" / "journal.db", [1], refused)
    with pytest.raises(JournalError, match="Is a directory"):
        await anext(bulk.run(same, bulk.run(same, [1]), journal=tmp_path, job=JOB))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(JournalError, match="not an ordinary file"):
        await fetch(tmp_path / "pipe", [1], refused)


@pytest.mark.posix  # Windows lets nobody take an open file away
@pytest.mark.parametrize("becomes", ["deleted", "replaced"])
async def test_a_file_that_others_took_away_ends_the_run(tmp_path: Path, becomes: str) -> None:
    """What would be written now, nobody would find: so it is not yielded either."""
    path, other = tmp_path / "journal.db", tmp_path / "other"
    other.write_bytes(b"precious")

    async def call(item: int) -> int:
        if item == 1 and becomes == "deleted":
            path.unlink()
        elif item == 1:
            other.replace(path)
        return item

    with pytest.raises(JournalError, match="was deleted or replaced during the run"):
        await fetch(path, range(3), call, concurrency=1)

    assert becomes == "deleted" or content(path) == b"precious"


@pytest.mark.parametrize("load", [None, str])
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("key = x'00'", "was changed by others during the run"),
        ("state = 'odd'", "is damaged: a row is not as it was written; before"),
        ("value = '{'", "is damaged: a value is no JSON"),
        (
            "value = cast(x'3132ff' as text)",
            "is damaged: a row is not as it was written; before",
        ),
    ],
)
async def test_a_row_that_others_changed_is_no_result(
    path: Path, change: str, problem: str, load: Any
) -> None:
    await fetch(path, [1, 2], same)

    async def call(item: int) -> int:
        execute(path, f"update items set {change} where item = '1'")  # noqa: S608 - ours
        return item

    with pytest.raises(JournalError, match=problem):
        _ = (await fetch(path, [3, 1], call, ordered=True, concurrency=1, load=load))[1].value


@pytest.mark.posix
async def test_a_full_disk_ends_the_run_and_the_next_one_goes_on(path: Path) -> None:
    yielded: list[str] = []

    async def large(item: int) -> str:
        return str(item) * 10_000

    with room_for(400_000), pytest.raises(JournalError, match=r"cannot be written: .* are kept"):
        await keep_values(bulk.run(large, range(100), journal=path, job=JOB), yielded)
    results = await fetch(path, range(100), large)

    assert 0 < len(yielded) < 100
    assert sum(one.from_journal for one in results.values()) >= len(yielded)
    assert all(one.value == str(item) * 10_000 for item, one in results.items())


@pytest.mark.parametrize(("concurrency", "most"), [(1, 1), (2, 6), (4, 16)])
async def test_few_calls_begin_while_results_are_written(concurrency: int, most: int) -> None:
    """A result may make the user leave: four are awaited for each further call at once."""
    ledger, call = Memory(), AsyncMock(return_value=0)
    ledger.gate.clear()

    async with aclosing(bulk.run(call, range(100), journal=ledger, concurrency=concurrency)) as run:
        first = asyncio.ensure_future(anext(run))
        for _ in range(200):
            await asyncio.sleep(0)
        number = call.call_count
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
    asyncio.get_running_loop().call_later(0.02, ledger.gate.set)
    await asyncio.wait([closing])

    assert closing.cancelled()
    assert not ledger.is_open


async def test_a_batch_that_the_disk_refused_leaves_no_gap(path: Path) -> None:
    one, two, three = (Entry(key=key, state=State.DONE) for key in (b"1", b"2", b"3"))
    async with opened(path) as ledger:
        execute(
            path,
            "create trigger full before insert on items when new.key = x'32' "
            "begin select raise(abort, 'disk full'); end",
        )
        with pytest.raises(JournalError, match="disk full"):
            await ledger.write([one, two])
        await ledger.write([three])

    async with opened(path) as again:
        assert [again.has(entry.key) for entry in (one, two, three)] == [False, False, True]


@pytest.mark.parametrize("has_failed_first", [False, True])
async def test_of_several_states_of_an_item_in_a_batch_the_last_counts(
    path: Path, *, has_failed_first: bool
) -> None:
    """Rows with a failure and rows without one have statements of their own."""
    waits = Entry(key=b"1" * 16, state=State.INTERRUPTED)
    failed = replace(waits, state=State.FAILED, failure=bulk.Failure(error="E", message="told"))
    states = [failed, waits] if has_failed_first else [waits, failed]
    async with opened(path) as ledger:
        await ledger.write(states)

    (found,) = rows(path)
    assert (found["state"], found["error"], found["message"]) == (
        ("interrupted", None, None) if has_failed_first else ("failed", "E", "told")
    )


async def test_nothing_replaces_a_value(path: Path) -> None:
    async with opened(path) as ledger:
        for state in (State.BEGUN, State.DONE, State.FAILED, State.INTERRUPTED):
            value = "1" if state is State.DONE else None
            await ledger.write([Entry(key=b"1", state=state, value=value)])
        (entry,) = await ledger.read([b"1"])

    assert (entry.state, entry.value) == (State.DONE, "1")


def test_a_lock_is_given_back_in_a_folder_that_has_become_read_only(tmp_path: Path) -> None:
    lock, other = LockFile(tmp_path / "lock"), LockFile(tmp_path / "lock")
    other.release()  # which it has not
    assert lock.acquire()
    with patch.object(Path, "unlink", side_effect=PermissionError):
        lock.release()
    assert other.acquire()
    other.release()
    assert not list(tmp_path.iterdir())


async def test_a_program_may_change_its_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def move(item: int) -> int:
        os.chdir("/")
        return item

    monkeypatch.chdir(path.parent)
    await fetch(Path(path.name), range(2), move, concurrency=1)

    assert [row["state"] for row in rows(path)] == ["done", "done"]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"return_value": []}, "NoneType"),
        ({"return_value": [1, 2]}, "'int'"),
        ({"return_value": [1]}, "has not answered for each item"),
        ({"return_value": 5}, "not iterable"),
        ({"side_effect": asyncio.CancelledError}, "has not answered for each item"),
    ],
)
async def test_a_ledger_of_the_user_that_answers_wrongly_ends_the_run(
    answers: dict[str, Any], message: str
) -> None:
    ledger = Memory()
    await keep_values(bulk.run(same, range(2), journal=ledger), [])
    ledger.read = AsyncMock(**answers)  # type: ignore[method-assign]

    with pytest.raises((JournalError, AttributeError, TypeError), match=message):
        await keep_values(bulk.run(refused, range(2), journal=ledger), [])


class Failed(BaseException): ...


async def test_results_that_are_being_read_come_before_the_error_of_a_run() -> None:
    class Slow(Memory):
        async def read(self, keys: Any) -> Any:
            await self.gate.wait()
            return await super().read(keys)

    ledger = Slow()
    before = bulk.run(AsyncMock(return_value=0), [1, 2], journal=ledger)
    assert {result.item async for result in before} == {1, 2}
    ledger.gate.clear()

    async def fail(_: int) -> None:
        asyncio.get_running_loop().call_later(0.01, ledger.gate.set)
        raise Failed

    run = bulk.run(fail, [1, 2, 3], journal=ledger)
    assert [(await anext(run)).item, (await anext(run)).item] == [1, 2]
    with pytest.raises(Failed):
        await anext(run)
