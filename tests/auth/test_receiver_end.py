"""How the wait for a response ends, and that it leaves no socket and no task."""

import asyncio
import gc
import json
import socket
import threading
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway_sdk.auth import LoopbackReceiver, _kept_ports, _loopback
from gateway_sdk.errors import (
    AuthorizationDeniedError,
    LoginError,
    LoginTimeoutError,
    MalformedResponseError,
    ReceiverUnavailableError,
)
from tests.auth.traces import no_records, no_traces, open_files, release_ports
from tests.auth.visits import (
    AUTHORIZATION_URL,
    RIGHT,
    Waiting,
    answer,
    is_refused,
    names_of,
    post,
    read_answer,
    visit,
    waiting,
)
from tests.support.ports import free_port

HALVES = [b"", b"GET /callb", post(b"", {"Content-Length": "9"}), visit()]
"""What a connection may have sent when the wait ends: the last one has had its reply."""


@pytest.fixture(autouse=True)
async def _no_traces(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    async with no_traces(caplog):
        yield


async def must_be_closed(there: Waiting) -> None:
    """Require that no socket listens, no connection is served, and the port is free again."""
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


ENDS: dict[str, type[BaseException]] = {
    "a time-out": LoginTimeoutError,
    "a cancellation": asyncio.CancelledError,
    "a second opening": LoginError,
}


async def end(there: Waiting, how: str) -> None:
    """Let a wait end without a response."""
    await there.open()
    await open_halves(there)
    if how == "a cancellation":
        there.task.cancel()
    elif how == "a second opening":
        await there.send(visit(target=there.start))
    with pytest.raises(ENDS[how]):
        await there.task


@pytest.mark.parametrize("redirect_uri", ["http://127.0.0.1:0/callback", "http://localhost:0/a"])
@pytest.mark.parametrize("how", ENDS)
async def test_the_port_is_kept_after_an_end_without_response(redirect_uri: str, how: str) -> None:
    """Nobody else can listen there, and what a tab still sends is thrown away."""
    timeout = 0.2 if how == "a time-out" else None
    async with waiting(redirect_uri, timeout=timeout) as there:
        await end(there, how)
        path = f"/{redirect_uri.rpartition('/')[2]}"
        for host, port in there.names:
            with pytest.raises(ReceiverUnavailableError, match="is in use"):
                _loopback.listen(httpx.URL(f"http://any:{port}"), host)
            for _ in range(2):
                assert (await there.send(visit(target=path), host=host)).status == 200
                late = await there.send(post(answer(RIGHT), target=path), host=host)
                assert (late.status, b"login has ended" in late.body) == (409, True)
                again = await there.send(visit(target=there.start), host=host)
                assert (again.status, "Location" in again.headers) == (410, False)


async def test_the_next_login_takes_a_kept_port_over() -> None:
    """A fixed port is there for the next login of the process, without a moment between."""
    redirect_uri = f"http://127.0.0.1:{free_port()}/callback"
    for _ in range(3):
        async with waiting(redirect_uri) as there:
            await end(there, "a second opening")
        assert _kept_ports.is_any_kept()
    async with waiting(redirect_uri) as there:
        assert not _kept_ports.is_any_kept()
        await there.must_still_wait()
        await must_be_closed(there)


async def test_ports_are_kept_for_some_minutes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then they are free again; `wait` returns with the last one."""
    monkeypatch.setattr(_kept_ports, "SECONDS", 0.2)
    async with waiting() as there:
        await end(there, "a cancellation")
        await asyncio.to_thread(_kept_ports.wait)
        await must_be_closed(there)


async def test_a_program_keeps_a_few_ports_only() -> None:
    """However many logins it cancels: one more frees the oldest, and they have one thread."""
    seen: list[Waiting] = []
    for _ in range(_kept_ports.MOST + 2):
        async with waiting() as there:
            await end(there, "a cancellation")
        seen.append(there)
    assert [is_refused(there.host, there.port) for there in seen] == [
        *[True] * 2,
        *[False] * _kept_ports.MOST,
    ]
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("gateway_sdk-ports") == 1


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
    _kept_ports._run(asyncio.sleep(0))
    files = open_files()

    async def main() -> tuple[asyncio.Task[str], socket.socket]:
        asyncio.get_running_loop().slow_callback_duration = 60  # slow steps are normal
        there = Waiting(await LoopbackReceiver().__aenter__())
        client = socket.create_connection((there.host, there.port))
        client.sendall(raw)
        await there.send(visit())  # by now the previous one is being served
        return there.task, client

    task, client = asyncio.run(main(), debug=True)
    client.close()
    release_ports()

    assert task.cancelled()
    assert open_files() == files
    gc.collect()
    no_records(caplog)
