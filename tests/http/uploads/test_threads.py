"""The thread that reads files: it always ends, closes what it opened, and holds up nothing."""

import asyncio
import gc
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gateway_sdk import (
    ConnectionFailedError,
    DeadlineExceededError,
    GatewayError,
    GatewaySession,
    InvalidArgumentError,
    Multipart,
)
from gateway_sdk._content import files as thread
from gateway_sdk._content.files import CHUNK, from_thread
from tests.http.uploads.servers import open_files_below, session, taking, threads_end
from tests.support.calls import pass_deadlines
from tests.support.raw_server import raw_server

BIG = 64 * 2**20
"""Bytes of a file that no two socket buffers take in."""


class Silent:
    """A server that takes a head in, and then stands still or hangs up."""

    def __init__(self, *, hang_up: bool = False) -> None:
        self.received = asyncio.Event()
        self._hang_up = hang_up

    async def handle(self, reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.received.set()
        if not self._hang_up:
            await asyncio.Event().wait()


GIVEN: dict[str, Callable[[Path], Any]] = {
    "path": lambda path: path,
    "open file": lambda path: path.open("rb"),
    "form": lambda path: Multipart({}, {"front": path, "back": [path, path]}),
}


@pytest.mark.parametrize("kind", GIVEN)
@pytest.mark.parametrize("way", ["deadline", "cancellation", "hanging up"])
async def test_an_upload_that_is_cut_leaves_nothing_open(
    tmp_path: Path, kind: str, way: str
) -> None:
    """However an upload ends in its middle, its thread does too, and what it opened is closed."""
    path = tmp_path / "scan.pdf"
    with path.open("wb") as file:
        file.truncate(BIG)
    content = GIVEN[kind](path)
    server = Silent(hang_up=way == "hanging up")
    told = [0]
    async with raw_server(server.handle) as url, session(url) as gateway:
        upload = gateway.aml.upload_document(content, on_progress=lambda at, _: told.append(at))
        call = asyncio.create_task(upload)
        await server.received.wait()
        if way == "deadline":
            pass_deadlines(gateway)
        elif way == "cancellation":
            call.cancel()
        with pytest.raises((GatewayError, asyncio.CancelledError)):
            await call
    await threads_end()

    assert told[-1] < BIG
    if kind == "open file":
        assert not content.closed
        content.close()
    assert not open_files_below(tmp_path)


async def test_a_stream_is_closed_when_its_call_ends() -> None:
    """At once, and not only when it is garbage."""
    closed: list[bool] = []

    async def stream() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield bytes(CHUNK)
        finally:
            closed.append(True)

    server, content = Silent(), stream()
    async with raw_server(server.handle) as url, session(url) as gateway:
        call = asyncio.create_task(gateway.aml.upload_document(content))
        await server.received.wait()
        call.cancel()
        await asyncio.wait([call])
        assert closed
    await content.aclose()
    with pytest.raises(ConnectionFailedError):  # the server is gone: nothing of it is sent
        await session(url).aml.upload_document(stream())
    assert closed == [True, True]


class Hanging(io.BytesIO):
    """A file whose reads wait until a test lets them, as on a disk that is gone."""

    def __init__(self, content: bytes, *, at_first_look: bool = False) -> None:
        super().__init__(content)
        self.reading = threading.Event()
        self.go_on = threading.Event()
        self.under_way = 0  # how many reads there are now
        self.reads = 0  # how many there were, those of nothing not counted
        self._at_first_look = at_first_look

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += bool(size)
        if size or self._at_first_look:
            self.under_way += 1
            self.reading.set()
            assert self.go_on.wait(20)
            self.under_way -= 1
        return super().read(size)


def end(call: asyncio.Task[Any], gateway: GatewaySession, way: str) -> None:
    if way == "deadline":
        pass_deadlines(gateway)
    else:
        call.cancel()


@pytest.mark.parametrize("look", [False, True], ids=["sent", "looked over"])
@pytest.mark.parametrize("form", [False, True], ids=["alone", "in a form"])
@pytest.mark.parametrize("way", ["deadline", "cancellation"])
async def test_no_read_of_a_users_file_is_under_way_when_the_call_has_ended(
    monkeypatch: pytest.MonkeyPatch, look: bool, form: bool, way: str
) -> None:
    """The end waits for the read that has begun, and no other one begins."""
    monkeypatch.setattr(thread, "PATIENCE", 20.0)
    file = Hanging(bytes(4 * CHUNK), at_first_look=look)
    async with taking() as (url, _), session(url) as gateway:
        content = Multipart({}, {"front": file}) if form else file
        call = asyncio.create_task(gateway.aml.upload_document(content))
        assert await asyncio.to_thread(file.reading.wait, 20)
        end(call, gateway, way)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not call.done()
        file.go_on.set()
        await asyncio.wait([call])
        assert (file.under_way, file.reads) == (0, 0 if look else 1)
        file.close()  # the user may do so now
    await threads_end()

    error = None if call.cancelled() else call.exception()
    assert isinstance(error, DeadlineExceededError if way == "deadline" else type(None))


@pytest.mark.parametrize("form", [False, True], ids=["alone", "in a form"])
@pytest.mark.parametrize("way", ["deadline", "cancellation"])
async def test_a_read_that_hangs_holds_up_neither_the_loop_nor_the_deadline(
    monkeypatch: pytest.MonkeyPatch, form: bool, way: str
) -> None:
    """The call ends after a while; the thread ends with the read, and does not read again."""
    monkeypatch.setattr(thread, "PATIENCE", 0.01)
    file = Hanging(bytes(4 * CHUNK))
    async with taking() as (url, _), session(url) as gateway:
        content = Multipart({}, {"front": file}) if form else file
        call = asyncio.create_task(gateway.aml.upload_document(content))
        assert await asyncio.to_thread(file.reading.wait, 20)
        end(call, gateway, way)
        await asyncio.wait([call])
        assert call.cancelled() or isinstance(call.exception(), DeadlineExceededError)
        assert [thread.name for thread in threading.enumerate()].count("gateway-upload") == 1

    file.go_on.set()
    await threads_end()
    assert not file.closed
    assert file.reads == 1


async def test_an_open_file_that_another_call_reads_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thread, "PATIENCE", 0.01)
    file = Hanging(bytes(4 * CHUNK))
    async with taking() as (url, taker), session(url) as gateway:
        first = asyncio.create_task(gateway.aml.upload_document(file))
        assert await asyncio.to_thread(file.reading.wait, 20)
        with pytest.raises(InvalidArgumentError, match="open it once for each call"):
            await gateway.aml.upload_document(file)
        file.go_on.set()
        await first

    assert [upload.whole for upload in taker.uploads] == [True]


