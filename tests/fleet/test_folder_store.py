"""Plans and results in folders, in an S3 server and in another file system of fsspec."""

import asyncio
import errno
import importlib
import os
import pickle
import resource
import stat
import sys
import uuid
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]

from gateway_sdk import Advice
from gateway_sdk.bulk._journal.line import Failure
from gateway_sdk.errors import ConfigurationError, PlanStoreError
from gateway_sdk.fleet import FolderStore, Job
from gateway_sdk.fleet._folder_files import LocalFiles, RemoteFiles, is_outage, why
from gateway_sdk.fleet._parquet import schema
from gateway_sdk.fleet._store import ChunkState, Counts, ItemRecord, PlanRecord, State
from tests.fleet.gateways import (
    CountingGateway,
    customer,
    either,
    rates_job,
    run_all,
    series,
    session,
)
from tests.fleet.plans import STARTER
from tests.support.hearing import heard
from tests.support.s3_server import S3Server, running
from tests.support.secrecy import CANARY

LOST = Failure(error="ReplyLostError", outcome="UNKNOWN", advice=Advice.REPEAT)
BUSY = Failure(error="ServerError", status=503, operation="x", message="m", outcome="REFUSED")
WRONG = Failure(error="ConflictError", status=409, advice=Advice.CHECK)


def plan_of(items: int = 5, chunk: int = 2) -> PlanRecord:
    return PlanRecord(
        name="job",
        id=uuid.uuid4().hex,
        operation="x",
        chunk_size=chunk,
        items=items,
        digest="d",
    )


def result(index: int, failure: Failure | None = None) -> ItemRecord:
    return ItemRecord(
        index=index,
        state=State.FAILED if failure else State.DONE,
        item=f'"item {index}"',
        value=None if failure else f'{{"n": {index}}}',
        failure=failure,
        attempts=2,
        elapsed=0.5,
    )


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with running() as server:
        yield server


