"""The clock of the other tests."""

import asyncio

import pytest

from tests.support.virtual_time import now, run


def test_hours_pass_at_once_and_exactly() -> None:
    """Who sleeps wakes at the very second, in the order of the clock, whatever the numbers are."""

    async def scenario() -> list[tuple[float, float]]:
        woken: list[tuple[float, float]] = []

        async def sleep(seconds: float) -> None:
            await asyncio.sleep(seconds)
            woken.append((seconds, now()))

        await asyncio.gather(*map(sleep, (86400.0 * 365, 0.1, 3600.1, 0.3)))
        return woken

    assert run(scenario()) == [(end, end) for end in (0.1, 0.3, 3600.1, 86400.0 * 365)]


def test_no_time_passes_while_there_is_something_to_do() -> None:
    """The clock stands still for whoever does not wait for it."""

    async def scenario() -> float:
        for _ in range(1000):
            await asyncio.sleep(0)
        return now()

    assert run(scenario()) == 0.0


def test_waiting_for_nothing_is_an_error() -> None:
    """A deadlock ends the test instead of hanging."""

    async def scenario() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="nothing will ever happen"):
        run(scenario())
