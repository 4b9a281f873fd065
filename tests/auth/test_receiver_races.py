"""Connections and requests at the very moment in which the wait begins or ends."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from gateway_sdk.auth import LoopbackReceiver
from gateway_sdk.auth._callback_handler import CallbackHandler, CallbackRequest, StartAddress
from tests.auth.traces import no_traces
from tests.auth.visits import (
    AUTHORIZATION_URL,
    RIGHT,
    WRONG,
    Waiting,
    answer,
    post,
    read_answer,
    visit,
    waiting,
)


@pytest.fixture(autouse=True)
async def _no_traces(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    async with no_traces(caplog):
        yield


@pytest.mark.parametrize("redirect_uri", ["http://127.0.0.1:0/callback", "http://localhost:0/"])
@pytest.mark.parametrize("turns", range(5))
async def test_a_wait_can_be_cancelled_while_it_begins(redirect_uri: str, turns: int) -> None:
    """At any moment of the cancellation, the sockets are removed from the event loop and closed."""
    async with LoopbackReceiver(redirect_uri) as receiver:
        receiver.start_url(AUTHORIZATION_URL)
        descriptors = [listener.fileno() for listener in receiver._sockets]
        task = asyncio.create_task(receiver.receive(read_answer))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

        assert task.cancelled()
    loop = asyncio.get_running_loop()
    assert not any(loop.remove_reader(descriptor) for descriptor in descriptors)


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_at_the_end_of_the_wait_is_closed(turns: int) -> None:
    """A connection that is accepted in the same turn as the valid response is closed."""
    async with waiting() as there:
        line = await there.connect()
        await there.send(visit())  # by now the previous one is being served
        await line.send(post(answer(RIGHT)))
        for _ in range(turns):
            await asyncio.sleep(0)
        with suppress(ConnectionRefusedError):
            late = socket.create_connection((there.host, there.port))
            await must_be_cut(there, late)
        assert await there.task == RIGHT


async def must_be_cut(there: Waiting, late: socket.socket) -> None:
    """Require that a connection is not served after the wait, and has been closed."""
    with late:
        await asyncio.wait([there.task])
        for _ in range(4):  # turns in which it would be served
            await asyncio.sleep(0)
        with suppress(ConnectionError):
            assert late.recv(1) == b""


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_while_the_wait_is_cancelled_is_closed(turns: int) -> None:
    """So is a connection that is accepted in the turn in which the waiting task is cancelled."""
    async with waiting() as there:
        await there.send(visit())
        late = socket.create_connection((there.host, there.port))
        for _ in range(turns):
            await asyncio.sleep(0)
        there.task.cancel()
        await must_be_cut(there, late)


async def test_an_event_loop_may_have_no_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """On an event loop without readers, as on Windows, the wait ends too."""

    def remove_reader(descriptor: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(asyncio.get_running_loop(), "remove_reader", remove_reader)
    async with waiting() as there:
        await there.must_still_wait()
        with pytest.raises(ConnectionRefusedError):
            await there.connect()


async def test_of_two_answers_at_once_one_counts() -> None:
    """The second one gets the reply that it was too late, or is closed; it is never read."""
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
    """After the first response, any other one is a 409, valid or not, and changes nothing."""
    start = StartAddress(AUTHORIZATION_URL, "/callback")
    handler = CallbackHandler("127.0.0.1:7", "/callback", [start], read_answer)
    opened = handler.reply_to_head(CallbackRequest("GET", start.path, (("host", "127.0.0.1:7"),)))
    assert opened is not None
    headers = (
        ("host", "127.0.0.1:7"),
        ("origin", "http://127.0.0.1:7"),
        ("content-type", "application/json"),
        ("cookie", opened.headers["Set-Cookie"].partition(";")[0]),
    )
    requests = [
        CallbackRequest("POST", "/callback", headers, answer(fragment))
        for fragment in (RIGHT, second, second)
    ]
    assert [handler.reply_to_head(request) for request in requests[:2]] == [None, None]
    statuses = [handler.reply_to_body(request).status for request in requests[:2]]
    late = handler.reply_to_head(requests[2])

    assert [*statuses, late and late.status] == [200, 409, 409]
    assert handler.result() == RIGHT
    assert handler.refused == 0