@pytest.fixture(params=["folder", "memory", "moving", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: Any) -> FolderStore:
    if request.param == "folder":
        return FolderStore(str(tmp_path / "not there yet"))
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3")
        return FolderStore(f"s3://{server.bucket}/{uuid.uuid4().hex}", options=server.options)
    if request.param == "moving":  # like a file system that shows files while they are written
        monkeypatch.setattr("gateway_sdk.fleet._folder_files._OBJECT_STORES", frozenset())
    return FolderStore(f"memory://{uuid.uuid4().hex}")


async def listed(iterator: Any) -> list[Any]:
    return [one async for one in iterator]


async def test_the_first_header_is_that_of_the_plan(store: FolderStore) -> None:
    """A second planner learns of the first; items of plans that were never sealed disappear."""
    first, second = plan_of(), plan_of()
    await store.write_items("job", first.id, 0, ['{"a":1}', '"\u2028 \\n é"'])
    await store.write_items("job", second.id, 0, ["2"])
    assert await store.find_plan("job") is None
    assert await listed(store.unknown(first)) == []

    assert await store.seal(first) == first
    assert await store.seal(second) == first
    assert await store.find_plan("job") == first
    assert await store.read_items(first, 0) == ['{"a":1}', '"\u2028 \\n é"']
    assert await store.read_items(second, 0) == []


async def test_items_can_be_discarded(store: FolderStore) -> None:
    """Those of other plans stay, and it may be said again."""
    first, second = plan_of(), plan_of()
    await store.write_items("job", first.id, 0, ["1"])
    await store.write_items("job", second.id, 0, ["2"])

    await store.discard("job", first.id)
    await store.discard("job", first.id)

    assert await store.read_items(first, 0) == []
    assert await store.read_items(second, 0) == ["2"]


async def test_results_come_back_as_they_were(store: FolderStore) -> None:
    """In the order of the plan, with the reasons of failures."""
    plan = plan_of()
    await store.write_results(plan, 2, [result(4)])
    await store.write_results(plan, 0, [result(1, BUSY), result(0)])

    found = [record for records in await listed(store.results(plan)) for record in records]

    assert found == [result(0), result(1, BUSY), result(4)]
    assert await store.known(plan, 0) == {0: State.DONE, 1: State.FAILED}
    assert await store.known(plan, 1) == {}
    assert await store.known(plan, 2) == {4: State.DONE}
    assert await listed(store.missing(plan)) == [1]
    assert await store.counts(plan) == Counts(done=2, failed={"ServerError 503": 1})
    assert await store.counts(plan) == Counts(done=2, failed={"ServerError 503": 1})


async def test_what_is_stored_stays(store: FolderStore) -> None:
    """A slow twin changes nothing, whether its results are better or worse."""
    plan = plan_of(items=2)
    await store.write_results(plan, 0, [result(0), result(1)])
    await store.write_results(plan, 0, [result(0, BUSY), result(1, BUSY)])
    assert await store.counts(plan) == Counts(done=2, failed={})

    other = plan_of(items=2)
    await store.write_results(other, 0, [result(0, BUSY), result(1)])
    await store.write_results(other, 0, [replace(result(0), value="0"), result(1)])
    assert await store.counts(other) == Counts(done=1, failed={"ServerError 503": 1})


async def test_only_failures_to_check_are_not_forgotten(store: FolderStore) -> None:
    """Their chunks are missing again, and only their items."""
    plan = plan_of(items=6)
    await store.write_results(plan, 0, [result(0), result(1)])
    await store.write_results(plan, 1, [result(2, LOST), result(3, WRONG)])
    await store.write_results(plan, 2, [result(4, WRONG), result(5, WRONG)])

    assert await store.forget_failed(plan) == 1
    assert await store.forget_failed(plan) == 0
    assert await listed(store.missing(plan)) == [1]
    assert await store.known(plan, 1) == {3: State.FAILED}
    assert await store.counts(plan) == Counts(done=2, failed={"ConflictError 409": 3})

    await store.write_results(plan, 1, [result(2)])
    assert await listed(store.missing(plan)) == []
    assert await store.known(plan, 1) == {2: State.DONE, 3: State.FAILED}


async def test_all_results_of_a_chunk_can_be_forgotten(store: FolderStore) -> None:
    """Then it is as if it had never been done."""
    plan = plan_of(items=2)
    await store.write_results(plan, 0, [result(0, LOST), result(1, LOST)])

    assert await store.forget_failed(plan) == 2
    assert await store.known(plan, 0) == {}
    assert await store.counts(plan) == Counts()
    await store.write_results(plan, 0, [result(0), result(1)])
    assert await listed(store.missing(plan)) == []


async def test_nothing_is_begun_or_unknown_in_a_folder(store: FolderStore) -> None:
    """It cannot record it, and says which store can."""
    plan = plan_of()

    with pytest.raises(PlanStoreError, match="use a PostgresStore"):
        await store.begin(plan, 0, STARTER)
    await store.settle_unknown(plan, [0])
    await store.release(plan, [0], STARTER)
    assert await listed(store.unknown(plan)) == []


async def test_chunks_are_noted_until_they_end(store: FolderStore) -> None:
    """Starts are counted, and counted anew after a wait."""
    plan = plan_of()
    assert [await store.start_chunk(plan, 1), await store.start_chunk(plan, 1)] == [1, 2]
    await store.mark_chunk(plan, 1, ChunkState.BROKEN, "é")
    await store.mark_chunk(plan, 2, ChunkState.WAITING, "login")

    (first, second) = await listed(store.open_chunks(plan))
    assert (first.chunk, first.state, first.starts, first.message) == (1, "broken", 2, "é")
    assert (second.chunk, second.state, second.starts) == (2, "waiting", 0)
    assert first.at.tzinfo is not None

    await store.mark_chunk(plan, 1, ChunkState.WAITING, "login")
    assert await store.start_chunk(plan, 1) == 1
    await store.clear_chunk(plan, 1)
    await store.clear_chunk(plan, 1)
    assert [record.chunk for record in await listed(store.open_chunks(plan))] == [2]


@pytest.mark.parametrize("text", ["", '{"state": "run', "[]", "{}"])
async def test_a_note_that_a_crash_of_the_machine_emptied_is_none(
    tmp_path: Path, text: str
) -> None:
    """The chunk is started as if for the first time, and can be ended."""
    store = FolderStore(str(tmp_path))
    plan = plan_of()
    await store.start_chunk(plan, 1)
    (note,) = (tmp_path / "job" / "chunks").glob("*/*.json")
    note.write_text(text)

    assert await listed(store.open_chunks(plan)) == []
    assert await store.start_chunk(plan, 1) == 1
    assert [record.starts for record in await listed(store.open_chunks(plan))] == [1]
    note.write_text(text)
    await store.clear_chunk(plan, 1)
    assert not note.exists()


async def test_all_but_the_first_start_of_a_chunk_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file and then its folder; a chunk that is started again may be one that crashes."""
    synced: list[bool] = []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    store = FolderStore(str(tmp_path))
    plan = plan_of()
    one_file = [False] if sys.platform == "win32" else [False, True]
    steps: tuple[tuple[Awaitable[object], list[bool]], ...] = (
        (store.start_chunk(plan, 0), []),
        (store.start_chunk(plan, 0), one_file),
        (store.mark_chunk(plan, 1, ChunkState.BROKEN, "x"), one_file),
        (store.write_results(plan, 0, [result(0), result(1)]), one_file),
    )
    for step, expected in steps:
        synced.clear()
        await step
        assert synced == expected


async def test_a_file_without_failures_has_no_columns_for_them(tmp_path: Path) -> None:
    """Seven columns of nothing would cost a third of the CPU time of the file."""
    store = FolderStore(str(tmp_path))
    plan = plan_of()
    await store.write_results(plan, 0, [result(0), result(1)])
    await store.write_results(plan, 1, [result(2), result(3, BUSY)])
    done, failed = sorted((tmp_path / "job" / "results").glob("*/*.parquet"))

    columns = ["index", "state", "item", "value", "attempts", "elapsed"]
    assert pyarrow.parquet.read_schema(done).names == columns
    assert pyarrow.parquet.read_schema(failed).names == schema().names


async def test_a_whole_plan(store: FolderStore, tmp_path: Path) -> None:
    """Planned, run, resumed and collected."""
    gateway = CountingGateway()
    async with rates_job(store) as job, session(gateway) as made:
        plan = await job.plan(map(series, range(25)), chunk=4)
        await plan.run(3, made)
        assert (await plan.status()).done == 4
        await run_all(plan, made)
        await run_all(await job.load(), made)

        assert await plan.collect(tmp_path / "rates.parquet") == 25
    assert set(gateway.done.values()) == {1}
    assert len(gateway.done) == 25
    assert repr(store).startswith("<FolderStore ")
    assert "secret" not in repr(store)


async def test_a_server_that_comes_back_is_waited_for(caplog: Any) -> None:
    """It is told in the log, and nothing is lost."""
    with heard("does not answer") as missed, running() as server:
        store = FolderStore(f"s3://{server.bucket}/x", options=server.options)
        plan = plan_of()
        await store.write_results(plan, 0, [result(0), result(1)])
        server.stop()
        waiting = asyncio.create_task(store.known(plan, 0))
        await missed.wait()
        server.start()

        assert await waiting == {0: State.DONE, 1: State.DONE}
    assert "answers again" in caplog.text


async def test_a_bucket_that_is_not_there_is_named(s3: S3Server) -> None:
    """At once, and not after a minute."""
    store = FolderStore("s3://nowhere/x", options=s3.options)

    with pytest.raises(PlanStoreError, match="s3://nowhere/x: it does not exist: make the bucket"):
        await store.write_items("job", "id", 0, ["1"])


async def test_wrong_credentials_are_no_outage(s3: S3Server) -> None:
    """Without any, the message names none."""
    options = {**s3.options, "key": None, "secret": None}
    store = FolderStore(f"s3://{s3.bucket}/x", options=options)

    with pytest.raises(PlanStoreError, match=r"cannot be used|refuses access"):
        await store.write_items("job", "id", 0, ["1"])


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def write_over(folder: Path, data: bytes) -> None:
    """Replace what is in the one file of results."""
    (path,) = folder.rglob("*.parquet")
    path.write_bytes(data)


async def test_a_file_that_cannot_grow_loses_nothing(tmp_path: Path) -> None:
    """The error names the store and the way out; what was stored is there, and no half file."""
    store = FolderStore(str(tmp_path))
    plan = plan_of()
    await store.write_results(plan, 0, [result(0), result(1)])

    with small_files(100), pytest.raises(PlanStoreError, match="a file is too large for it"):
        await store.write_results(plan, 1, [result(2), result(3)])

    assert await listed(store.missing(plan)) == [1, 2]
    assert files_in(tmp_path) == ["00000000.done.parquet"]


async def test_a_file_that_was_written_over_is_an_error(tmp_path: Path) -> None:
    """Its chunk is not taken for done."""
    store = FolderStore(str(tmp_path))
    plan = plan_of()
    await store.write_results(plan, 0, [result(0, BUSY), result(1)])
    write_over(tmp_path, b"no parquet")

    with pytest.raises(PlanStoreError, match=r"damaged .* delete it, and submit the plan again"):
        await store.known(plan, 0)


async def test_a_damaged_file_is_no_outage(tmp_path: Path) -> None:
    """Waiting would not help, whatever pyarrow calls the error."""
    store = FolderStore(str(tmp_path))
    plan = plan_of()
    await store.write_results(plan, 0, [result(0, BUSY), result(1)])
    (file,) = (tmp_path / "job" / "results").glob("*/*.parquet")
    data = bytearray(file.read_bytes())
    data[4:80] = bytes(76)
    file.write_bytes(data)

    with pytest.raises(PlanStoreError, match="damaged"):
        await store.known(plan, 0)


@pytest.mark.parametrize("text", ["", "[]", '{"name": "job", "of": "another version"}'])
async def test_a_header_that_cannot_be_read_is_an_error(tmp_path: Path, text: str) -> None:
    """It says what helps."""
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "plan.json").write_text(text)

    with pytest.raises(PlanStoreError, match=r"plan\.json of the store is damaged"):
        await FolderStore(str(tmp_path)).find_plan("job")


def test_credentials_are_not_pickled(tmp_path: Path) -> None:
    """A store without options may go to other processes."""
    store = pickle.loads(pickle.dumps(FolderStore(str(tmp_path))))  # noqa: S301 - our own

    assert repr(store) == repr(FolderStore(str(tmp_path)))
    with pytest.raises(TypeError, match="may hold a password"):
        pickle.dumps(FolderStore("s3://bucket/rates", options={"secret": CANARY}))


async def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    """Some systems put files of their own into each folder."""
    store = FolderStore(str(tmp_path))
    plan = plan_of()
    await store.write_results(plan, 0, [result(0), result(1)])
    (folder,) = (tmp_path / "job" / "results").iterdir()
    await store.start_chunk(plan, 1)
    (notes,) = (tmp_path / "job" / "chunks").iterdir()
    for name in (".DS_Store", ".nfs0001", "00000001 (copy).done.parquet", "copy.json", "1.json"):
        (folder / name).touch()
        (notes / name).touch()

    assert await listed(store.missing(plan)) == [1, 2]
    assert [record.chunk for record in await listed(store.open_chunks(plan))] == [1]


async def test_files_that_disappear_between_two_looks_are_not_there(
    store: FolderStore, monkeypatch: Any
) -> None:
    """Another worker may have written a better file meanwhile, or ended the chunk."""
    plan = plan_of()
    await store.start_chunk(plan, 0)
    await store.open()
    files = store._files
    assert files is not None
    monkeypatch.setattr(files, "names", lambda folder: ["00000000.failed.parquet"])

    assert files.stamp("nowhere") is None
    assert await store.counts(plan) == Counts()
    monkeypatch.setattr(files, "names", lambda folder: ["00000007.json", "00000000.json"])
    assert [record.chunk for record in await listed(store.open_chunks(plan))] == [0]


async def test_reading_ahead_ends_with_the_reader(tmp_path: Path) -> None:
    """Who leaves early leaves nothing running."""
    store = FolderStore(str(tmp_path))
    plan = plan_of(items=30, chunk=1)
    for chunk in range(30):
        await store.write_results(plan, chunk, [result(chunk)])
    results = store.results(plan)

    assert await anext(results) == [result(0)]
    await results.aclose()  # type: ignore[attr-defined]

    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        ("", None, "needs the address"),
        (Path("x"), None, "needs the address"),
        ("sftp://me:secret@host/x", None, "holds a user name"),
        ("x", "secret", "options must be a mapping"),
    ],
)
def test_wrong_arguments_are_refused(address: Any, options: Any, message: str) -> None:
    """At once, and without showing what may be a secret."""
    with pytest.raises(ConfigurationError, match=message) as caught:
        FolderStore(address, options=options)

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "missing", "message"),
    [
        ("nothing://x", None, "does not know addresses of nothing://"),
        ("x", "fsspec.core", r"the extra \[fleet\]"),
        ("s3://x", "s3fs", "another package: .*s3fs"),
    ],
)
async def test_missing_packages_are_named(
    address: str, missing: str | None, message: str, monkeypatch: Any
) -> None:
    """When the store is opened, for making one does no I/O."""
    if missing is not None:
        monkeypatch.setitem(sys.modules, missing, None)
        known = vars(importlib.import_module("fsspec.registry"))["_registry"]
        monkeypatch.delitem(known, "s3", raising=False)

    with pytest.raises(ConfigurationError, match=message):
        await FolderStore(address).open()


async def test_pyarrow_is_named_too(tmp_path: Path, monkeypatch: Any) -> None:
    """Results need it."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(ConfigurationError, match=r"the extra \[fleet\]"):
        await FolderStore(str(tmp_path)).write_results(plan_of(), 0, [result(0)])


@pytest.mark.parametrize(
    ("error", "expected", "text"),
    [
        (PermissionError(errno.EACCES, "secret"), False, "refuses access"),
        (FileNotFoundError(errno.ENOENT, "secret"), False, "does not exist"),
        (NotADirectoryError(errno.ENOTDIR, "secret"), False, "cannot be used"),
        (OSError(errno.ENOSPC, "secret"), False, "is full"),
        (OSError(errno.EFBIG, "secret"), False, "is too large"),
        (OSError(errno.EROFS, "secret"), False, "cannot be used"),
        (OSError(errno.ESTALE, "secret"), True, "cannot be used"),
        (ConnectionRefusedError(), True, "cannot be used"),
        (httpx.ReadTimeout("secret"), True, "cannot be used"),
        (ValueError("secret"), False, "cannot be used"),
    ],
)
def test_what_is_waited_for(error: Exception, expected: bool, text: str) -> None:
    """Only what may go away by itself; texts of others are not shown."""
    assert is_outage(error) is expected
    assert text in why(error)
    assert "secret" not in why(error)


async def test_a_function_that_sends_what_must_be_sent_once_sends_nothing(tmp_path: Path) -> None:
    """It is only known when it is sent, and then the chunk ends."""
    gateway = CountingGateway()
    job = Job("mixed", function=either, store=FolderStore(str(tmp_path)))
    plan = await job.plan([customer(1), series(2)])
    async with session(gateway) as made:
        with pytest.raises(PlanStoreError, match=r"nothing was sent: .* a PostgresStore does"):
            await plan.run(0, made)

    assert not any("c1" in body for body in gateway.done)
    (broken,) = (await plan.status()).broken
    assert "PostgresStore" in broken.message


def test_operations_that_must_not_be_made_twice_are_refused(tmp_path: Path) -> None:
    """With the store that takes them."""
    with pytest.raises(ConfigurationError, match=r"create_customer .* use a PostgresStore"):
        Job("customers", operation="create_customer", store=FolderStore(str(tmp_path)))


async def test_a_header_of_two_at_the_same_moment(monkeypatch: Any) -> None:
    """Where the file system can exclude it, the second does not replace the first."""
    store = FolderStore(f"memory://{uuid.uuid4().hex}")
    monkeypatch.setattr(RemoteFiles, "exists", lambda self, path: False)
    first, second = plan_of(), plan_of()

    assert await store.seal(first) == first
    assert await store.seal(second) == first


def test_links_are_deleted_and_not_what_they_lead_to(tmp_path: Path) -> None:
    """Someone may have linked a folder from elsewhere."""
    root, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").touch()
    (root / "items").mkdir(parents=True)
    (root / "items" / "link").symlink_to(elsewhere)

    LocalFiles(str(root)).remove("items")

    assert not (root / "items").exists()
    assert (elsewhere / "mine").exists()


def test_two_processes_may_delete_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is faster, after this one has found the folder."""
    files = LocalFiles(str(tmp_path))
    folder = tmp_path / "items"
    folder.mkdir()
    listdir = os.listdir

    def too_late(place: Path) -> list[str]:
        folder.rmdir()
        return listdir(place)

    monkeypatch.setattr(os, "listdir", too_late)

    files.remove("items")

    assert not folder.exists()


def test_a_folder_that_is_deleted_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A faster planner deletes the items of others, who learn later that there is a plan."""
    files = LocalFiles(str(tmp_path))
    replace_file = os.replace
    calls: list[str] = []

    def deleted(draft: str, place: str) -> None:
        calls.append(place)
        if len(calls) == 1:
            files.remove("items")
        replace_file(draft, place)

    monkeypatch.setattr(os, "replace", deleted)

    files.write("items/1", b"x")

    assert files.read("items/1") == b"x"
    assert files_in(tmp_path) == ["1"]


def test_a_file_that_cannot_be_replaced_leaves_no_draft(tmp_path: Path) -> None:
    """Such as where a folder has its name."""
    (tmp_path / "taken").mkdir()

    with pytest.raises(IsADirectoryError):
        LocalFiles(str(tmp_path)).write("taken", b"x")

    assert files_in(tmp_path) == []


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP])
async def test_a_disk_without_hard_links_takes_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The second planner still finds the plan of the first."""

    def link(*_: object) -> None:
        raise OSError(number, "no links")

    monkeypatch.setattr(os, "link", link)
    store = FolderStore(str(tmp_path))
    first, second = plan_of(), plan_of()

    assert await store.seal(first) == first
    assert await store.seal(second) == first
    assert files_in(tmp_path) == ["plan.json"]


async def test_another_error_of_a_link_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no draft stays."""

    def link(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "link", link)

    with pytest.raises(PlanStoreError, match="it is full"):
        await FolderStore(str(tmp_path)).seal(plan_of())

    assert files_in(tmp_path) == []


