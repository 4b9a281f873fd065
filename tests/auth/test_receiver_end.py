"""How the wait for an answer ends, and that nothing of it is left then."""

import asyncio
import gc
import json
import socket
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from gateway_sdk.auth import LoopbackReceiver
from gateway_sdk.auth.loopback.desk import Desk, Request
from gateway_sdk.errors import AuthorizationDeniedError, LoginTimeoutError, MalformedResponseError
from tests.auth.traces import no_records, no_traces, open_files
from tests.auth.visits import (
    RIGHT,
    WRONG,
    Waiting,
    answer,
    names_of,
    post,
    read_answer,
    visit,
    waiting,
)

HALVES = [b"", b"GET /callb", post(b"", {"Content-Length": "9"}), visit()]
"""What a connection may have sent when the wait ends: the last one has had its reply."""


@pytest.fixture(autouse=True)
async def _no_traces(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    async with no_traces(caplog):
        yield


async def must_be_closed(there: Waiting) -> None:
    """Require that nobody listens at the port, and that it can be had again at once."""
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(there.host, there.port)
    async with LoopbackReceiver(there.receiver.redirect_uri):
        pass


async def open_halves(there: Waiting) -> None:
    """Open connections of which none is over."""
    for raw in HALVES:
        line = await there.connect()
        await line.send(raw)
    await there.send(visit())


async def test_the_port_is_closed_with_the_answer() -> None:
    """A right answer ends the wait, closes the port and cuts every other connection."""
    async with waiting() as there:
        await open_halves(there)
        await there.must_still_wait()
        await must_be_closed(there)


async def test_the_port_is_closed_with_a_time_out() -> None:
    """So does a time-out."""
    async with waiting(timeout=0.01) as there:
        with pytest.raises(LoginTimeoutError):
            await there.task
        await must_be_closed(there)


async def test_the_port_is_closed_with_a_cancellation() -> None:
    """So does the cancellation of the task that waits, and it stays a cancellation."""
    async with waiting() as there:
        await open_halves(there)
        there.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await there.task
        await must_be_closed(there)


async def test_the_port_is_closed_by_leaving() -> None:
    """A receiver that is left without a wait listens no more."""
    async with LoopbackReceiver() as receiver:
        address = names_of(receiver)[0]
        with socket.create_connection(address):
            pass
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (AuthorizationDeniedError("the login was refused"), "The login was refused. You can"),
        (MalformedResponseError("the answer has no token"), "The answer has no token. You can"),
        (LookupError("CANARY"), "Something went wrong. You can"),
        (RecursionError("CANARY"), "Something went wrong. You can"),
    ],
)
async def test_what_reading_the_answer_raises_ends_the_wait(error: Exception, text: str) -> None:
    """The error goes to who waits as it is, and the page says what a person may know of it."""

    def finish(fragment: str, query: str) -> str:
        raise error

    async with waiting(finish=finish) as there:
        await open_halves(there)
        reply = await there.hand_in()
        with pytest.raises(type(error)) as caught:
            await there.task
        await must_be_closed(there)

    assert caught.value is error
    told = json.loads(reply.body)
    assert (reply.status, told["good"], told["heading"]) == (200, False, "You are not logged in")
    assert told["text"].startswith(text)
    assert b"CANARY" not in reply.body


async def test_an_outer_time_out_is_the_callers() -> None:
    """A time-out of who calls stays one, and is no LoginTimeoutError."""
    async with LoopbackReceiver() as receiver:
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.01):
                await receiver.receive(read_answer, timeout=60)

    assert type(caught.value) is TimeoutError


@pytest.mark.parametrize("redirect_uri", ["http://127.0.0.1:0/callback", "http://localhost:0/"])
@pytest.mark.parametrize("turns", range(5))
async def test_a_wait_can_be_cancelled_while_it_begins(redirect_uri: str, turns: int) -> None:
    """However early the cancellation comes, the sockets are out of the event loop and closed."""
    async with LoopbackReceiver(redirect_uri) as receiver:
        descriptors = [listener.fileno() for listener in receiver._sockets]
        task = asyncio.create_task(receiver.receive(read_answer))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

        assert task.cancelled()
    loop = asyncio.get_running_loop()
    assert not any(loop.remove_reader(descriptor) for descriptor in descriptors)


