import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gateway_sdk._call.in_flight import CallsUnderWay
from tests.support.virtual_time import now, run


async def call(calls: CallsUnderWay, deadline: float | None, lasts: float) -> float | None:
    """Be a call that lasts so long; return when it was ended, or None if it ended by itself."""
    scope = calls.begin(deadline)
    try:
        async with scope:
            await asyncio.sleep(lasts)
    except TimeoutError:
        return now()
    finally:
        calls.end(scope)
    return None


def test_each_call_ends_by_its_own_deadline() -> None:
    """Calls that begin one after the other share a timer, and end one after the other."""

    async def work() -> list[float | None]:
        calls, tasks = CallsUnderWay(10.0), []
        for number in range(5):
            # Every other one ends long before, and must not end the others' time.
            lasts = 1.0 if number % 2 else 1000.0
            tasks.append(asyncio.create_task(call(calls, 10.0, lasts)))
            await asyncio.sleep(3)
        return await asyncio.gather(*tasks)

    assert run(work()) == [10.0, None, 16.0, None, 22.0]


@pytest.mark.parametrize(("deadline", "ended"), [(2.0, 2.0), (30.0, 30.0), (None, None)])
def test_a_call_may_have_another_deadline(deadline: float | None, ended: float | None) -> None:
    """What is not usual is kept to as well, beside a usual one."""

    async def work() -> tuple[float | None, float | None]:
        calls = CallsUnderWay(10.0)
        return await asyncio.gather(call(calls, deadline, 100.0), call(calls, 10.0, 100.0))

    other, usual = run(work())

    assert (other, usual) == (ended, 10.0)


def test_usual_calls_share_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of calls makes the event loop no more timers than one call does."""
    made = []

    async def work() -> None:
        loop, calls = asyncio.get_running_loop(), CallsUnderWay(600.0)
        call_at = loop.call_at

        def counting(when: float, callback: Callable[..., object], *args: Any) -> Any:
            made.append(when)
            return call_at(when, callback, *args)

        monkeypatch.setattr(loop, "call_at", counting)
        for _ in range(100):
            async with (scope := calls.begin(600.0)):
                pass
            calls.end(scope)

    run(work())

    assert made == [600.0]


def test_it_is_known_when_a_call_has_to_end() -> None:
    """Retries ask how much time is left, whichever way a call is ended."""

    async def work() -> list[float | None]:
        calls = CallsUnderWay(10.0)
        await asyncio.sleep(1)
        return [calls.end_of(calls.begin(deadline)) for deadline in (10.0, 4.0, None)]

    assert run(work()) == [11.0, 5.0, None]


def test_a_deadline_that_comes_while_a_call_is_cut_changes_nothing() -> None:
    """A call that tidies up beyond its deadline was cut, and is cut once."""

    async def tidy_up(calls: CallsUnderWay, scope: asyncio.Timeout) -> None:
        async with scope:
            asyncio.get_running_loop().call_at(9.0, calls.cut)
            try:
                await asyncio.sleep(1000)
            finally:
                assert now() == 9.0
                await asyncio.sleep(5)

    async def work() -> None:
        broken: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda *what: broken.append(what))
        calls = CallsUnderWay(10.0)
        scope = calls.begin(10.0)
        with pytest.raises(TimeoutError):
            await tidy_up(calls, scope)
        assert now() == 14.0
        assert not broken
        assert calls.was_cut(scope)
        assert len(calls) == 1
        calls.end(scope)
        assert len(calls) == 0

    run(work())


def test_nothing_is_left_in_the_event_loop() -> None:
    """A session that is closed has no timer that would keep anything."""

    async def work() -> list[asyncio.TimerHandle]:
        calls = CallsUnderWay(600.0)
        calls.forget()
        calls.end(calls.begin(600.0))
        calls.forget()
        timers: list[asyncio.TimerHandle] = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
        return [timer for timer in timers if not timer.cancelled()]

    assert run(work()) == []