class Broken(Hanging):
    """A file that cannot be looked over, and takes its time to say so."""

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        if self.reading.is_set():
            raise OSError(5, "the disk is gone")
        return piece  # of the first look, where that is none of the test


@pytest.mark.parametrize("look", [False, True], ids=["sent", "looked over"])
async def test_a_read_that_fails_after_the_call_is_not_reported(
    monkeypatch: pytest.MonkeyPatch, look: bool
) -> None:
    """The call has ended by then, and asyncio is not left with an error of its file."""
    noise: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: noise.append(what))
    file = Broken(bytes(CHUNK), at_first_look=look)
    monkeypatch.setattr(thread, "PATIENCE", 20.0)
    async with taking() as (url, _), session(url) as gateway:
        call = asyncio.create_task(gateway.aml.upload_document(file))
        assert await asyncio.to_thread(file.reading.wait, 20)
        call.cancel()
        await asyncio.sleep(0)
        file.go_on.set()
        await asyncio.wait([call])
    await threads_end()
    gc.collect()

    assert call.cancelled()
    assert noise == []


async def test_many_calls_look_at_their_files_in_few_threads() -> None:
    """What was not looked at when its call ended is left alone."""
    files = [Hanging(b"x", at_first_look=True) for _ in range(20)]
    async with taking() as (url, _), session(url) as gateway:
        calls = [asyncio.create_task(gateway.aml.upload_document(file)) for file in files]
        for file in files[: thread.LOOKS]:
            assert await asyncio.to_thread(file.reading.wait, 20)
        for call in calls[10:]:
            call.cancel()
        await asyncio.wait(calls[10:])
        assert sum(file.reading.is_set() for file in files) == thread.LOOKS
        for file in files:
            file.go_on.set()
        await asyncio.gather(*calls[:10])

    assert [file.reading.is_set() for file in files] == [True] * 10 + [False] * 10


