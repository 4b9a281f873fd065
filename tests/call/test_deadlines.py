"""Deadlines of many calls, on busy loops, on uvloop and inside the scopes of anyio."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

import anyio
import httpx
import pytest

from gateway_sdk import DeadlineExceededError, GatewaySession, Outcome, RateLimit, SessionStateError
from gateway_sdk._call.deadline import CallScope, CallsInFlight
from gateway_sdk._transport.connection import Connection
from gateway_sdk.rate_limit import RateLimiter
from tests.support.contexts import LOOPS
from tests.support.failing_server import FailingServer
from tests.support.failing_steps import serve
from tests.support.raw_server import OK, Server, raw_server
from tests.support.truth import open_session
from tests.support.virtual_time import in_virtual_time, now, run as run_virtually
from tests.support.witness import Witness


class Silent(httpx.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.get_running_loop().create_future()
        raise AssertionError(request)


class Busy(httpx.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        while request:  # noqa: ASYNC110 - it is what the test needs
            await asyncio.sleep(0)
        raise AssertionError


def session(url: str = "https://gateway.test", **options: Any) -> GatewaySession:
    options.setdefault("transport", Silent())
    return GatewaySession(url, access_token="t", retry=None, **options)


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Any:
    def run(work: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            return runner.run(work)

    return run


def test_calls_whose_deadlines_pass_together_end_together(run: Any) -> None:
    """Not one in each turn of the event loop, which then takes seconds for some thousand calls."""

    async def work() -> int:
        turns = [0]
        loop = asyncio.get_running_loop()

        def count() -> None:
            turns[0] += 1
            loop.call_soon(count)

        async with session(deadline=0.2) as gateway:
            calls = [
                asyncio.create_task(gateway.wallet.spot_trading_available_balance())
                for _ in range(1000)
            ]
            await asyncio.sleep(0.01)
            time.sleep(0.3)  # noqa: ASYNC251 - until all deadlines are over
            loop.call_soon(count)
            ends = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(end) for end in ends} == {DeadlineExceededError}
        return turns[0]

    assert run(work()) < 50


@pytest.mark.parametrize("turns", [1, 3, 5, 8, 12])
def test_no_write_leaves_after_its_deadline(
    run: Any, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop that was busy past the deadlines: the real clock is asked before the first byte."""
    written: list[float] = []
    write = Connection.write

    def noting(connection: Connection, data: bytes) -> None:
        written.append(time.monotonic())
        write(connection, data)

    monkeypatch.setattr(Connection, "write", noting)

    async def work() -> float:
        async with (
            raw_server(Server().handle) as url,
            session(url, deadline=0.05, transport=None) as gateway,
        ):
            calls = [asyncio.create_task(gateway.aml.upload_document(b"x")) for _ in range(200)]
            for _ in range(turns):
                await asyncio.sleep(0)
            time.sleep(0.1)  # noqa: ASYNC251 - code that holds the event loop
            over = time.monotonic()
            ends = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(end) for end in ends} <= {DeadlineExceededError, dict}
        unsent = [end for end in ends if getattr(end, "outcome", None) is Outcome.NOT_SENT]
        assert len(unsent) + len(written) == len(calls)
        return over

    over = run(work())

    assert [moment for moment in written if moment > over] == []


@pytest.fixture
def late_url() -> Iterator[tuple[str, threading.Event, Callable[[], None]]]:
    """Return an address, what is set by a request there, and what waits for its reply."""
    asked, held, replied = threading.Event(), threading.Event(), threading.Event()

    def serve() -> None:
        peer, _ = listening.accept()
        with peer:
            peer.recv(2**16)
            asked.set()
            held.wait(10)
            peer.sendall(OK)
            replied.set()
            peer.recv(1)

    def reply() -> None:
        held.set()
        replied.wait(10)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        server = threading.Thread(target=serve)
        server.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", asked, reply
        server.join()


