"""How the wait for a response ends, at any moment, and that it leaves no socket and no task."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from unittest.mock import Mock

import httpx
import pytest

from gateway_sdk.auth import LoopbackReceiver
from gateway_sdk.auth._login import server
from gateway_sdk.errors import (
    AuthorizationDeniedError,
    LoginError,
    LoginTimeoutError,
    ReceiverUnavailableError,
)
from tests.auth.visits import (
    AUTHORIZATION_URL,
    RIGHT,
    WRONG,
    Waiting,
    answer,
    is_refused,
    post,
    read_answer,
    release_ports,
    visit,
    waiting,
)
from tests.support.failing_steps import turns
from tests.support.ports import free_port

pytestmark = pytest.mark.usefixtures("traceless")

HALVES = [b"", b"GET /callb", post(b"", {"Content-Length": "9"}), visit()]
"""What a connection may have sent when the wait ends: the last one has had its reply."""

ENDS: dict[str, type[BaseException]] = {
    "a time-out": LoginTimeoutError,
    "a cancellation": asyncio.CancelledError,
    "a second opening": LoginError,
}


async def must_be_closed(there: Waiting) -> None:
    """Require that no socket listens, no connection is served, and the port is free again."""
    with pytest.raises(ConnectionRefusedError):
        await there.connect()
    async with LoopbackReceiver(there.receiver.redirect_uri):
        pass


async def open_halves(there: Waiting) -> None:
    for raw in HALVES:
        await (await there.connect()).send(raw)
    await there.send(visit())


async def end(there: Waiting, how: str, scopes: Sequence[asyncio.Timeout] = ()) -> None:
    """Let a wait end without a response; a time-out needs the scopes that `note_scopes` notes."""
    await there.open()
    await open_halves(there)
    if how == "a cancellation":
        there.task.cancel()
    elif how == "a time-out":
        scopes[0].reschedule(asyncio.get_running_loop().time())
    else:
        await there.send(visit(target=there.start))
    with pytest.raises(ENDS[how]):
        await there.task


def note_scopes(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.Timeout]:
    scopes: list[asyncio.Timeout] = []
    timeout = asyncio.timeout

    def noted(delay: float | None) -> asyncio.Timeout:
        scopes.append(timeout(delay))
        return scopes[-1]

    monkeypatch.setattr("gateway_sdk.auth._login.login.asyncio.timeout", noted)
    return scopes


async def test_the_port_is_closed_with_the_response() -> None:
    """All other connections are cut, and the same response again finds nobody."""
    async with waiting() as there:
        await open_halves(there)
        await there.must_still_wait()
        await must_be_closed(there)


@pytest.mark.parametrize("redirect_uri", ["http://127.0.0.1:0/callback", "http://localhost:0/a"])
@pytest.mark.parametrize("how", ENDS)
async def test_the_port_is_kept_after_an_end_without_response(
    monkeypatch: pytest.MonkeyPatch, redirect_uri: str, how: str
) -> None:
    """Nobody else can listen there, and what a tab still sends is thrown away."""
    scopes = note_scopes(monkeypatch)
    async with waiting(redirect_uri, timeout=60) as there:
        await end(there, how, scopes)
        path = f"/{redirect_uri.rpartition('/')[2]}"
        for host, port in there.names:
            with pytest.raises(ReceiverUnavailableError, match="is in use"):
                server.listen(httpx.URL(f"http://any:{port}"), host)
            for _ in range(2):
                assert (await there.send(visit(target=path), host=host)).status == 200
                late = await there.send(post(answer(RIGHT), target=path), host=host)
                assert (late.status, b"login has ended" in late.body) == (409, True)
                again = await there.send(visit(target=there.start), host=host)
                assert (again.status, "Location" in again.headers) == (410, False)


@pytest.mark.parametrize("can_share", {server._CAN_SHARE, False})
async def test_the_next_login_takes_a_kept_port_over(
    monkeypatch: pytest.MonkeyPatch, can_share: bool
) -> None:
    """A fixed port is there for the next login of the process; on Windows it is opened again."""
    monkeypatch.setattr(server, "_CAN_SHARE", can_share)
    listening = Mock(wraps=server.listen)
    monkeypatch.setattr("gateway_sdk.auth._login.login.listen", listening)
    redirect_uri = f"http://127.0.0.1:{free_port()}/callback"
    for _ in range(3):
        async with waiting(redirect_uri) as there:
            await end(there, "a second opening")
        assert server.kept_ports
    async with waiting(redirect_uri) as there:
        assert not server.kept_ports
        assert listening.call_count == (1 if can_share else 4)
        await there.must_still_wait()
        await must_be_closed(there)


async def test_a_kept_port_may_be_gone_as_it_is_taken() -> None:
    """Its time is over, or a login in another thread has taken it: it is no port to take over."""
    async with waiting() as there:
        await end(there, "a second opening")
    (place,) = server.kept_ports
    for _ in range(2):
        server.close_all(server._run(server._take(place)))
    await must_be_closed(there)


async def test_ports_are_kept_for_some_minutes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "KEPT_SECONDS", 0.2)
    async with waiting() as there:
        await end(there, "a cancellation")
        await asyncio.to_thread(server.wait_for_kept_ports)
        await must_be_closed(there)


async def test_a_program_keeps_a_few_ports_only() -> None:
    """However many logins it cancels: one more frees the oldest, and they have one thread."""
    seen: list[Waiting] = []
    for _ in range(server.MOST_KEPT + 2):
        async with waiting() as there:
            await end(there, "a cancellation")
        seen.append(there)
    refused = [is_refused(there.host, there.port) for there in seen]
    assert refused == [*[True] * 2, *[False] * server.MOST_KEPT]
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("gateway_sdk-ports") == 1


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            AuthorizationDeniedError("the login was refused"),
            "The reason: the login was refused. ",
        ),
        (LookupError("CANARY"), "The reason: something went wrong. "),
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


@pytest.mark.parametrize(
    ("changes", "wrong", "told"),
    [
        ({}, 0, "s: no response came. If .* the redirect URI http://127.*/callback may not be reg"),
        ({}, 1, r"s: responses of other logins came \(1\)"),
        ({}, 2, r"s: responses of other logins came \(2\)"),
        ({"Cookie": "other=1"}, 0, "s: a response came without the login's cookie, from a browser"),
    ],
)
async def test_the_time_out_counts_what_was_refused(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], wrong: int, told: str
) -> None:
    """Its error has the number of responses of other logins, and no more."""
    scopes = note_scopes(monkeypatch)
    async with waiting(timeout=60) as there:
        await there.send(post(b"[]", changes))
        for _ in range(wrong):
            assert (await there.hand_in(WRONG)).status == 400
        scopes[0].reschedule(asyncio.get_running_loop().time())
        with pytest.raises(
            LoginTimeoutError, match=f"^the login was not finished within 60 {told}"
        ) as caught:
            await there.task
    error = caught.value
    assert (error.refused, error.__cause__, error.__suppress_context__) == (wrong, None, True)


async def test_a_response_at_the_last_moment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the page was told that the login succeeded, the wait does not end with a time-out."""
    scopes = note_scopes(monkeypatch)

    def finish(fragment: str, query: str) -> str:
        scopes[0].reschedule(0)
        return fragment

    async with waiting(finish=finish, timeout=60) as there:
        assert json.loads((await there.hand_in()).body)["good"] is True
        assert await there.task == RIGHT


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_response_ends_the_wait_whatever_its_browser_does_next(leaves: bool) -> None:
    """It may leave before the reply, or keep the connection open."""
    async with waiting() as there:
        line = await there.connect()
        await line.send(post(answer(RIGHT)))
        if leaves:
            await line.close()
        async with asyncio.timeout(5):
            assert await there.task == RIGHT


