"""The number of calls at once that the gateway takes is found, kept, and found again."""

import asyncio
import itertools
import random
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any
from unittest.mock import AsyncMock, patch

import httpx
import pytest

from benchmarks import simulated
from gateway_sdk import RetryPolicy, bulk, errors
from gateway_sdk.bulk._limit import Controller, Pace
from gateway_sdk.bulk._statistics import Slot
from tests.bulk.runs import Memory, ask, list_countries, results_of, same
from tests.support import virtual_time


class Limited(httpx.AsyncBaseTransport):
    """Serves a number of requests at once, and replies 429 to the others."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.serving = self.most = 0
        self.log: list[tuple[float, int]] = []  # times and statuses

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.serving >= self._limit:
            self.log.append((virtual_time.now(), 429))
            return httpx.Response(429, headers={"Retry-After": "1"})
        self.serving += 1
        self.most = max(self.most, self.serving)
        await asyncio.sleep(0.1)
        self.serving -= 1
        self.log.append((virtual_time.now(), 200))
        return httpx.Response(200, json=[])


@pytest.fixture(autouse=True)
def same_waits() -> None:
    random.seed(1)


def load(gateway: Limited, items: int, **options: Any) -> None:
    results = ask(gateway, list_countries, items, **options)
    assert "deadline" in options or not [result for result in results if result.error]


def test_a_real_session_reports_what_its_retries_hide() -> None:
    gateway = Limited(6)

    load(gateway, 900, retry=RetryPolicy())

    statuses = [status for _, status in gateway.log]
    assert 429 in statuses
    assert statuses[-600:].count(429) <= 12


def test_a_stop_of_all_calls_is_over_when_it_ends() -> None:
    """The rate that it seems to prove is lowered once for all the refusals of a stop."""
    ended: list[float] = []

    async def call(_: int) -> None:
        if 60 <= virtual_time.now() < 80:
            error = errors.RateLimitedError("429", status=429)
            error.retry_after = 1.0
            raise error
        await asyncio.sleep(1.0)
        ended.append(virtual_time.now())

    results_of(call, range(6_000), concurrency=bulk.Adaptive(maximum=40), deadline=170.0)

    assert sum(time >= 140 for time in ended) >= 0.9 * 40 * 30


def test_the_maximum_is_never_passed() -> None:
    gateway = Limited(1000)

    load(gateway, 500, concurrency=bulk.Adaptive(maximum=7, start=50))

    assert gateway.most == 7


def test_it_begins_with_few_and_doubles() -> None:
    gateway = Limited(1000)

    load(gateway, 60)

    ended = [round(time / 0.1) for time, _ in gateway.log]
    assert [ended.count(trip) for trip in (1, 2, 3, 4)] == [4, 8, 16, 32]


def test_a_gateway_that_refuses_everything_is_not_flooded() -> None:
    gateway = Limited(0)

    load(gateway, 1000, deadline=30.0)

    late = [time for time, _ in gateway.log if time >= 10]
    assert 0 < len(late) <= 20 * 5


@pytest.mark.parametrize(
    ("error", "slower"),
    [
        (errors.RateLimitedError("429", status=429), True),
        (errors.ServerError("503", status=503), True),
        (errors.GatewayError("of no status"), False),
        (errors.NotFoundError("404", status=404), False),
        (errors.ReplyTimeoutError("silent"), True),
        (errors.DeadlineExceededError("late"), True),
        (ZeroDivisionError("bug"), False),
    ],
)
def test_calls_without_a_session_are_learned_from_too(error: Exception, slower: bool) -> None:
    """Their errors say what happened; an error that tells nothing of the load changes nothing."""
    under_way = most = 0

    async def call(number: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way if number > 300 else 0)
        try:
            await asyncio.sleep(0.1)
            if under_way > 10 or not slower:
                raise error
        finally:
            under_way -= 1

    results_of(call, range(600))

    if slower:
        assert 8 <= most <= 13
    else:
        assert most == (100 if isinstance(error, errors.NotFoundError) else 4)


@virtual_time.in_virtual_time
async def test_results_that_are_not_taken_hold_calls_back() -> None:
    call = AsyncMock()

    async with aclosing(bulk.run(call, itertools.count(), concurrency="adaptive")) as run:
        for _ in range(5):
            await anext(run)
        await asyncio.sleep(100)

    assert call.call_count <= 20


@pytest.mark.parametrize("wrong", [{"maximum": 0}, {"start": True}, {"maximum": 1.5}])
def test_wrong_numbers_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=next(iter(wrong))):
        bulk.Adaptive(**wrong)


class SlowLedger(Memory):
    async def write(self, entries: Sequence[bulk.Entry]) -> None:
        await asyncio.sleep(0.05 * len(entries))
        await super().write(entries)


def test_a_slow_ledger_is_not_taken_for_a_crowded_gateway() -> None:
    """The time of the gateway ends with the call, not when its result is written."""
    gateway = Limited(1000)

    load(gateway, 1500, journal=SlowLedger())

    assert gateway.most == 100


class CoarseLoop(virtual_time.VirtualTimeLoop):
    """Has a clock of 16 ms, as Windows: its timers may fire that much too early."""

    def time(self) -> float:
        """Return the seconds since the loop was made; reading them takes time."""
        self.now += 0.0001
        return self.now

    def jump(self) -> None:
        before = self.now
        super().jump()
        self.now = max(before, self.now - 0.01)
        self._clock_resolution = 0.016


@pytest.fixture
def pace(monkeypatch: pytest.MonkeyPatch) -> Pace:
    pace = Pace()
    pace.rate = 1.0
    monkeypatch.setattr("gateway_sdk.bulk._limit.Pace", lambda: pace)
    return pace


def test_the_deadline_does_not_wait_for_the_pace(pace: Pace) -> None:
    pace.rate, times = 0.1, list[float]()

    results_of(same, range(3), deadline=5.0, on_progress=lambda _: times.append(virtual_time.now()))

    assert times == [0.0, 5.0, 5.0]


@pytest.mark.usefixtures("pace")
def test_a_timer_that_fires_early_does_not_end_the_run() -> None:
    """A call that waits for the pace is started, even if no other call wakes the loop."""

    async def main() -> list[int]:
        return [result.value async for result in bulk.run(same, range(3), concurrency="adaptive")]

    with asyncio.Runner(loop_factory=CoarseLoop) as runner:
        assert runner.run(main()) == [0, 1, 2]


def all_begun(controller: Controller, now: float) -> list[Slot]:
    slots: list[Slot] = []
    while controller.has_room(now, 0):
        slots.append(controller.begin(now))
    return slots


@pytest.mark.parametrize("status", [None, 429])
def test_waits_after_cuts_stop_no_other_item(status: int | None) -> None:
    """If nearly all items wait after refusals, one new call is made in five seconds."""
    controller = Controller(maximum=100, start=4)
    for slot in all_begun(controller, 0.0):
        controller.attempt_ended(slot, 0.1, status)
        controller.waits(slot, 0.1, 10.0)

    assert controller.has_room(0.2, 0) is (status is None)
    assert controller.has_room(5.2, 0)


@pytest.mark.parametrize(
    ("status", "wait", "waiting", "is_rate"),
    [(429, 1.0, 8, True), (503, 1.0, 8, False), (429, 0.4, 8, False), (429, 1.0, 4, False)],
)
def test_all_calls_refused_twice_with_a_retry_after_prove_a_rate(
    status: int, wait: float, waiting: int, *, is_rate: bool
) -> None:
    """Another status has another reason, short waits were not asked for, and half are not all."""
    controller = Controller(maximum=8, start=8)
    for at in (0.0, 3.0):
        slots = all_begun(controller, at)
        for ended in (slots, slots, slots[:waiting]):
            for slot in ended:
                controller.attempt_ended(slot, at + 0.1, 200 if ended is slots else status)
        for slot in slots[:waiting]:
            controller.waits(slot, at + 0.2, wait)
        for slot in slots:
            controller.ended(slot)

    assert (controller._pace.rate is not None) is is_rate


@pytest.mark.parametrize(
    ("status", "overlapping", "is_rate"),
    [(429, False, True), (503, False, False), (429, True, False)],
    ids=["alone", "503", "not alone"],
)
def test_calls_that_are_refused_alone_prove_a_rate(
    status: int, *, overlapping: bool, is_rate: bool
) -> None:
    """It is not the number of calls; a 503 may have another reason."""
    controller = Controller(maximum=10, start=2)
    for at in range(12):
        fine = controller.begin(at)
        refused = controller.begin(at + 0.1) if overlapping else None
        controller.attempt_ended(fine, at + 0.2, 200)
        controller.ended(fine)
        refused = refused or controller.begin(at + 0.3)
        controller.attempt_ended(refused, at + 0.4, status)
        controller.ended(refused)

    assert (controller._pace.rate is not None) is is_rate


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.full) for n in range(1, 10))]
)
@pytest.mark.parametrize("name", simulated.TABLE)
def test_nearly_all_of_a_gateway_is_used(name: str, seed: int) -> None:
    assert simulated.missed(name, [simulated.simulate(name, seed)]) == []


def test_the_table_says_what_was_missed() -> None:
    poor = [simulated.Outcome(share=0.5, refused=0.5)] * 3

    share, refused = simulated.missed("limit 50", poor)

    assert share == "limit 50: 0.50 of the capacity, 0.95 wanted"
    assert refused == "limit 50: 50.0% refused, 1% at most"
    assert simulated.row("limit 50", poor).startswith("| limit 50 | 0.500 | 0.500 | 0.95 |")


@pytest.mark.parametrize(
    ("growth", "least", "most"),
    [
        (lambda _: 3.0, 45, 55),
        (lambda serving: max(1.0, serving / 10) ** 2, 5, 20),  # ten become the best number
    ],
)
def test_a_latency_that_grows_later_is_examined(
    growth: Callable[[int], float], least: int, most: int
) -> None:
    """Fewer calls are tried; that stays if it helps, and ends if the gateway is only slower."""
    controller = Controller(maximum=100, start=4)
    gateway = simulated.Simulation(simulated.TABLE["limit 50"], controller, seed=1)
    latency = gateway._latency

    def later() -> float:
        return latency() * (1.0 if gateway._now < 20 else growth(gateway._serving))

    with patch.object(gateway, "_latency", later):
        gateway.run()

    assert least <= controller.size <= most


def test_a_gateway_that_is_back_is_used_again() -> None:
    controller = Controller(maximum=100, start=4)
    for second in range(1000):
        for slot in all_begun(controller, second):
            controller.attempt_ended(slot, second + 0.1, 503 if second < 900 else 200)
            controller.ended(slot)

    assert controller.size == 100