@pytest.mark.parametrize("ends", ["deadline", "scope"])
def test_what_came_while_the_loop_was_held_counts(
    run: Any, ends: str, late_url: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A reply that came in time is worth more than the deadline that the loop sees with it."""
    url, asked, reply = late_url
    limit = asyncio.Timeout(None)

    async def write(gateway: GatewaySession) -> object:
        async with limit:
            return await gateway.aml.upload_document(b"x")

    async def work() -> object:
        async with session(url, transport=None) as gateway:
            writing = asyncio.create_task(write(gateway))
            await asyncio.to_thread(asked.wait, 10)
            reply()
            due = asyncio.get_running_loop().time() + 0.01
            if ends == "scope":
                limit.reschedule(due)
            else:
                calls = gateway._caller.shared.calls
                for scope in calls.scopes:
                    scope.when = due
                calls._look_at(due)
            time.sleep(0.05)  # noqa: ASYNC251 - code that holds the event loop
            return await writing

    if ends == "deadline":
        assert run(work()) == {}
    else:
        with pytest.raises(TimeoutError):
            run(work())
        assert "upload_document: the gateway did it" in caplog.text


def test_no_cancellation_leaks_out_of_a_scope_of_anyio(run: Any) -> None:
    """The scope and the call end in the same turn: one of the two takes the cancellation."""

    async def one(gateway: GatewaySession, seconds: float) -> str:
        with anyio.move_on_after(seconds):
            try:
                await gateway.wallet.spot_trading_available_balance()
            except DeadlineExceededError:
                return "deadline"
        return "scope"

    async def work(transport: httpx.AsyncBaseTransport, earlier: float) -> None:
        async with session(deadline=0.02, transport=transport) as gateway:
            ends = asyncio.gather(
                *(one(gateway, 0.02 - earlier) for _ in range(100)), return_exceptions=True
            )
            await asyncio.sleep(0)
            time.sleep(0.05)  # noqa: ASYNC251 - both are over when the loop looks again
            assert set(await ends) <= {"deadline", "scope"}

    for earlier in (0.01, 0.001, 0.0, -0.001, -0.01):
        run(work(Silent(), earlier))
        run(work(Busy(), earlier))


async def call(calls: CallsInFlight, deadline: float | None, lasts: float) -> float | None:
    try:
        with CallScope(calls, deadline):
            await asyncio.sleep(lasts)
    except DeadlineExceededError:
        return now()
    return None


@pytest.mark.parametrize("deadlines", [(10.0, 10.0, 10.0), (30.0, 20.0, 5.0), (5.0, None, 10.0)])
def test_each_call_ends_by_its_own_deadline(deadlines: tuple[float | None, ...]) -> None:
    async def work() -> list[float | None]:
        calls, tasks = CallsInFlight(), []
        for deadline in deadlines:
            tasks.append(asyncio.create_task(call(calls, deadline, 1000.0)))
            # This one ends long before, and must not end the others' time.
            tasks.append(asyncio.create_task(call(calls, deadline, 1.0)))
            await asyncio.sleep(3)
        return await asyncio.gather(*tasks)

    ends = run_virtually(work())
    assert ends[::2] == [
        None if deadline is None else number * 3 + deadline
        for number, deadline in enumerate(deadlines)
    ]
    assert ends[1::2] == [None, None, None]


@in_virtual_time
async def test_no_timer_is_left_when_all_calls_are_cut() -> None:
    calls = CallsInFlight()
    task = asyncio.create_task(call(calls, 10.0, 1000.0))
    await asyncio.sleep(1)
    calls.cut()
    with pytest.raises(SessionStateError, match="closed before the reply"):
        await task
    scheduled: Any = asyncio.get_running_loop()
    assert not [timer for timer in scheduled._scheduled if not timer.cancelled()]


@in_virtual_time
async def test_a_closer_that_is_cancelled_during_the_cut_leaves_the_others_waiting() -> None:
    """The calls that were cut have their second to end: closing waits for them."""

    async def tidy_up() -> None:
        with CallScope(calls, None):
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(0.5)

    calls = CallsInFlight()
    tidying = asyncio.create_task(tidy_up())
    await asyncio.sleep(1)
    asyncio.get_running_loop().call_at(2.2, calls.cut)  # of the last closer, when it is cancelled
    await calls.end(1.0)

    assert now() == 2.5
    with pytest.raises(SessionStateError):
        await tidying


@in_virtual_time
async def test_a_deadline_that_comes_while_a_call_is_cut_changes_nothing() -> None:
    async def tidy_up(calls: CallsInFlight) -> None:
        with CallScope(calls, 10.0) as scope:
            asyncio.get_running_loop().call_at(9.0, calls.cut)
            asyncio.get_running_loop().call_at(10.0, scope.end)
            try:
                await asyncio.sleep(1000)
            finally:
                assert now() == 9.0
                await asyncio.sleep(5)

    broken: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda *what: broken.append(what))
    calls = CallsInFlight()
    with pytest.raises(SessionStateError):
        await tidy_up(calls)
    assert now() == 14.0
    assert not broken
    assert not calls.scopes


@in_virtual_time
async def test_a_cancellation_beside_the_deadline_is_not_taken_for_it() -> None:
    calls = CallsInFlight()
    task = asyncio.create_task(call(calls, 10.0, 1000.0))
    asyncio.get_running_loop().call_at(10.0, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not calls.scopes


@pytest.mark.parametrize("deadline", [9.0, None])
@in_virtual_time
async def test_a_call_ends_as_soon_as_a_cancellation_of_others_is_taken_back(
    deadline: float | None,
) -> None:
    """A time-out of the user has fired, and tidies up, when the deadline or the cut comes."""
    loop: Any = asyncio.get_running_loop()
    calls = CallsInFlight()

    async def work() -> None:
        with CallScope(calls, deadline):
            loop.call_at(10.0, calls.cut)
            with suppress(TimeoutError):
                async with asyncio.timeout(8):
                    try:
                        await asyncio.sleep(1000)
                    finally:
                        await asyncio.sleep(3)
            await asyncio.sleep(1000)

    with pytest.raises(DeadlineExceededError if deadline else SessionStateError):
        await work()
    assert 11.0 <= now() < 11.02
    assert not [timer for timer in loop._scheduled if not timer.cancelled()]


async def test_a_transport_of_the_user_gets_nothing_after_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its time is looked at after the last wait, not only before it."""

    async def enter(_: RateLimiter) -> None:
        time.sleep(0.1)  # noqa: ASYNC251 - code that holds the event loop

    monkeypatch.setattr(RateLimiter, "enter", enter)
    async with session(deadline=0.05, rate_limit=RateLimit(1)) as gateway:
        with pytest.raises(DeadlineExceededError) as caught:
            await gateway.aml.upload_document(b"x")

    assert caught.value.outcome is Outcome.NOT_SENT


async def test_nothing_is_sent_after_a_deadline_that_passed_unseen() -> None:
    """The event loop was busy, so that the call did not end in time; it does before it is sent."""
    witness, seconds = Witness(), [0.0]

    async def token() -> str:
        time.sleep(seconds[0])  # noqa: ASYNC251 - code that holds the event loop
        return "t"

    async with (
        FailingServer(serve) as server,
        open_session(server.url, witness, access_token=token, deadline=0.4) as gateway,
    ):
        # Its timer is due before that of the next call.
        await witness.call(gateway, "order_history", "1")
        seconds[0] = 0.5
        record = await witness.call(gateway, "create_customer", "2")

    assert isinstance(record.error, DeadlineExceededError)
    assert record.outcome is Outcome.NOT_SENT
    assert not server.of("2")
