"""Writes that must not be repeated: the disk has a line before a byte of the request is sent."""

import asyncio
import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_sdk import (
    Advice,
    GatewayError,
    GatewaySession,
    InvalidArgumentError,
    JournalError,
    Outcome,
    SessionStateError,
    bulk,
)
from gateway_sdk.bulk._journal import file as file_module
from gateway_sdk.bulk._journal.file import JournalFile
from tests.bulk.journal.journals import JOB, fetch, lines, refused
from tests.support.scripted import Step, scripted

FSYNC = "gateway_sdk.bulk._journal.file.os.fsync"


def created(_: httpx.Request) -> httpx.Response:
    """Reply as a gateway that created the customer."""
    return httpx.Response(200, json={"customerId": "c-1"})


def creating(gateway: GatewaySession) -> Callable[[str], Any]:
    """Return a function that creates a customer with a name."""

    async def create(name: str) -> Any:
        return await gateway.customer.create_customer({"customerName": name})

    return create


class Disk:
    """Records how many bytes of which file are on the disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop_thread = threading.get_ident()
        self.sizes: list[int] = []
        self.folders: list[int] = []
        self.before: Callable[[], object] = lambda: None
        self._fsync = os.fsync
        monkeypatch.setattr(FSYNC, self)

    def __call__(self, descriptor: int) -> None:
        """Sync a file, outside of the event loop."""
        assert threading.get_ident() != self.loop_thread
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            self.folders.append(status.st_ino)
        else:
            self.before()
            self.sizes.append(os.fstat(descriptor).st_size)
        self._fsync(descriptor)


async def test_the_disk_has_the_line_before_the_request_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line and the name of the new file: a power cut removes neither."""
    path = tmp_path / "journal.jsonl"
    disk = Disk(monkeypatch)
    on_disk: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        on_disk.append(disk.sizes[-1])
        assert disk.folders == [tmp_path.stat().st_ino]
        return created(request)

    gateway, _, _ = scripted(monkeypatch, answer)
    async with gateway:
        await fetch(path, ["Ada", "Bob"], creating(gateway), concurrency=1)

    starts = [0]
    for line in path.read_bytes().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    assert [line["state"] for line in lines(path)] == ["begun", "done", "begun", "done"]
    assert on_disk == [starts[1], starts[3]]


async def test_reads_do_not_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They can be repeated, and have one line each."""
    disk = Disk(monkeypatch)
    gateway, _, _ = scripted(monkeypatch, httpx.Response(200, json=[]))

    async def call(_: int) -> Any:
        return await gateway.country_data.list_countries()

    async with gateway:
        await fetch(tmp_path / "journal.jsonl", range(5), call)

    assert len(disk.sizes) == 1
    assert disk.folders == []


async def test_calls_that_wait_for_the_disk_wait_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any number of them at the same time share a sync, or the next one."""
    count = 20
    path = tmp_path / "journal.jsonl"
    disk, all_there = Disk(monkeypatch), threading.Event()
    disk.before = all_there.wait
    written: list[int] = []
    append = JournalFile.append

    def noting(self: JournalFile, line: bytes) -> int:
        written.append(len(line))
        if len(written) == count:
            all_there.set()
        return append(self, line)

    monkeypatch.setattr(JournalFile, "append", noting)
    gateway, engine, _ = scripted(monkeypatch, created)
    async with gateway:
        results = await fetch(path, map(str, range(count)), creating(gateway), concurrency=count)

    assert all(result.error is None for result in results.values())
    assert len(engine.requests) == count
    assert len(disk.sizes) <= 3  # the first, one for all later calls, and the end


async def test_nothing_is_sent_if_the_disk_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of the call says so, and the run ends."""
    seen: list[BaseException] = []

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(FSYNC, fail)
    gateway, engine, _ = scripted(monkeypatch, created)

    async def create(name: str) -> Any:
        try:
            return await creating(gateway)(name)
        except BaseException as error:
            seen.append(error)
            raise

    async with gateway:
        with pytest.raises(JournalError, match="Input/output error") as caught:
            await fetch(tmp_path / "journal.jsonl", ["Ada", "Bob"], create)

    assert engine.requests == []
    assert caught.value.operation is None
    ours = [error for error in seen if isinstance(error, JournalError)]
    assert ours
    assert {(error.operation, error.outcome) for error in ours} == {
        ("create_customer", Outcome.NOT_SENT)
    }


@pytest.mark.parametrize("at_once", [False, True])
async def test_an_item_of_several_calls_has_one_line_before_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    """None of them is sent before the line is on the disk, in any task."""
    path = tmp_path / "journal.jsonl"
    disk = Disk(monkeypatch)

    def answer(request: httpx.Request) -> httpx.Response:
        assert disk.sizes
        return created(request)

    gateway, engine, _ = scripted(monkeypatch, answer)

    async def call(name: str) -> str:
        create = creating(gateway)
        if at_once:
            await asyncio.gather(create(name), create(f"{name} II"))
        else:
            await create(name)
            await create(f"{name} II")
        return name

    async with gateway:
        results = await fetch(path, ["Ada"], call)

    assert results["Ada"].value == "Ada"
    assert len(engine.requests) == 2
    assert [line["state"] for line in lines(path)] == ["begun", "done"]


async def test_a_run_within_an_item_writes_to_both_journals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an inner run sends is recorded for the item of the outer run too."""
    outer, inner = tmp_path / "outer.jsonl", tmp_path / "inner.jsonl"
    gateway, _, _ = scripted(monkeypatch, created)

    async def call(name: str) -> int:
        return len(await fetch(inner, [name], creating(gateway)))

    async with gateway:
        await fetch(outer, ["Ada"], call)

    for path in (outer, inner):
        assert [line["state"] for line in lines(path)] == ["begun", "done"]