def moving_files() -> RemoteFiles:
    """Return files of a system that shows files while they are written."""
    return RemoteFiles(MemoryFileSystem(), f"/{uuid.uuid4().hex}", is_atomic=False)


def test_a_file_that_cannot_be_moved_leaves_no_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    """In any file system of fsspec."""

    def refuse(*_: object) -> None:
        raise PermissionError

    files = moving_files()
    monkeypatch.setattr(files._system, "mv", refuse, raising=False)

    with pytest.raises(PermissionError):
        files.write("a", b"x")

    assert files._system.ls(files._root) == []


def test_a_lost_connection_does_not_replace_a_header(monkeypatch: pytest.MonkeyPatch) -> None:
    """`exists` of fsspec takes any error for a file that is not there."""

    def lose(*_: object, **__: object) -> None:
        raise ConnectionError

    files = moving_files()
    files.write("plan.json", b"first")
    with monkeypatch.context() as patch:
        patch.setattr(files._system, "info", lose, raising=False)
        patch.setattr(files._system, "exists", lambda *_: False, raising=False)
        with pytest.raises(ConnectionError):
            files.create("plan.json", b"second")

    assert files.read("plan.json") == b"first"


async def test_options_that_do_not_fit_are_an_error_of_the_store() -> None:
    """Without their text, which may be a password."""
    store = FolderStore("memory://x", options={1: CANARY})  # type: ignore[dict-item]

    with pytest.raises(PlanStoreError, match=r"cannot be used \(TypeError\)") as caught:
        await store.open()

    assert CANARY not in str(caught.value)


async def test_items_in_another_encoding_are_an_error(tmp_path: Path) -> None:
    """Such as after an editor has saved them."""
    store = FolderStore(str(tmp_path))
    plan = plan_of()
    await store.write_items("job", plan.id, 0, ["1", "2"])
    (file,) = (tmp_path / "job" / "items").glob("*/*.jsonl")
    file.write_bytes(b'"\xe9"\n2\n')

    with pytest.raises(PlanStoreError, match="chunk 0 of 'job' were changed"):
        await store.read_items(plan, 0)
