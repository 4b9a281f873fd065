"""The journal on its disk: full, failing, slow; it is closed in every case."""

import asyncio
import errno
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_sdk import JournalError, bulk
from gateway_sdk.bulk._journal import file as file_module, index
from gateway_sdk.bulk._journal.file import SYNC_LINES, JournalFile
from tests.bulk.journal.journals import JOB, fetch, lines, refused
from tests.support.scripted import scripted


async def same(item: Any) -> Any:
    return item


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Limit the size of files to this number of bytes, like a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 1000, 1001, 1500])
async def test_a_full_disk_ends_the_run_and_loses_nothing(tmp_path: Path, size: int) -> None:
    """Every yielded result is in the file, and with more space the run can continue."""
    path = tmp_path / "journal.jsonl"
    yielded: list[int] = []

    async def consume() -> None:
        async for result in bulk.run(same, range(20), journal=path, job=JOB):
            yielded.append(result.item)  # noqa: PERF401 - what came before the error counts

    with room_for(size), pytest.raises(JournalError, match="cannot be written") as caught:
        await consume()

    assert "run the same again" in str(caught.value)
    kept = [line["item"] for line in lines(path)]
    assert set(yielded) <= set(kept)
    results = await fetch(path, range(20), same)
    assert sorted(results) == sorted(line["item"] for line in lines(path)) == list(range(20))
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_write_is_not_sent_if_its_line_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is noticed before a byte of the request is sent."""
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(200, json={}))

    async def create(_: int) -> Any:
        return await gateway.customer.create_customer({})

    async with gateway:
        with room_for(0), pytest.raises(JournalError, match="cannot be written"):
            await fetch(tmp_path / "journal.jsonl", range(3), create)

    assert engine.requests == []


async def test_half_a_line_that_cannot_be_removed_is_removed_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk where even that fails, a torn line stays, as after a crash."""
    path = tmp_path / "journal.jsonl"

    def fail(descriptor: int, size: int) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch, room_for(1000):
        patch.setattr("gateway_sdk.bulk._journal.file.os.ftruncate", fail)
        with pytest.raises(JournalError):
            await fetch(path, range(20), same)
    assert not path.read_bytes().endswith(b"\n")

    assert sorted(await fetch(path, range(20), same)) == list(range(20))
    assert len(lines(path)) == 20


async def test_a_disk_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is fetched then: what the journal holds is not known."""
    path = tmp_path / "journal.jsonl"
    await fetch(path, [1], same)
    before = path.read_bytes()

    def fail(self: JournalFile) -> Iterator[tuple[int, bytes]]:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(JournalFile, "lines", fail)
    with pytest.raises(JournalError, match="cannot be read: Input/output error"):
        await fetch(path, [1], refused)

    assert path.read_bytes() == before


async def test_a_failing_sync_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends when a sync fails, at the latest after its last line."""

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("gateway_sdk.bulk._journal.file.os.fsync", fail)
    seen: list[int] = []

    async def consume(count: int) -> None:
        path = tmp_path / f"{count}.jsonl"
        async for result in bulk.run(same, range(count), journal=path, job=JOB):
            seen.append(result.item)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(JournalError, match="Input/output error"):
        await consume(3)
    assert seen == [0, 1, 2]
    with pytest.raises(JournalError, match="Input/output error"):
        await consume(100_000)
    assert len(seen) < 100_000


async def test_lines_are_synced_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sync for a number of lines, never in the event loop's thread, and one at the end."""
    loop_thread = threading.get_ident()
    real, sizes = os.fsync, list[int]()

    def fsync(descriptor: int) -> None:
        assert threading.get_ident() != loop_thread
        sizes.append(os.fstat(descriptor).st_size)
        real(descriptor)

    monkeypatch.setattr("gateway_sdk.bulk._journal.file.os.fsync", fsync)
    path = tmp_path / "journal.jsonl"
    count = 3 * SYNC_LINES

    await fetch(path, range(count), same)

    assert sizes[-1] == path.stat().st_size
    assert 2 <= len(sizes) <= 5


async def test_lines_are_synced_after_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few lines are synced after a time."""
    synced: list[int] = []
    monkeypatch.setattr(file_module, "SYNC_SECONDS", 0.0)
    monkeypatch.setattr("gateway_sdk.bulk._journal.file.os.fsync", synced.append)

    async for _ in bulk.run(same, range(3), journal=tmp_path / "j.jsonl", job=JOB, concurrency=1):
        pass

    assert len(synced) >= 2


async def test_cancelling_the_end_of_a_run_closes_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait for the disk may be cancelled; the file is closed."""
    path = tmp_path / "journal.jsonl"
    door, at_it = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def fsync(descriptor: int) -> None:
        loop.call_soon_threadsafe(at_it.set)
        door.wait()

    with monkeypatch.context() as patch:
        patch.setattr("gateway_sdk.bulk._journal.file.os.fsync", fsync)
        task = asyncio.create_task(fetch(path, [1], same))
        await at_it.wait()
        task.cancel()
        loop.call_later(0, door.set)
        await asyncio.wait([task])

    assert task.cancelled()
    assert (await fetch(path, [1], refused))[1].from_journal


