"""The journal's file: one run at a time, complete lines only, other files unchanged."""

import asyncio
import errno
import os
import sys
import types
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gateway_sdk import JournalError, bulk
from gateway_sdk.bulk._journal import file as file_module
from tests.bulk.journal.journals import JOB, fetch, lines, refused

HOLD = """
import asyncio, sys
from gateway_sdk import bulk

async def call(item):
    return item

async def main():
    async for result in bulk.run(call, [1], journal=sys.argv[1], job="test"):
        print("held", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


async def same(item: Any) -> Any:
    return item


async def test_two_runs_in_one_process_do_not_share_a_journal(tmp_path: Path) -> None:
    """The second run is refused while the first one has the file, and accepted afterwards."""
    path = tmp_path / "journal.jsonl"

    async with aclosing(bulk.run(same, [1, 2], journal=path, job=JOB)) as first:
        await anext(first)
        with pytest.raises(JournalError, match="in use by another run"):
            await fetch(path, [3], refused)

    assert set(await fetch(path, [3], same)) == {3}


async def test_two_processes_do_not_share_a_journal(tmp_path: Path) -> None:
    """A process is refused while another one has the file."""
    path = tmp_path / "journal.jsonl"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, str(path), stdin=pipe, stdout=pipe
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"held\n"

    with pytest.raises(JournalError, match="in use by another run"):
        await fetch(path, [2], refused)
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()

    assert process.returncode == 0
    assert {item: one.from_journal for item, one in (await fetch(path, [1, 2], same)).items()} == {
        1: True,
        2: False,
    }


@pytest.mark.parametrize("is_taken", [False, True])
async def test_windows_locks_a_byte_beyond_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_taken: bool
) -> None:
    """There the lock is of another kind, at a byte beyond the end of the file."""
    locked: list[int] = []

    def locking(descriptor: int, mode: int, count: int) -> None:
        assert (mode, count) == (7, 1)
        locked.append(os.lseek(descriptor, 0, os.SEEK_CUR))
        if is_taken:
            raise OSError(errno.EACCES, "denied")

    windows: Any = types.ModuleType("msvcrt")
    windows.locking, windows.LK_NBLCK = locking, 7
    monkeypatch.setitem(sys.modules, "msvcrt", windows)
    monkeypatch.setattr(file_module, "WINDOWS", True)

    if is_taken:
        with pytest.raises(JournalError, match="in use"):
            await fetch(tmp_path / "journal.jsonl", [1], refused)
    else:
        assert set(await fetch(tmp_path / "journal.jsonl", [1], same)) == {1}
    assert locked == [2**40]


async def test_a_disk_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Network disks may have none: then no other run has the file."""

    def no_locks(descriptor: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(file_module, "lock", no_locks)

    with pytest.raises(JournalError, match="cannot be locked: No locks available"):
        await fetch(tmp_path / "journal.jsonl", [1], refused)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Provide a journal of three lines."""
    path = tmp_path_factory.mktemp("whole") / "journal.jsonl"
    asyncio.run(fetch(path, ["one", "two", "three"], same))
    return path.read_bytes()


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_torn_last_line_is_cut_off(tmp_path: Path, whole: bytes, data: st.DataObject) -> None:
    """At any position of the cut, complete lines stay, the rest is fetched, no line is doubled."""
    path = tmp_path / "journal.jsonl"
    cut = data.draw(st.integers(0, len(whole)))
    junk = data.draw(st.sampled_from([b"", b"\0" * 100]))
    path.write_bytes(whole[:cut] + (junk if cut not in _ends(whole) else b""))
    begun = sum(end <= cut for end in _ends(whole))
    if not junk and cut + 1 in _ends(whole):
        begun += 1  # only the end of the line is missing

    results = asyncio.run(fetch(path, ["one", "two", "three"], same))

    assert [result.from_journal for result in results.values()].count(True) == begun
    assert sorted(line["item"] for line in lines(path)) == ["one", "three", "two"]


def _ends(whole: bytes) -> list[int]:
    return [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]


async def test_a_line_that_lacks_only_its_end_is_kept(tmp_path: Path, whole: bytes) -> None:
    """An editor may have removed it: the item is not fetched again."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(whole[:-1])

    await fetch(path, ["one", "two", "three"], refused)

    assert path.read_bytes() == whole


async def test_a_file_of_zeros_is_begun_again(tmp_path: Path) -> None:
    """It holds no line, so the journal begins again."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"\0" * 4096)

    await fetch(path, [1], same)

    assert [line["item"] for line in lines(path)] == [1]


@pytest.mark.parametrize(
    "content",
    [
        b"precious",
        b"precious\n",
        b"{}\n",
        b"[1]\n",
        b"7",
        b'{"job":"test"}\n',
        b'{"job":7,"key":"00000000000000000000000000000000","state":"done","error":null}\n',
        b'{"job":"test","key":"00","state":"done","error":null}\n',
        b'{"job":"tesx","key":"00',
        b"\0\0precious",
    ],
)
async def test_a_file_that_is_no_journal_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    """A wrong path does not destroy a file."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(content)

    with pytest.raises(JournalError, match=r"is not a journal: see its line 1; give another file"):
        await fetch(path, [1], refused)

    assert path.read_bytes() == content


async def test_a_broken_line_within_is_named(tmp_path: Path, whole: bytes) -> None:
    """Damage that a crash cannot cause is not repaired silently."""
    path = tmp_path / "journal.jsonl"
    first, second, third = whole.splitlines(keepends=True)
    path.write_bytes(first + second[:-10] + b"\n" + third)

    with pytest.raises(JournalError, match="see its line 2"):
        await fetch(path, [1], refused)


async def test_a_journal_of_another_job_is_refused(tmp_path: Path) -> None:
    """Its results would count as results of this job."""
    path = tmp_path / "journal.jsonl"
    await fetch(path, [1], same)
    before = path.read_bytes()

    with pytest.raises(JournalError, match="belongs to the job 'test', not to 'other'"):
        await fetch(path, [1], refused, job="other")

    assert path.read_bytes() == before


async def test_an_impossible_path_is_refused(tmp_path: Path) -> None:
    """The error names the file and the reason."""
    with pytest.raises(JournalError, match="No such file or directory"):
        await fetch(tmp_path / "missing" / "journal.jsonl", [1], refused)
    with pytest.raises(JournalError, match="Is a directory"):
        await fetch(tmp_path, [1], refused)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(JournalError, match="not an ordinary file"):
        await fetch(tmp_path / "pipe", [1], refused)
