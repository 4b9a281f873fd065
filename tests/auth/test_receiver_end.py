"""How the wait for a response ends, and that it leaves no socket and no task."""

import asyncio
import gc
import json
import socket
from collections.abc import AsyncIterator

import pytest

from gateway_sdk.auth import LoopbackReceiver
from gateway_sdk.errors import AuthorizationDeniedError, LoginTimeoutError, MalformedResponseError
from tests.auth.traces import no_records, no_traces, open_files
from tests.auth.visits import (
    AUTHORIZATION_URL,
    RIGHT,
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
    """Require that no socket listens, no connection is served, and the port is free again."""
    assert there.receiver._connections == {}
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(there.host, there.port)
    async with LoopbackReceiver(there.receiver.redirect_uri):
        pass


async def open_halves(there: Waiting) -> None:
    """Open connections whose requests are not complete."""
    for raw in HALVES:
        line = await there.connect()
        await line.send(raw)
    await there.send(visit())


async def test_the_port_is_closed_with_the_answer() -> None:
    """A valid response ends the wait, closes the port and cuts all other connections."""
    async with waiting() as there:
        await open_halves(there)
        await there.must_still_wait()
        await must_be_closed(there)


async def test_the_port_is_closed_with_a_time_out() -> None:
    async with waiting(timeout=0.01) as there:
        with pytest.raises(LoginTimeoutError):
            await there.task
        await must_be_closed(there)


async def test_the_port_is_closed_with_a_cancellation() -> None:
    """A cancellation of the waiting task does the same, and stays a cancellation."""
    async with waiting() as there:
        await open_halves(there)
        there.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await there.task
        await must_be_closed(there)


async def test_the_port_is_closed_by_leaving() -> None:
    """A receiver that is left without a wait stops listening."""
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
async def test_an_error_in_reading_the_response_ends_the_wait(error: Exception, text: str) -> None:
    """The caller gets the error unchanged, and the page shows the part that its user may know."""

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
    """A caller's own time-out stays a TimeoutError, not a LoginTimeoutError."""
    async with LoopbackReceiver() as receiver:
        receiver.start_url(AUTHORIZATION_URL)
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.01):
                await receiver.receive(read_answer, timeout=60)

    assert type(caught.value) is TimeoutError


async def test_a_browser_that_disconnects_has_delivered_its_response() -> None:
    """A response ends the wait even if the browser does not read the reply."""
    async with waiting() as there:
        line = await there.connect()
        await line.send(post(answer(RIGHT)))
        await line.close()

        assert await there.task == RIGHT


async def test_a_repeated_response_finds_the_port_closed() -> None:
    """After the valid response, the same one is refused: the port is closed."""
    async with waiting() as there:
        await there.must_still_wait()
        with pytest.raises(ConnectionRefusedError):
            await there.hand_in()


@pytest.mark.parametrize("raw", HALVES)
def test_a_loop_that_is_closed_meanwhile_leaves_nothing(
    caplog: pytest.LogCaptureFixture, raw: bytes
) -> None:
    """A program that ends during a wait and a request ends without an error message."""
    files = open_files()

    async def main() -> tuple[asyncio.Task[str], socket.socket]:
        asyncio.get_running_loop().slow_callback_duration = 60  # slow steps are normal
        there = Waiting(receiver := await LoopbackReceiver().__aenter__())
        client = socket.create_connection((there.host, there.port))
        client.sendall(raw)
        await there.send(visit())  # by now the previous one is being served
        assert receiver._connections
        return there.task, client

    task, client = asyncio.run(main(), debug=True)
    client.close()

    assert task.cancelled()
    assert open_files() == files
    gc.collect()
    no_records(caplog)