PLACE: ContextVar[str] = ContextVar("where the code runs", default="nowhere")


class Placed(io.BytesIO):
    seen: ClassVar[set[str]] = set()

    def read(self, size: int | None = -1, /) -> bytes:
        if size:
            self.seen.add(PLACE.get())
        return super().read(size)


async def test_a_file_is_read_in_the_context_of_the_caller() -> None:
    async with taking() as (url, _), session(url) as gateway:
        PLACE.set("caller")
        await gateway.aml.upload_document(Placed(b"x"))

    assert Placed.seen == {"caller"}


class Pieces:
    """A hundred pieces."""

    def __init__(self) -> None:
        self.taken = 0
        self.two = threading.Event()
        self.closed_in: list[str] = []  # the threads

    def __call__(self) -> Generator[bytes, None, None]:
        try:
            for _ in range(100):
                self.taken += 1
                if self.taken == 2:
                    self.two.set()
                yield bytes(2**16)
        finally:
            self.closed_in.append(threading.current_thread().name)


@pytest.mark.parametrize("taken", [0, 1, 100, 101])
async def test_the_generator_is_closed_in_its_thread_wherever_it_stops(taken: int) -> None:
    pieces = Pieces()
    reading = from_thread(pieces, ahead=True)
    for _ in range(taken):
        await anext(reading, None)
    await reading.aclose()
    await threads_end()

    assert pieces.closed_in == ["gateway-upload"] * bool(taken)


async def test_nothing_is_read_of_a_users_file_that_nobody_waits_for() -> None:
    """Without reading ahead the generator rests while a piece is sent, however long that takes."""
    pieces = Pieces()
    reading = from_thread(pieces, ahead=False)
    for expected in (1, 2, 3):
        await anext(reading)
        assert pieces.taken == expected
    await reading.aclose()
    await threads_end()
    assert pieces.taken == 3


async def test_no_more_than_a_piece_is_read_ahead() -> None:
    pieces = Pieces()
    reading = from_thread(pieces, ahead=True)
    await anext(reading)
    assert await asyncio.to_thread(pieces.two.wait, 20)
    await reading.aclose()
    await threads_end()
    assert pieces.taken == 2


def test_a_loop_that_is_closed_in_the_middle_leaves_no_thread() -> None:
    """The thread ends with the generator when no event loop is left to close that."""
    pieces = Pieces()
    loop = asyncio.new_event_loop()
    reading: list[AsyncGenerator[Any, None]] = [from_thread(pieces, ahead=True)]

    async def begin() -> None:
        await anext(reading[0])

    loop.run_until_complete(begin())
    loop.close()
    reading.clear()
    gc.collect()
    asyncio.run(threads_end())

    assert pieces.closed_in == ["gateway-upload"]


FROM_A_PIPE = """
import asyncio, signal, sys
from gateway_sdk import GatewaySession

def told(sent, total):
    if sent == 2**18:  # all that will ever come
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, signal.raise_signal, signal.SIGINT)

async def main(url, pipe):
    async with GatewaySession(url, access_token="token") as gateway:
        await gateway.aml.upload_document(open(int(pipe), "rb"), on_progress=told)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.posix
async def test_a_program_can_be_interrupted_while_its_pipe_is_silent() -> None:
    """Somebody who writes no more into a pipe does not keep the program that reads it alive."""
    reading, writing = os.pipe()
    command = [sys.executable, "-c", FROM_A_PIPE]
    async with taking() as (url, _):
        program = await asyncio.create_subprocess_exec(
            *command, url, str(reading), pass_fds=[reading], stderr=subprocess.DEVNULL
        )
        try:
            await asyncio.to_thread(os.write, writing, bytes(2**18 + 1))
            assert await asyncio.wait_for(program.wait(), 30) == -signal.SIGINT
        finally:
            if program.returncode is None:
                program.kill()
                await program.wait()
    os.close(reading)
    os.close(writing)
