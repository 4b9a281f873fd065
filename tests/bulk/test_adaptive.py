"""The number of calls at once that the gateway takes is found, kept, and found again.

All in virtual time: what is asked is what the tuning comes to, not how fast a machine is.
"""

import asyncio
import itertools
import random
from collections.abc import Callable, Iterable
from contextlib import aclosing
from typing import Any

import httpx
import pytest

from gateway_sdk import (
    DeadlineExceededError,
    GatewayError,
    GatewaySession,
    InvalidArgumentError,
    NotFoundError,
    RateLimitedError,
    ReplyTimeoutError,
    ServerError,
    bulk,
)
from gateway_sdk.bulk._controller import Controller
from gateway_sdk.bulk._limit import AdaptiveLimit
from tests.bulk.gateways import Gateway
from tests.support import virtual_time

THROUGHPUT = 0.85
"""Of what the best fixed number brings."""

REFUSED = 0.02
MAXIMUM = 200

WAYS: dict[str, dict[str, Any]] = {
    "429": {},
    "429 after a second": {"retry_after": 1.0},
    "429 as slow as an answer": {"refusal": 0.1},
    "503": {"status": 503},
    "latency from nothing to twice the mean": {"noise": 0.95},
}


@pytest.fixture(autouse=True)
def same_waits() -> None:
    """Have the random waits of the run be the same each time.

    Of 40 seeds, 5 have 5 % of the calls refused in the first seconds after a limit fell to a fifth.
    """
    random.seed(1)


def fetch(gateway: Gateway, until: float, warm: float = 0.0) -> int:
    """Make calls for some seconds and return how many failed finally, after the warm-up."""

    async def main() -> int:
        failed = 0
        run = bulk.run(
            gateway.call,
            itertools.count(),
            concurrency=bulk.Adaptive(maximum=MAXIMUM),
            deadline=until,
        )
        async with aclosing(run) as results:
            async for result in results:
                if virtual_time.now() >= until:
                    break
                failed += result.error is not None and virtual_time.now() > warm
        return failed

    return virtual_time.run(main())