async def test_who_connects_while_the_wait_ends_is_cut_off() -> None:
    """A connection that is accepted in the same turn as the right answer is not kept."""
    async with waiting() as there:
        line = await there.connect()
        await there.send(visit())  # by now the one before it is being served
        await line.send(post(answer(RIGHT)))
        with socket.create_connection((there.host, there.port)) as late:
            assert await there.task == RIGHT
            for _ in range(4):
                await asyncio.sleep(0)
            assert there.receiver._connections == {}
            with suppress(ConnectionError):
                assert late.recv(1) == b""


@pytest.mark.parametrize("turns", range(6))
async def test_who_connects_while_the_wait_is_cancelled_is_cut_off(turns: int) -> None:
    """Nor is one that is accepted in the turn in which the task that waits is cancelled."""
    async with waiting() as there:
        await there.send(visit())
        with socket.create_connection((there.host, there.port)) as late:
            for _ in range(turns):
                await asyncio.sleep(0)
            there.task.cancel()
            await asyncio.wait([there.task])
            for _ in range(4):
                await asyncio.sleep(0)
            assert there.receiver._connections == {}
            with suppress(ConnectionError):
                assert late.recv(1) == b""


async def test_a_browser_that_leaves_has_still_handed_in_its_answer() -> None:
    """An answer ends the wait even if nobody stays to read the reply."""
    async with waiting() as there:
        line = await there.connect()
        await line.send(post(answer(RIGHT)))
        await line.close()

        assert await there.task == RIGHT


async def test_an_answer_that_comes_again_finds_the_door_closed() -> None:
    """After the right answer the same one is refused by the machine itself."""
    async with waiting() as there:
        await there.must_still_wait()
        with pytest.raises(ConnectionRefusedError):
            await there.hand_in()


async def test_of_two_answers_at_once_one_counts() -> None:
    """The second one is told that it was too late, or cut off; it is never read."""
    read: list[str] = []

    def finish(fragment: str, query: str) -> str:
        read.append(fragment)
        return read_answer(fragment, query)

    async with waiting(finish=finish) as there:
        lines = [await there.connect() for _ in range(2)]
        for line, fragment in zip(lines, [RIGHT, f"{RIGHT}&second"], strict=True):
            await line.send(post(answer(fragment)))
        assert (await lines[0].reply()).status == 200
        assert await there.task == RIGHT
        second = await lines[1].ended()

    assert read == [RIGHT]
    assert second == b"" or second.startswith(b"HTTP/1.1 409 ")


@pytest.mark.parametrize("second", [RIGHT, WRONG])
def test_a_second_answer_is_told_that_it_is_too_late(second: str) -> None:
    """Once an answer was taken, any other is a conflict, right or wrong, and changes nothing."""
    desk = Desk("127.0.0.1:7", "/callback", read_answer)
    headers = (
        ("host", "127.0.0.1:7"),
        ("origin", "http://127.0.0.1:7"),
        ("content-type", "application/json"),
    )
    statuses = [
        desk.reply(Request("POST", "/callback", headers, answer(fragment))).status
        for fragment in (RIGHT, second)
    ]

    assert statuses == [200, 409]
    assert desk.result() == RIGHT
    assert desk.refused == 0


@pytest.mark.parametrize("raw", HALVES)
def test_a_loop_that_is_closed_meanwhile_leaves_nothing(
    caplog: pytest.LogCaptureFixture, raw: bytes
) -> None:
    """A program that ends in the middle of a wait, and of a request, ends quietly."""
    files = open_files()

    async def main() -> tuple[asyncio.Task[str], socket.socket]:
        there = Waiting(receiver := await LoopbackReceiver().__aenter__())
        client = socket.create_connection((there.host, there.port))
        client.sendall(raw)
        await there.send(visit())  # by now the one before it is being served
        assert receiver._connections
        return there.task, client

    task, client = asyncio.run(main(), debug=True)
    client.close()

    assert task.cancelled()
    assert open_files() == files
    gc.collect()
    no_records(caplog)
