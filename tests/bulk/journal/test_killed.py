"""Runs that are killed with SIGKILL at any moment, or with nothing done, and those after them."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks import resume
from gateway_sdk import JournalError, Outcome, _files, bulk
from gateway_sdk._files import LockFile
from gateway_sdk.bulk._wal import begin_log, problem_of_log
from tests.bulk.runs import JOB, created, fetch, job_of, refused, same, session
from tests.support.calls import CALLS


@pytest.mark.parametrize(
    ("kills", "count"), [(2, 120), pytest.param(10, 250, marks=pytest.mark.full)]
)
async def test_kills_lose_nothing_and_double_nothing(path: Path, kills: int, count: int) -> None:
    outcome = await resume.resume(path, count, kills=kills, seed=7)

    assert resume.missed(outcome) == []
    assert len(outcome["killed_at"]) == kills
    assert 0 < outcome["killed_at"][0] < outcome["killed_at"][-1] < count
    assert all("rates" in line["value"] for line in resume.rows(path))


def test_an_error_in_resuming_is_found() -> None:
    wrong = {"lost": 1, "doubled": 2, "missing": 3, "failed": 4}

    assert resume.missed({"count": 9, "yielded_at_last": 8, **wrong}) == [
        "1 lost", "2 doubled", "3 missing", "4 failed", "8 results at last",
    ]  # fmt: skip


Copy = Callable[[str, str], object]


def backup(path: str, kept: str) -> None:
    """Copy a journal by means of SQLite, which adds the rows of its log."""
    with closing(sqlite3.connect(path)) as journal, closing(sqlite3.connect(kept)) as copied:
        journal.backup(copied)


async def killed(path: Path, kept: Path, *ends: str, copy: Copy = shutil.copy) -> None:
    """Copy some of the files of a run that was killed when it had sent a request."""

    def answer(request: httpx.Request) -> httpx.Response:
        for end in ends:
            copy(f"{path}{end}", f"{kept}{end}")
        return created(request)

    async with session(answer) as gateway:
        await fetch(path, ["Ada"], lambda _: CALLS["create_customer"](gateway))


USES: list[Callable[[Path], object]] = [
    lambda path: asyncio.run(fetch(path, ["Ada"], refused)),
    bulk.unknown,
    lambda path: bulk.settle(path, JOB, "Ada", not_done=True),
    lambda path: bulk.export(path, path.with_suffix(".csv")),
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("copy", [shutil.copy, backup])
def test_a_journal_without_its_log_is_refused(
    path: Path, copy: Copy, use: Callable[[Path], object]
) -> None:
    """Its newest rows are in the log: the request would be sent again, without a word."""
    kept = path.with_name("kept.db")
    asyncio.run(killed(path, kept, "", copy=copy))

    for _ in range(2):  # nor does the refusal leave an empty log
        with pytest.raises(JournalError, match=r"copied .* log kept\.db-wal is missing: move both"):
            use(kept)
    assert {it.name for it in path.parent.iterdir()} == {path.name, kept.name}

    with closing(sqlite3.connect(kept)) as database:
        database.execute("pragma journal_mode = delete")
    assert asyncio.run(fetch(kept, ["Bob"], same))["Bob"].value == "Bob"
    if copy is backup:
        assert asyncio.run(fetch(kept, ["Ada"], refused))["Ada"].outcome is Outcome.UNKNOWN


async def test_a_run_that_is_killed_at_its_beginning_leaves_its_log(path: Path) -> None:
    await fetch(path, [1], same)

    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        begin_log(database)
        assert problem_of_log(path) == ""


@pytest.mark.parametrize("is_end", [False, True])
def test_a_journal_is_read_while_a_run_begins_or_ends(
    path: Path, monkeypatch: pytest.MonkeyPatch, *, is_end: bool
) -> None:
    """Its log comes or goes while the state of the journal is looked at."""
    kept, opened = path.with_name("kept.db"), Path.open
    asyncio.run(killed(path, kept, "", *["-wal"] * is_end))
    log = kept.with_name("kept.db-wal")

    def racing(found: Path, mode: str) -> Any:
        log.unlink() if is_end else log.touch()
        return opened(found, mode)

    monkeypatch.setattr(Path, "open", racing)

    assert problem_of_log(kept) == ""
    assert log.exists() is not is_end


def test_a_log_without_its_journal_is_refused(path: Path) -> None:
    """SQLite would delete it."""
    kept = path.with_name("kept.db")
    asyncio.run(killed(path, kept, "-wal"))

    for is_empty in (False, True):
        if is_empty:
            kept.touch()
        with pytest.raises(JournalError, match=r"missing beside its log kept\.db-wal"):
            asyncio.run(fetch(kept, ["Ada"], refused))
    assert kept.with_name("kept.db-wal").stat().st_size > 0


def test_a_killed_run_goes_on_also_after_it_was_looked_at(path: Path) -> None:
    kept = path.with_name("kept.db")
    asyncio.run(killed(path, kept, "", "-wal"))

    for _ in range(2):
        assert len(bulk.unknown(kept)) == 1
    assert asyncio.run(fetch(kept, ["Ada"], refused))["Ada"].error is not None


async def test_a_journal_without_items_takes_another_job(path: Path) -> None:
    """As after a first run with a wrong address, which is in the job."""
    await fetch(path, [], same, job="other")
    await fetch(path, [1], same)
    assert job_of(path) == JOB

    with pytest.raises(JournalError, match="belongs to the job"):
        await fetch(path, [1], refused, job="other")


async def test_whoever_settles_an_item_takes_no_journal_over(path: Path) -> None:
    await fetch(path, [], same)

    with pytest.raises(JournalError, match="belongs to the job 'test', not to 'other'"):
        bulk.settle(path, "other", 1, not_done=True)
    assert job_of(path) == JOB


@pytest.mark.posix
def test_a_process_that_was_forked_does_not_keep_the_lock(path: Path) -> None:
    """As a worker of a ProcessPoolExecutor, which outlives its parent after kill -9."""
    lock, taken = LockFile(path), LockFile(path)
    assert lock.acquire()
    (child_reads, goes_on), (is_there, child_writes) = os.pipe(), os.pipe()
    if not (child := os.fork()):
        os.close(goes_on)
        os.write(child_writes, b".")
        os.read(child_reads, 1)  # until the parent lets it go
        os._exit(0)
    os.read(is_there, 1)
    _files.leave_all()  # as the end of the parent does
    is_free = taken.acquire()
    os.close(goes_on)
    os.waitpid(child, 0)

    assert is_free
    taken.release()
