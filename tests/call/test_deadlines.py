"""Deadlines of many calls, on busy loops, on uvloop and inside the scopes of anyio."""

import asyncio
import sys
import time
from collections.abc import Coroutine
from typing import Any

import anyio
import httpx
import pytest

from gateway_sdk import DeadlineExceededError, GatewaySession, Outcome
from gateway_sdk._transport.connection import Connection
from tests.support.raw_server import Server, raw_server

LOOPS = {"asyncio": asyncio.new_event_loop}
if sys.platform != "win32":
    import uvloop

    LOOPS["uvloop"] = uvloop.new_event_loop


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


def test_a_deadline_cancels_nobody_elses_code(run: Any) -> None:
    async def caller(gateway: GatewaySession, number: int) -> type[BaseException] | None:
        view = gateway.with_options(deadline=0.0001 * (number % 20 + 1))
        try:
            await view.wallet.spot_trading_available_balance()
        except DeadlineExceededError as error:
            await asyncio.sleep(0.05)  # the caller's own code, beyond the deadline
            return type(error)
        return None

    async def work() -> None:
        async with session() as gateway:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(caller(gateway, number)) for number in range(400)]
            assert {task.result() for task in tasks} == {DeadlineExceededError}
            assert not gateway._caller.shared.calls.scopes

    run(work())


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
