"""What chunks of a process share, in virtual time."""

import asyncio
from typing import Any

import pytest

from gateway_sdk.bulk._limit import FixedLimit
from gateway_sdk.errors import PlanStoreError
from gateway_sdk.fleet._outage import outlast
from gateway_sdk.fleet._pool import run_all
from gateway_sdk.fleet._shared import LoginWait, PerLoop
from tests.support.virtual_time import now, run


def test_calls_without_a_token_wait_together(caplog: Any) -> None:
    """Longer each time, up to a minute; a call that is cancelled does not end the others' wait."""

    async def wait() -> list[float]:
        login = LoginWait()
        times: list[float] = []
        for _ in range(9):
            calls = [asyncio.create_task(login.nap()) for _ in range(3)]
            await asyncio.sleep(0)
            calls[0].cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            times.append(now())
        login.has_token()
        login.has_token()
        await login.nap()
        return [*times, now()]

    assert run(wait()) == [1, 3, 7, 15, 31, 63, 123, 183, 243, 244]
    assert caplog.text.count("there is a token again") == 1


def test_each_event_loop_has_its_own() -> None:
    """Some engines make a loop for each chunk."""
    per_loop = PerLoop(lambda: FixedLimit(2))

    async def get() -> Any:
        assert per_loop.get() is per_loop.get()
        return per_loop.get()

    assert run(get()) is not run(get())


def test_places_are_shared_and_given_back() -> None:
    """Each run that joined is woken, but not by a wait, which keeps its place."""
    limit = PerLoop(lambda: FixedLimit(2))
    woken: list[str] = []

    async def use() -> None:
        shared = limit.get().limit
        wakes = [lambda name=name: woken.append(name) for name in "ab"]
        for wake in wakes:
            shared.join(wake)
        first, second = shared.begin(wakes[0]), shared.begin(wakes[1])
        assert (shared.size, shared.has_room(0)) == (2, False)
        first.retry_scheduled(1.0)
        first.ended(None)
        shared.leave(wakes[0])
        second.ended(None)
        assert shared.has_room(0)

    run(use())
    assert woken == ["a", "b", "b"]


def test_an_outage_is_outlasted(caplog: Any) -> None:
    """With longer and longer waits, and told once."""
    errors = [ConnectionError("secret")] * 8

    async def attempt() -> float:
        if errors:
            raise errors.pop()
        return now()

    def is_outage(error: Exception) -> bool:
        return isinstance(error, ConnectionError)

    took = run(outlast(attempt, is_outage=is_outage, what="the store"))

    assert took == pytest.approx(0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 3 * 2)
    assert caplog.text.count("the store does not answer (ConnectionError): waiting") == 1
    assert caplog.text.count("the store answers again") == 1


def test_a_long_outage_is_an_error() -> None:
    """It says what to do, and nothing of the error's own text."""

    async def attempt() -> None:
        raise ConnectionError("secret")

    async def outage() -> float:
        text = r"the store has not answered for 60 s \(ConnectionError\): what is stored stays"
        with pytest.raises(PlanStoreError, match=text):
            await outlast(attempt, is_outage=lambda _: True, what="the store")
        return now()

    assert 58 <= run(outage()) <= 60


def test_other_errors_are_not_waited_for() -> None:
    """They are raised at once."""

    async def attempt() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        run(outlast(attempt, is_outage=lambda _: False, what="the store"))


def test_a_few_coroutines_run_at_a_time() -> None:
    """Others are taken as they end; the first error cancels the rest."""
    most = running = ended = 0

    async def work(number: int) -> None:
        nonlocal most, running, ended
        running += 1
        most = max(most, running)
        try:
            await asyncio.sleep(1 + number % 2)
            if number == 20:
                raise KeyError(number)
            ended += 1
        finally:
            running -= 1

    async def calls(count: int) -> Any:
        for number in range(count):
            yield work(number)

    assert run(run_all(calls(10), at_once=3)) == 10
    assert (most, running, ended) == (3, 0, 10)
    with pytest.raises(KeyError):
        run(run_all(calls(30), at_once=3))
    assert running == 0
    with pytest.raises(KeyError):
        run(run_all(calls(21), at_once=30))
    assert running == 0