@pytest.mark.parametrize("redirect_uri", ["http://127.0.0.1:0/callback", "http://localhost:0/"])
@pytest.mark.parametrize("count", range(5))
async def test_a_wait_can_be_cancelled_while_it_begins(redirect_uri: str, count: int) -> None:
    """At any moment of the cancellation, the sockets are removed from the event loop and closed."""
    async with LoopbackReceiver(redirect_uri) as receiver:
        receiver.start_url(AUTHORIZATION_URL)
        descriptors = [listener.fileno() for listener in receiver._sockets]
        task = asyncio.create_task(receiver.receive(read_answer))
        await turns(count)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
    if os.name == "posix":
        loop = asyncio.get_running_loop()
        assert not any(loop.remove_reader(descriptor) for descriptor in descriptors)


@pytest.mark.parametrize("is_cancelled", [False, True])
@pytest.mark.parametrize("count", range(6))
async def test_a_connection_at_the_end_of_the_wait_is_closed(
    count: int, is_cancelled: bool
) -> None:
    """One that is accepted in the same turn as the response, or the cancellation, is not served."""
    async with waiting() as there:
        line = await there.connect()
        await there.send(visit())  # by now the previous one is being served
        if not is_cancelled:
            await line.send(post(answer(RIGHT)))
            await turns(count)
        with suppress(ConnectionRefusedError), socket.socket() as late:
            late.connect((there.host, there.port))
            if is_cancelled:
                await turns(count)
                there.task.cancel()
            await asyncio.wait([there.task])
            release_ports()
            await turns(4)  # in which it would be served
            with suppress(ConnectionError):
                assert late.recv(1) == b""
        assert is_cancelled or await there.task == RIGHT