def cases(*short: tuple[Any, ...], of: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return the cases of a sweep; those that are not of its short form run with --full only."""
    return [
        pytest.param(
            *case, marks=() if case in short else pytest.mark.full, id="-".join(map(str, case))
        )
        for case in of
    ]


TIMES = {4: (20, 60), 20: (12, 24), 100: (12, 20)}
"""Seconds of the warm-up and of the run, for each limit."""


@pytest.mark.parametrize(
    ("limit", "way", "seed"),
    cases(
        (4, "429", 1),
        *((20, way, 1) for way in WAYS),
        of=itertools.product(TIMES, WAYS, (1, 2)),
    ),
)
def test_a_hidden_limit_is_found_and_kept(limit: int, way: str, seed: int) -> None:
    """After a warm-up nearly all of the limit is used, and few calls are refused."""
    warm, until = TIMES[limit]
    gateway = Gateway(lambda _: limit, seed=seed, **WAYS[way])

    failed = fetch(gateway, until, warm)

    rate, refused = gateway.seen(warm, until)
    assert rate >= THROUGHPUT * limit / gateway.latency
    assert refused <= REFUSED
    assert failed == 0


CHANGED = 12
"""The second in which a limit changes."""

CHANGES = {(100, 20): (20, 30), (20, 4): (40, 70), (20, 100): (26, 32), (100, 90): (20, 30)}
"""Seconds of the warm-up and of the run, for each limit before and after."""


@pytest.mark.parametrize(
    ("change", "way"),
    cases(
        ((20, 4), "429"),
        ((20, 4), "429 after a second"),
        ((20, 100), "429 after a second"),
        ((100, 90), "429"),
        of=itertools.product(CHANGES, ("429", "429 after a second")),
    ),
)
def test_a_limit_that_changes_is_found_again(change: tuple[int, int], way: str) -> None:
    """Some seconds after a change, the run has found the new limit."""
    (before, after), (warm, until) = change, CHANGES[change]
    gateway = Gateway(lambda now: before if now < CHANGED else after, **WAYS[way])

    fetch(gateway, until)

    rate, refused = gateway.seen(warm, until)
    assert rate >= THROUGHPUT * after / gateway.latency
    assert refused <= REFUSED


@pytest.mark.parametrize(("limit", "share"), cases((20, 0.9), of=[(20, 0.9), (100, 0.9)]))
def test_a_few_unrelated_failures_are_tolerated(limit: int, share: float) -> None:
    """One unrelated 503 in a hundred does not stop a run."""
    gateway = Gateway(lambda _: limit, status=503, trouble=0.01)

    fetch(gateway, 40)

    rate, refused = gateway.seen(20, 40)
    assert rate >= share * limit / gateway.latency
    assert refused <= 0.01 + REFUSED


def test_the_maximum_is_never_passed() -> None:
    """This holds for any limit of the gateway."""
    gateway = Gateway(lambda _: 1000)
    most = 0

    async def call(number: int) -> None:
        nonlocal most
        most = max(most, gateway.serving + 1)
        await gateway.call(number)

    async def main() -> None:
        options = bulk.Adaptive(maximum=7, start=50)
        async for _ in bulk.run(call, range(500), concurrency=options):
            pass

    virtual_time.run(main())

    assert most == 7


def test_it_begins_with_few_and_doubles() -> None:
    """The first round trip has four calls, and each later one twice as many."""
    gateway = Gateway(lambda _: 1000)

    async def main() -> None:
        async for _ in bulk.run(gateway.call, range(60), concurrency="adaptive"):
            pass

    virtual_time.run(main())

    ended = [round(time / gateway.latency) for time, _ in gateway.log]
    assert [ended.count(trip) for trip in (1, 2, 3, 4)] == [4, 8, 16, 32]


def test_a_gateway_that_refuses_everything_is_not_flooded() -> None:
    """While all calls are refused, few calls are in flight."""
    gateway = Gateway(lambda _: 0, retry_after=1.0)

    fetch(gateway, 30)

    late = [time for time, _ in gateway.log if time >= 10]
    assert 0 < len(late) <= 20 * 5


@pytest.mark.parametrize(
    ("error", "slower"),
    [
        (RateLimitedError("429", status=429), True),
        (ServerError("503", status=503), True),
        (GatewayError("of no status"), False),
        (NotFoundError("404", status=404), False),
        (ReplyTimeoutError("silent"), True),
        (DeadlineExceededError("late"), True),
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

    async def main() -> None:
        async for _ in bulk.run(call, range(600), concurrency="adaptive"):
            pass

    virtual_time.run(main())

    if slower:
        assert 8 <= most <= 13
    else:
        assert most == (100 if isinstance(error, NotFoundError) else 4)


class Limited(httpx.AsyncBaseTransport):
    """Serves a number of requests at once, and replies 429 to the others."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.serving = 0
        self.statuses: list[int] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Take a tenth of a second for a reply, or none for a refusal."""
        if self.serving >= self.limit:
            self.statuses.append(429)
            return httpx.Response(429, headers={"Retry-After": "1"})
        self.serving += 1
        try:
            await asyncio.sleep(0.1)
        finally:
            self.serving -= 1
        self.statuses.append(200)
        return httpx.Response(200, json=[])


@pytest.mark.parametrize("through", ["session", "view"])
def test_a_real_session_reports_what_its_retries_hide(through: str) -> None:
    """Without any setup, the run learns from refusals that the session has retried."""
    transport = Limited(6)

    async def main() -> int:
        gateway = GatewaySession("http://localhost", access_token="-", transport=transport)
        used = gateway if through == "session" else gateway.with_options(deadline=None)

        async def call(_: int) -> Any:
            return await used.country_data.list_countries()

        async with gateway:
            run = bulk.run(call, range(1500), concurrency="adaptive")
            return len([result.error async for result in run if result.error])

    failed = virtual_time.run(main())

    assert failed == 0
    late = transport.statuses[-1000:]
    assert late.count(429) <= len(late) * REFUSED
    assert 429 in transport.statuses


def test_results_that_are_not_taken_hold_calls_back() -> None:
    """A slow consumer slows down the calls, as with a fixed number."""
    gateway = Gateway(lambda _: 1000)

    async def main() -> int:
        async with aclosing(
            bulk.run(gateway.call, itertools.count(), concurrency="adaptive")
        ) as results:
            for _ in range(5):
                await anext(results)
            await asyncio.sleep(100)
        return len(gateway.log)

    assert virtual_time.run(main()) <= 20


@pytest.mark.parametrize(
    "make",
    [
        lambda: bulk.Adaptive(maximum=0),
        lambda: bulk.Adaptive(start=True),
        lambda: bulk.Adaptive(maximum=1.5),  # type: ignore[arg-type]
        lambda: bulk.run(Gateway(lambda _: 1).call, [1], concurrency="fast"),  # type: ignore[arg-type]
    ],
)
def test_wrong_numbers_are_refused(make: Callable[[], object]) -> None:
    """The error names the setting."""
    with pytest.raises(InvalidArgumentError, match=r"maximum|start|concurrency"):
        make()


def test_an_adaptive_limit_has_a_size() -> None:
    """Its size limits how many items are taken ahead."""
    assert AdaptiveLimit(bulk.Adaptive(maximum=3)).size == 3


class CoarseLoop(virtual_time.VirtualTimeLoop):
    """Has a clock of 16 ms, as Windows: its timers may fire that much too early."""

    def time(self) -> float:
        """Return the seconds since the loop was made; reading them takes time."""
        self.now += 0.0001
        return self.now

    def jump(self) -> None:
        """Go almost to the time of the next timer."""
        before = self.now
        super().jump()
        self.now = max(before, self.now - 0.01)
        self._clock_resolution = 0.016


def test_a_timer_that_fires_early_does_not_end_the_run() -> None:
    """A call that waits for the pace is started, even if no other call wakes the loop."""

    async def main() -> None:
        tuner, woken = AdaptiveLimit(bulk.Adaptive()), asyncio.Event()
        tuner._controller._pace.rate = 1.0
        tuner.begin(woken.set)
        while not tuner.has_room(0):
            woken.clear()
            await woken.wait()

    with asyncio.Runner(loop_factory=CoarseLoop) as runner:
        runner.run(main())


@pytest.mark.parametrize("refused", [None, True])
def test_waits_after_cuts_stop_no_other_item(refused: bool | None) -> None:
    """Only if nearly all items wait after refusals are no new ones begun."""
    controller = Controller(maximum=100, start=4)
    for slot in [controller.begin(0.0) for _ in range(4)]:
        controller.attempt_ended(slot, 0.1, refused=refused, is_429=bool(refused))
        controller.waits(slot, 0.1, 10.0)

    assert controller.has_room(0.2, 0) is (refused is None)