async def test_cancelling_the_beginning_of_a_run_closes_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal that is still being read is closed when the reading has ended."""
    path = tmp_path / "journal.jsonl"
    door, at_it = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    read = index.Index.read

    def slowly(self: index.Index) -> None:
        loop.call_soon_threadsafe(at_it.set)
        door.wait()
        read(self)

    with monkeypatch.context() as patch:
        patch.setattr(index.Index, "read", slowly)
        task = asyncio.create_task(fetch(path, [1], refused))
        await at_it.wait()
        task.cancel()
        loop.call_later(0, door.set)
        await asyncio.wait([task])

    assert task.cancelled()
    assert set(await fetch(path, [1], same)) == {1}


def test_a_file_that_was_replaced_meanwhile_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening and locking, another run may have replaced the file."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"old")
    real, moved = file_module.lock, list[str]()

    def late(descriptor: int) -> None:
        if not moved:
            moved.append("once")
            (tmp_path / "new").write_bytes(b"newer")
            (tmp_path / "new").replace(path)
        real(descriptor)

    monkeypatch.setattr(file_module, "lock", late)
    journal = JournalFile(path)
    journal.open()

    assert [line for _, line in journal.lines()] == [b"newer"]
    asyncio.run(journal.aclose())


async def test_a_disk_that_is_full_while_lines_are_dropped_leaves_the_journal(
    tmp_path: Path,
) -> None:
    """All lines are in it afterwards, and no draft is left."""
    path = tmp_path / "journal.jsonl"

    async def fail(item: int) -> int:
        if item % 2:
            raise JournalError("of another kind")
        return item

    await fetch(path, range(10), fail)
    before = path.read_bytes()

    with room_for(500), pytest.raises(JournalError, match="cannot be written"):
        await fetch(path, range(10), refused, retry_failed=True)

    assert path.read_bytes() == before
    assert [found.name for found in path.parent.iterdir()] == [path.name]


async def test_a_folder_without_a_draft_leaves_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replacing may fail for other reasons; a symbolic link is not followed."""
    path = tmp_path / "journal.jsonl"

    async def fail(item: int) -> int:
        raise JournalError("of another kind")

    def broken(self: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, "not permitted")

    await fetch(path, [1], fail)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", broken)
        with pytest.raises(JournalError, match="a new one beside it: not permitted; it is unch"):
            await fetch(path, [1], refused, retry_failed=True)
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    (tmp_path / "journal.jsonl.new").symlink_to(precious)
    with pytest.raises(JournalError, match="cannot be opened"):
        await fetch(path, [1], refused, retry_failed=True)

    assert path.read_bytes() == before
    assert precious.read_bytes() == b"precious"


async def test_a_journal_that_others_change_meanwhile_is_an_error(tmp_path: Path) -> None:
    """The indexed line is no longer there; no value is made up."""
    path = tmp_path / "journal.jsonl"
    run = bulk.run(same, [1, 2, 1], journal=path, job=JOB, concurrency=1)
    await anext(run)
    os.truncate(path, 10)

    async def consume() -> None:
        async for _ in run:
            pass

    with pytest.raises(JournalError, match="was changed by others"):
        await consume()


async def test_a_disk_that_cannot_read_is_not_called_a_change_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user has to look for a broken disk, and not for another program."""
    path = tmp_path / "journal.jsonl"
    await fetch(path, [1], same)

    def broken(self: JournalFile, offset: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(JournalFile, "read", broken)
    with pytest.raises(JournalError, match=r"cannot be read: Input/output error$"):
        await fetch(path, [1], refused)


async def test_on_windows_the_last_line_of_a_key_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows, a failure that was tried again has two lines, and the second one counts."""
    monkeypatch.setattr(index, "CAN_REPLACE", False)
    path = tmp_path / "journal.jsonl"

    async def fail(item: str) -> str:
        raise JournalError("of another kind")

    await fetch(path, ["x"], fail)
    await fetch(path, ["x"], same, retry_failed=True)
    results = await fetch(path, ["x"], refused, retry_failed=True)

    assert [line["state"] for line in lines(path)] == ["failed", "done"]
    assert results["x"].value == "x"


class Syncs:
    """Holds back each sync of a file until it is told; the file may not be closed meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, descriptor: int) -> None:
        self._descriptor = descriptor
        self._number = 0
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        monkeypatch.setattr(os, "fsync", self._sync)
        monkeypatch.setattr(os, "close", partial(self._close, os.close))

    def _sync(self, descriptor: int) -> None:
        if descriptor == self._descriptor:  # and not that of the folder
            self._number += 1
            self.begun.release()
            self.may_end.acquire()
            self._number -= 1

    def _close(self, close: Callable[[int], None], descriptor: int) -> None:
        assert descriptor != self._descriptor or not self._number
        close(descriptor)


async def test_a_file_is_not_closed_while_it_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a task that an item has left waits for a line: its lock would outlive the run."""
    file = JournalFile(tmp_path / "journal.jsonl")
    file.open()
    syncs = Syncs(monkeypatch, file.descriptor)
    first = asyncio.create_task(file.wait_until_synced(file.append(b"one\n")))
    await asyncio.to_thread(syncs.begun.acquire)
    left = asyncio.create_task(file.wait_until_synced(file.append(b"two\n")))
    closing = asyncio.create_task(file.aclose())
    await asyncio.sleep(0)
    syncs.may_end.release()
    await asyncio.to_thread(syncs.begun.acquire)
    for _ in range(10):
        await asyncio.sleep(0)
    syncs.may_end.release()

    await asyncio.gather(first, closing, left)
    assert not file.is_open


async def test_a_journal_is_synced_without_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process at its limit of threads has its lines on the disk too."""

    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    file = JournalFile(tmp_path / "journal.jsonl")
    file.open()
    monkeypatch.setattr(asyncio.get_running_loop(), "run_in_executor", refuse)

    await file.wait_until_synced(file.append(b"one\n"))
    await file.wait_until_synced(file.append(b"two\n"))
    await file.aclose()

    assert file.path.read_bytes() == b"one\ntwo\n"
