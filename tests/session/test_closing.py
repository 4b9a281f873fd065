"""Closing a session: idempotent, each caller's cancellation is its own, nothing stays open."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any
from unittest.mock import Mock

import httpx
import pytest

from gateway_sdk import Advice, GatewaySession, GatewayTransport, Outcome, SessionStateError
from gateway_sdk.auth import LoopbackReceiver
from tests.support.calls import CALLS
from tests.support.failing_steps import turns
from tests.support.virtual_time import in_virtual_time, now, run

DRAIN = 60.0
"""Seconds, of virtual time."""


class Recording(httpx.AsyncBaseTransport):
    def __init__(self, failure: Exception | None = None) -> None:
        self.taken = asyncio.Event()
        self.closed = 0
        self._failure = failure

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.taken.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def aclose(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        self.closed += 1
        if self._failure is not None:
            raise self._failure


def session(transport: httpx.AsyncBaseTransport) -> GatewaySession:
    return GatewaySession(
        "https://gateway.test", access_token="token", transport=transport, drain=DRAIN
    )


@asynccontextmanager
async def call_under_way(
    failure: Exception | None = None,
) -> AsyncIterator[tuple[GatewaySession, Recording, asyncio.Task[Any]]]:
    gc.freeze()  # only objects that are made from here on are checked
    loop, noise = asyncio.get_running_loop(), list[object]()
    loop.set_exception_handler(lambda _, context: noise.append(context))
    transport = Recording(failure)
    gateway = session(transport)
    call = asyncio.create_task(CALLS["order_history"](gateway))
    await transport.taken.wait()
    yield gateway, transport, call
    assert transport.closed == 1
    assert repr(gateway) == "<GatewaySession https://gateway.test (closed)>"
    await asyncio.wait([call])
    assert isinstance(call.exception(), SessionStateError)
    del call
    assert asyncio.all_tasks() == {asyncio.current_task()}
    gc.collect()
    assert noise == []


async def cancelled(task: asyncio.Task[None]) -> bool:
    task.cancel()
    await asyncio.wait([task])
    return task.cancelled()


@in_virtual_time
async def test_a_second_closer_does_not_see_the_cancellation_of_the_first() -> None:
    async with call_under_way() as (gateway, _, call):
        closers = [asyncio.create_task(gateway.aclose()) for _ in range(2)]
        await turns(2)
        assert await cancelled(closers[0])
        assert not call.done()
        await closers[1]
        assert now() == DRAIN


@pytest.mark.parametrize("together", [True, False])
@in_virtual_time
async def test_when_all_closers_are_cancelled_the_transport_is_closed(together: bool) -> None:
    async with call_under_way() as (gateway, transport, _):
        closers = [asyncio.create_task(gateway.aclose()) for _ in range(3)]
        await turns(2)
        for closer in closers:
            closer.cancel()
            await turns(not together)
        await asyncio.wait(closers)
        assert all(closer.cancelled() for closer in closers)
        assert transport.closed == 1  # already: the last one waited for it
        assert now() == 0.0


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("after", range(12))
@in_virtual_time
async def test_a_closing_that_is_cancelled_at_any_moment_closes(after: int, times: int) -> None:
    async with call_under_way() as (gateway, _, _):
        closer = asyncio.create_task(gateway.aclose())
        await turns(1)
        asyncio.get_running_loop().call_later(DRAIN / 2, gateway._caller.shared.calls.cut)
        if after > 6:  # else while it drains
            await asyncio.sleep(DRAIN / 2)
        await turns(after % 7)
        for _ in range(times):
            closer.cancel()
            await turns(1)
        await asyncio.wait([closer])
        await gateway.aclose()


@pytest.mark.parametrize("was_cancelled", [False, True])
@pytest.mark.parametrize("after", range(1, 5))
@in_virtual_time
async def test_a_closing_goes_on_when_others_cancel_all_tasks(
    after: int, was_cancelled: bool
) -> None:
    """As a signal handler may do; the one that closes the session is spared."""
    async with call_under_way() as (gateway, transport, call):

        async def close() -> None:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0 if not was_cancelled else DRAIN)
            await gateway.aclose()

        closer = asyncio.create_task(close())
        await turns(1)
        if was_cancelled:
            closer.cancel()
        await turns(after)
        for task in asyncio.all_tasks() - {call, closer, asyncio.current_task()}:
            task.cancel()
        await closer
        assert transport.closed == 1


@in_virtual_time
async def test_a_second_cancellation_ends_the_wait_and_not_the_closing() -> None:
    """A closer that is cancelled twice leaves at once; the transport is closed behind it."""
    async with call_under_way() as (gateway, transport, _):
        closer = asyncio.create_task(gateway.aclose())
        await turns(2)
        for _ in range(2):
            closer.cancel()
            await turns(1)
        assert closer.cancelled()
        assert transport.closed == 0
        await gateway.aclose()


@pytest.mark.parametrize("after", range(6))
@in_virtual_time
async def test_leaving_the_context_under_cancellation_closes(after: int) -> None:
    async with call_under_way() as (gateway, _, _):

        async def use() -> None:
            async with gateway:
                await asyncio.Event().wait()

        user = asyncio.create_task(use())
        await turns(1)
        user.cancel()
        await turns(1 + after)
        assert await cancelled(user)


@pytest.mark.parametrize("after", range(8))
def test_the_end_of_the_event_loop_closes_too(after: int) -> None:
    """The end of `asyncio.run` cancels every task, also one that was not begun; all is closed."""
    gc.freeze()
    transport = Recording()
    noise: list[object] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: noise.append(what))
        gateway = session(transport)
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(CALLS["order_history"](gateway))]
        await transport.taken.wait()
        tasks.extend(asyncio.create_task(gateway.aclose()) for _ in range(2))
        await turns(after)

    run(main())
    gc.collect()

    assert transport.closed == 1
    assert noise == []


@pytest.mark.parametrize("cancel", [False, True])
@in_virtual_time
async def test_a_transport_that_fails_to_close_is_told_once(cancel: bool) -> None:
    async with call_under_way(OSError("the user's own")) as (gateway, _, _):
        closers = [asyncio.create_task(gateway.aclose()) for _ in range(2)]
        await turns(2)
        for closer in closers if cancel else []:
            closer.cancel()
        ended = await asyncio.gather(*closers, return_exceptions=True)
        expected = asyncio.CancelledError if cancel else OSError
        assert [type(error) for error in ended] == [expected] * 2
        await gateway.aclose()


@pytest.mark.parametrize("opened", [True, False])
async def test_closing_at_once_is_free(opened: bool) -> None:
    gateway = GatewaySession("https://gateway.test", access_token="token")
    if opened:
        await gateway.__aenter__()
    await asyncio.gather(*(gateway.aclose() for _ in range(3)))

    assert repr(gateway).endswith("(closed)>")


@in_virtual_time
async def test_nothing_is_sent_after_the_closing_by_a_call_that_others_were_cancelling() -> None:
    async def token() -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                try:
                    await asyncio.sleep(1000)
                finally:  # it tidies up for longer than the session waits
                    await asyncio.sleep(100)
        return "token"

    transport = Recording()
    gateway = GatewaySession(
        "https://gateway.test", access_token=token, transport=transport, drain=0.0
    )
    call = asyncio.create_task(CALLS["order_history"](gateway))
    await asyncio.sleep(2)
    await gateway.aclose()

    with pytest.raises(SessionStateError):
        await call
    assert not transport.taken.is_set()


def test_a_closed_session_is_closed_in_every_event_loop() -> None:
    """Closing again where nothing is left needs no event loop of its own."""
    transport = Recording()
    gateway = session(transport)
    for _ in range(2):
        asyncio.run(gateway.aclose())

    assert transport.closed == 1


async def test_a_use_outside_of_a_call_says_that_nothing_was_sent() -> None:
    gateway, transport = session(Recording()), GatewayTransport()
    async with gateway:
        pass
    with pytest.raises(SessionStateError) as reopened:
        await gateway.__aenter__()
    with pytest.raises(SessionStateError) as no_loop:
        await asyncio.to_thread(session(Recording()).aclose().send, None)
    with pytest.raises(SessionStateError) as no_receiver:
        await LoopbackReceiver("http://127.0.0.1:0/callback").receive(Mock())
    transport._engines, transport._place = {"https://gateway.test": Mock()}, None
    with pytest.raises(SessionStateError) as elsewhere:
        await transport.aclose()

    errors = [it.value for it in (reopened, no_loop, no_receiver, elsewhere)]
    assert {it.outcome for it in errors} == {Outcome.NOT_SENT}
    assert [it.advice for it in errors] == [Advice.REPEAT, Advice.FIX, Advice.FIX, Advice.FIX]


@pytest.mark.parametrize(("seconds", "answers", "took"), [(0.5, 8, 0.5), (100, 0, 6)])
@in_virtual_time
async def test_a_session_that_is_closed_lets_questions_answer(
    seconds: float, answers: int, took: float
) -> None:
    """All at once, for as long as calls; and ends them, for a second."""
    asked, answered = list[str](), list[str]()

    async def function() -> str:
        asked.append("t")
        try:
            await asyncio.sleep(seconds)
            answered.append("t")
        except asyncio.CancelledError:
            await asyncio.sleep(100)
        return "t"

    transport = httpx.MockTransport(lambda _: httpx.Response(200, json={}))
    session = GatewaySession("https://gateway.example", access_token="t", transport=transport)
    views = [session.with_options(access_token=partial(function)) for _ in range(8)]
    calls = [asyncio.create_task(CALLS["order_history"](view)) for view in views]
    while len(asked) < len(calls):
        await turns(1)
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)
    await session.aclose()
    assert (len(answered), now()) == (answers, took)
