"""A journal that others change during a run: the run notices it and ends, and no result is lost."""

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_sdk import JournalError, bulk
from gateway_sdk.bulk._journal import file as file_module
from tests.bulk.journal.journals import JOB, fetch, lines, refused
from tests.support.scripted import scripted


async def same(item: Any) -> Any:
    return item


def delete(path: Path) -> None:
    path.unlink()


def rename(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replace(path: Path) -> None:
    """Put another file in its place."""
    path.with_name("other").write_bytes(b"precious\n")
    path.with_name("other").replace(path)


def exchange(path: Path) -> None:
    """Put another file in its place, and keep the original."""
    rename(path)
    path.write_bytes(b"precious\n")


def truncate(path: Path) -> None:
    """Cut off a part of the file."""
    os.truncate(path, 10)


def empty(path: Path) -> None:
    """Truncate the file to nothing."""
    path.write_bytes(b"")


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"precious\n")


CHANGES: list[tuple[Callable[[Path], None], str, bytes | None]] = [
    (delete, "it was deleted", None),
    (rename, "it was renamed", None),
    (replace, "another file is in its place", b"precious\n"),
    (exchange, "another file is in its place", b"precious\n"),
    (truncate, "bytes at its end are missing", None),
    (empty, "bytes at its end are missing", None),
    (append, "9 bytes at its end were added", None),
]


@pytest.mark.parametrize(("change", "why", "there"), CHANGES)
@pytest.mark.parametrize("moment", ["sync", "end"])
async def test_a_run_whose_journal_is_changed_ends_with_an_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path], None],
    why: str,
    there: bytes | None,
    moment: str,
) -> None:
    """The error says what was seen, and the present file is not changed."""
    path = tmp_path / "journal.jsonl"
    if moment == "sync":
        monkeypatch.setattr(file_module, "SYNC_LINES", 4)
    seen: list[int] = []

    async def consume() -> None:
        items = range(100_000 if moment == "sync" else 3)
        async for result in bulk.run(same, items, journal=path, job=JOB, concurrency=1):
            seen.append(result.item)
            if len(seen) == 2:
                change(path)

    with pytest.raises(JournalError, match="was changed by others during the run") as caught:
        await consume()

    assert why in str(caught.value)
    assert len(seen) < 100_000
    if there is not None:
        assert path.read_bytes() == there
    if change is append:
        assert b"precious\n" in path.read_bytes()


@pytest.mark.parametrize("change", [delete, replace])
async def test_a_deleted_journal_is_saved_under_a_new_name(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """The lines of all results are saved in another file, with which a run can continue."""
    path = tmp_path / "journal.jsonl"

    async def consume() -> None:
        async for result in bulk.run(same, range(5), journal=path, job=JOB, concurrency=1):
            if result.item == 1:
                change(path)

    with pytest.raises(JournalError, match="its lines are kept in") as caught:
        await consume()

    kept = tmp_path / "journal.jsonl.rescued"
    assert str(kept) in str(caught.value)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert len(await fetch(kept, range(5), refused)) == 5


async def test_a_file_is_kept_whole_while_its_lines_are_read(tmp_path: Path) -> None:
    """The thread that saves the lines and the event loop share the offset of the file."""
    path = tmp_path / "journal.jsonl"
    written = [b"%d %b\n" % (number, b"-" * 100_000) for number in range(200)]
    journal = file_module.JournalFile(path)
    journal.open()
    for line in written:
        journal.append(line)
    path.unlink()

    closing = asyncio.create_task(journal.aclose())
    while not closing.done():
        if journal.is_open:
            assert journal.read(0) + b"\n" == written[0]
        await asyncio.sleep(0)
    with pytest.raises(JournalError, match="its lines are kept in"):
        await closing

    assert (tmp_path / "journal.jsonl.rescued").read_bytes() == b"".join(written)


async def test_a_file_that_cannot_be_saved_is_reported_as_lost(tmp_path: Path) -> None:
    """Another file of that name is not changed."""
    path = tmp_path / "journal.jsonl"
    kept = tmp_path / "journal.jsonl.rescued"
    kept.write_bytes(b"precious")

    async def consume() -> None:
        async for _ in bulk.run(same, range(2), journal=path, job=JOB, concurrency=1):
            path.unlink(missing_ok=True)

    with pytest.raises(JournalError, match=r"could not be kept in .*: File exists"):
        await consume()

    assert kept.read_bytes() == b"precious"


async def test_a_renamed_journal_is_complete(tmp_path: Path) -> None:
    """All results are in the renamed file."""
    path = tmp_path / "journal.jsonl"

    async def consume() -> None:
        async for result in bulk.run(same, range(5), journal=path, job=JOB, concurrency=1):
            if result.item == 1:
                rename(path)

    with pytest.raises(JournalError, match="renamed"):
        await consume()

    assert [line["item"] for line in lines(tmp_path / "elsewhere")] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("change", [delete, exchange, truncate, append])
async def test_a_write_is_not_sent_without_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    """A later run reads the other file, which must know of the request."""
    path = tmp_path / "journal.jsonl"
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(200, json={}))

    async def create(_: int) -> Any:
        return await gateway.customer.create_customer({})

    async def consume() -> None:
        async for result in bulk.run(create, range(3), journal=path, job=JOB, concurrency=1):
            assert result.item == 0
            change(path)

    async with gateway:
        with pytest.raises(JournalError, match="was changed by others"):
            await consume()

    assert len(engine.requests) == 1


async def test_a_line_of_another_item_is_not_taken_for_this_one(tmp_path: Path) -> None:
    """After a change by others, another line may be at the offset."""
    path = tmp_path / "journal.jsonl"
    await fetch(path, [1, 2], same, concurrency=1)
    first, second = path.read_bytes().splitlines(keepends=True)
    run = bulk.run(same, [3, 1], journal=path, job=JOB, concurrency=1)
    await anext(run)
    third = path.read_bytes()[len(first + second) :]
    with path.open("r+b") as file:
        file.write(second + first + third)

    with pytest.raises(JournalError, match="was changed by others"):
        await anext(run)


async def test_lines_of_others_are_not_cut_off_with_half_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk, half a line is removed, unless others have added bytes."""
    path = tmp_path / "journal.jsonl"
    write = os.write

    def full(descriptor: int, line: bytes) -> int:
        append(path)
        raise OSError(errno.ENOSPC, "No space left on device")

    run = bulk.run(same, [1, 2], journal=path, job=JOB, concurrency=1)
    await anext(run)
    monkeypatch.setattr("gateway_sdk.bulk._journal.file.os.write", full)
    with pytest.raises(JournalError, match="No space left"):
        await anext(run)
    monkeypatch.setattr("gateway_sdk.bulk._journal.file.os.write", write)

    assert path.read_bytes().endswith(b"}\nprecious\n")


async def test_a_run_that_is_closed_early_checks_its_journal_too(tmp_path: Path) -> None:
    """The results that it has yielded must be in the file."""
    path = tmp_path / "journal.jsonl"
    run = bulk.run(same, range(5), journal=path, job=JOB)
    await anext(run)
    path.unlink()

    with pytest.raises(JournalError, match="deleted"):
        await run.aclose()

    assert asyncio.all_tasks() == {asyncio.current_task()}