async def test_an_event_loop_may_have_no_readers(monkeypatch: pytest.MonkeyPatch) -> None:

    def remove_reader(descriptor: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(asyncio.get_running_loop(), "remove_reader", remove_reader)
    async with waiting() as there:
        await there.must_still_wait()
        with pytest.raises(ConnectionRefusedError):
            await there.connect()


@pytest.mark.parametrize("raw", HALVES)
def test_a_loop_that_is_closed_meanwhile_leaves_nothing(raw: bytes) -> None:
    """A program that ends during a wait and a request ends without an error message."""

    async def main() -> tuple[asyncio.Task[str], socket.socket]:
        asyncio.get_running_loop().slow_callback_duration = 60  # slow steps are normal
        there = Waiting(await LoopbackReceiver().__aenter__())
        client = socket.create_connection((there.host, there.port))
        client.sendall(raw)
        await there.send(visit())  # by now the previous one is being served
        return there.task, client

    task, client = asyncio.run(main(), debug=True)
    client.close()
    assert task.cancelled()


LEFT = """
import asyncio, gc
from gateway_sdk.auth import ImplicitFlow, MemoryStore, SharedTokenSource, login
from gateway_sdk.auth._login import server

async def main():
    flow, shown = ImplicitFlow("https://login.test/authorize", "client"), asyncio.Event()
    start = lambda: login(flow, browser=False, show=lambda line: shown.set())
    call = asyncio.create_task(SharedTokenSource(MemoryStore(), start).token())
    await shown.wait()
    call.cancel()
    await asyncio.wait([call])
    return asyncio.all_tasks()

async def collect():
    gc.collect()

server._run(asyncio.sleep(0))
"""
BEHIND = "asyncio.new_event_loop().run_until_complete(main())"


@pytest.mark.parametrize(
    ("rest", "is_silent"),
    [
        ("asyncio.run(main())", True),
        (f"tasks = {BEHIND}", False),
        (f"{BEHIND}; server._run(collect())", False),
    ],
)
def test_a_login_that_its_callers_have_left_stops_no_program(rest: str, is_silent: bool) -> None:
    """Its loop may be left behind: it is destroyed as Python ends, or in the ports' thread."""
    command = [sys.executable, *(["-W", "error"] if is_silent else []), "-c", LEFT + rest]
    ended = subprocess.run(command, capture_output=True, check=True, timeout=60)
    assert ended.stdout == b""
    assert not (ended.stderr and is_silent)


FORKED = """
import asyncio, http.client, os, sys
from urllib.parse import urlsplit
from gateway_sdk.auth import ImplicitFlow, login
from gateway_sdk.auth._login import server

async def attempt(who, show=str):
    loop, opened = asyncio.get_running_loop(), asyncio.Event()

    def browser(url):
        client = http.client.HTTPConnection(urlsplit(url).netloc)
        client.request("GET", urlsplit(url).path)
        client.getresponse().read()
        loop.call_soon_threadsafe(opened.set)
        return True

    flow = ImplicitFlow("https://login.test/authorize", "client")
    call = asyncio.create_task(login(flow, redirect_uri=sys.argv[1], show=show, browser=browser))
    waiting = asyncio.create_task(opened.wait())
    await asyncio.wait([call, waiting], return_when=asyncio.FIRST_COMPLETED)
    for task in (call, waiting):
        task.cancel()
    (end, _) = await asyncio.gather(call, waiting, return_exceptions=True)
    print(who, type(end).__name__, flush=True)

def fork_once(text):
    if text.startswith("http") and not os.fork():
        os.read(asked, 1)
        os._exit(0)

(said, say), (asked, ask) = os.pipe(), os.pipe()
asyncio.run(attempt("parent", fork_once))
if os.fork():
    os.read(said, 1)
    (place,) = server.kept_ports
    server.close_all(server.take_port(place))
    asyncio.run(attempt("parent"))
    os.write(ask, b"!!")
    os.wait(), os.wait()
else:
    asyncio.run(attempt("child"))
    os.write(say, b"!")
    os.read(asked, 1)
"""


@pytest.mark.posix
def test_a_port_is_the_parents_after_a_fork() -> None:
    """Forks during and after a login neither hold its port, nor wait for a task of the parent."""
    command = [sys.executable, "-c", FORKED, f"http://127.0.0.1:{free_port()}/callback"]
    ended = subprocess.run(command, capture_output=True, check=True, timeout=60)
    wanted = [b"parent CancelledError", b"child ReceiverUnavailableError"]
    assert ended.stdout.splitlines() == [*wanted, wanted[0]]