@pytest.mark.parametrize("end", ["deadline", "close"])
async def test_a_run_that_ends_while_the_disk_is_waited_for_sent_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """The line is withdrawn, and the next run makes the call."""
    path = tmp_path / "journal.jsonl"
    at_it, door = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    gateway, engine, _ = scripted(monkeypatch, created)

    def slow(_: int) -> None:
        loop.call_soon_threadsafe(at_it.set)
        door.wait()

    async with gateway:
        with monkeypatch.context() as patch:
            patch.setattr(FSYNC, slow)
            deadline = 0.2 if end == "deadline" else None
            run = bulk.run(creating(gateway), ["Ada"], journal=path, job=JOB, deadline=deadline)
            first = asyncio.ensure_future(anext(run))
            await at_it.wait()
            if end == "deadline":
                error = (await first).error
                assert isinstance(error, GatewayError)
                assert error.outcome is Outcome.NOT_SENT
            else:
                first.cancel()
            loop.call_later(0, door.set)
            await asyncio.wait([first])
            await run.aclose()

        assert engine.requests == []
        assert [line["state"] for line in lines(path)] == ["begun", "interrupted"]
        results = await fetch(path, ["Ada"], creating(gateway))

    assert results["Ada"].error is None
    assert len(engine.requests) == 1


async def test_an_invalid_request_has_no_line_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong argument is found first: the item has failed, and can be repeated."""
    path = tmp_path / "journal.jsonl"
    gateway, _, _ = scripted(monkeypatch, created)

    async def create(_: str) -> Any:
        return await gateway.customer.create_customer({"customerNam": "Ada"})

    async with gateway:
        results = await fetch(path, ["Ada"], create)

    assert isinstance(results["Ada"].error, InvalidArgumentError)
    (line,) = lines(path)
    assert (line["state"], line["outcome"], line["advice"]) == ("failed", "NOT_SENT", "fix")


REFUSED: list[Step] = [httpx.ConnectError("no"), httpx.Response(429), created]


async def test_a_retry_does_not_write_the_line_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line stands for all attempts of an item."""
    path = tmp_path / "journal.jsonl"
    gateway, engine, _ = scripted(monkeypatch, *REFUSED)
    async with gateway:
        results = await fetch(path, ["Ada"], creating(gateway))

    assert (results["Ada"].error, results["Ada"].attempts) == (None, 3)
    assert len(engine.requests) == 3
    assert [line["state"] for line in lines(path)] == ["begun", "done"]


def test_folders_are_not_synced_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows writes names by itself."""
    monkeypatch.setattr(file_module, "WINDOWS", True)

    file_module.sync_folder(tmp_path / "missing")


async def test_an_equal_item_waits_for_the_call_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line that says `begun` is of this run, so the result is still to come."""
    path = tmp_path / "journal.jsonl"
    sent, answered = asyncio.Event(), asyncio.Event()

    class Engine(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            sent.set()
            await answered.wait()
            return created(request)

    async def call(name: str) -> Any:
        if name == "Ada":
            return await gateway.customer.create_customer({"customerName": name})
        await sent.wait()
        return name

    def items() -> Iterator[str]:
        yield from ("Ada", "Bob", "Ada")
        answered.set()

    gateway = GatewaySession(
        "http://localhost", access_token="-", tenant_id="acme", transport=Engine()
    )
    async with gateway:
        run = bulk.run(call, items(), journal=path, job=JOB, concurrency=2)
        results = [result async for result in run]

    assert [(result.item, result.error) for result in results] == [
        ("Bob", None), ("Ada", None), ("Ada", None)
    ]  # fmt: skip
    assert [line["item"] for line in lines(path)] == ["Ada", "Bob", "Ada"]


async def test_a_call_that_goes_on_after_its_item_is_not_repeated(tmp_path: Path) -> None:
    """Its outcome is unknown, so no later run repeats its item."""
    path = tmp_path / "journal.jsonl"
    sent, answered = asyncio.Event(), asyncio.Event()
    going_on: list[asyncio.Task[Any]] = []

    class Engine(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            sent.set()
            await answered.wait()
            return created(request)

    async def call(name: str) -> None:
        going_on.append(asyncio.create_task(creating(gateway)(name)))
        await sent.wait()
        raise KeyError(name)

    gateway = GatewaySession(
        "http://localhost", access_token="-", tenant_id="acme", transport=Engine()
    )
    async with gateway:
        await fetch(path, ["Ada"], call)
        again = await fetch(path, ["Ada"], refused, retry_failed=True)
        answered.set()
        await asyncio.gather(*going_on)

    error = again["Ada"].error
    assert isinstance(error, GatewayError)
    assert (error.outcome, error.advice) == (Outcome.UNKNOWN, Advice.CHECK)


async def test_a_call_in_another_event_loop_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread with another event loop cannot wait for the run's disk; the call fails at once."""
    path = tmp_path / "journal.jsonl"
    gateway, engine, _ = scripted(monkeypatch, created)

    async def call(name: str) -> Any:
        return await asyncio.to_thread(lambda: asyncio.run(creating(gateway)(name)))

    results = await fetch(path, ["Ada"], call)

    error = results["Ada"].error
    assert isinstance(error, SessionStateError)
    assert "in the event loop of the run" in str(error)
    assert (error.outcome, engine.requests) == (Outcome.NOT_SENT, [])
