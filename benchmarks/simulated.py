"""Judge `concurrency="adaptive"` in a simulation: gateways with hidden limits, on many seeds.

Nothing waits and nothing is sent: the controller of bulk runs is told of events in the order of
their times. A minute takes a quarter of a second.
"""

import argparse
import heapq
import itertools
import math
import random
import statistics
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from benchmarks import tables
from gateway_sdk.bulk._limit import TOO_MANY, Controller
from gateway_sdk.bulk._statistics import Slot

SECONDS: Final = 60.0
LATENCY: Final = 0.1
REFUSAL: Final = 0.01
"""Seconds until a refusal comes."""

ATTEMPTS: Final = 3
"""Of a session, before an item waits in the run."""

COLUMNS: Final = ("gateway", "of the capacity", "worst", "wanted", "refused", "worst", "at most")


class Limits(Protocol):
    """Says whether a gateway takes a request."""

    def takes(self, now: float, serving: int) -> bool:
        """Tell whether it does, while it serves so many."""


@dataclass
class AtOnce:
    """So many requests at once, and another number in the second half."""

    limit: int
    later: int | None = None

    def takes(self, now: float, serving: int) -> bool:
        """Compare with the limit of the time."""
        is_late = self.later is not None and now >= SECONDS / 2
        return serving < (self.later if is_late and self.later is not None else self.limit)


@dataclass
class PerSecond:
    """So many requests in any stretch of a second."""

    limit: int
    passed: deque[float] = field(default_factory=deque)

    def takes(self, now: float, serving: int) -> bool:
        """Compare with what came in the last second."""
        del serving
        while self.passed and self.passed[0] <= now - 1:
            self.passed.popleft()
        if len(self.passed) >= self.limit:
            return False
        self.passed.append(now)
        return True


@dataclass
class Bucket:
    """So many requests per second, and as many at once if there were none before."""

    limit: int
    left: float = 0.0
    filled: float = 0.0

    def takes(self, now: float, serving: int) -> bool:
        """Take one out of the bucket."""
        del serving
        self.left = min(self.limit, self.left + self.limit * (now - self.filled))
        self.filled = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


@dataclass(frozen=True)
class Gateway:
    """A gateway, and what is wanted of a run."""

    limits: Callable[[], Limits]
    capacity: float  # calls per second at the most
    wanted: float  # the share of it that a run reaches
    refused: float = 1.0  # the share of refusals that is allowed
    status: int = TOO_MANY  # of a refusal
    retry_after: float | None = None  # seconds
    noise: float = 0.0  # the share of requests that are answered with 503 for no reason
    sigma: float = 0.02  # of the latencies, whose distribution is log-normal
    pool: int | None = None  # calls from which on latency grows with the square of their number
    pool_since: float = 0.0  # the second in which the pool gets so small
    since: float = 0.0  # seconds after which refusals count
    latency: float = LATENCY
    client: float = 0.0  # seconds that each call at once adds, because the client is busy
    calls: int = 1  # of an item


def _fifty() -> Limits:
    return AtOnce(50)


def _none() -> Limits:
    return AtOnce(10**9)


FIFTY: Final = 50 / LATENCY
TABLE: Final = {
    "limit 50": Gateway(_fifty, FIFTY, 0.95, 0.01),
    "limit 50, with 503": Gateway(_fifty, FIFTY, 0.95, 0.01, status=503),
    "limit 50, 1 % noise": Gateway(_fifty, FIFTY, 0.92, noise=0.01),
    "limit 50, 3 % noise": Gateway(_fifty, FIFTY, 0.8, noise=0.03),
    "no limit, 1 % noise": Gateway(_none, 100 / LATENCY, 0.9, noise=0.01),
    "limit 50, latency varies (sigma 1)": Gateway(_fifty, FIFTY, 0.9, sigma=1.0),
    "limit 50, then 25": Gateway(
        lambda: AtOnce(50, 25), 0.75 * FIFTY, 0.9, 0.04, since=SECONDS / 2
    ),
    "limit 20, then 100": Gateway(lambda: AtOnce(20, 100), 600, 0.82, 0.02),
    "100 in any second, Retry-After: 1": Gateway(
        lambda: PerSecond(100), 100, 0.88, 0.05, retry_after=1.0
    ),
    "100 per second, saved up, Retry-After: 1": Gateway(
        lambda: Bucket(100), 100, 0.88, 0.05, retry_after=1.0
    ),
    "60 in any second, of 30 ms, Retry-After: 1": Gateway(
        lambda: PerSecond(60), 60, 0.7, 0.1, latency=0.03, retry_after=1.0
    ),
    "a pool of 20 that thrashes": Gateway(_none, 20 / LATENCY, 0.7, pool=20),
    "a pool of 5 that thrashes, of 2 ms": Gateway(_none, 2500, 0.7, pool=5, latency=0.002),
    "limit 50, then a pool of 10": Gateway(_fifty, 233, 0.75, pool=10, pool_since=20.0),
    "limit 1": Gateway(lambda: AtOnce(1), 10, 0.85, 0.07),
    "limit 2, Retry-After: 1": Gateway(lambda: AtOnce(2), 20, 0.8, 0.05, retry_after=1.0),
    "limit 5, Retry-After: 1": Gateway(lambda: AtOnce(5), 50, 0.9, 0.02, retry_after=1.0),
    "limit 8, Retry-After: 1": Gateway(lambda: AtOnce(8), 80, 0.92, 0.05, retry_after=1.0),
    "limit 20, 100 calls an item": Gateway(lambda: AtOnce(20), 200, 0.9, calls=100),
    "the same, 3 % noise": Gateway(lambda: AtOnce(20), 200, 0.9, noise=0.03, calls=100),
    "the same, latency varies (sigma 1)": Gateway(
        lambda: AtOnce(20), 200, 0.9, sigma=1.0, calls=100
    ),
    "20 in any second": Gateway(lambda: PerSecond(20), 20, 0.85, 0.1),
    "20 in any second, Retry-After: 1": Gateway(
        lambda: PerSecond(20), 20, 0.85, 0.1, retry_after=1.0
    ),
    "5 per second, saved up": Gateway(lambda: Bucket(5), 5, 0.9, 0.19),
    "5 per second, saved up, Retry-After: 1": Gateway(
        lambda: Bucket(5), 5, 0.9, 0.15, retry_after=1.0
    ),
    "a busy client, 1 ms a call": Gateway(_none, 1000, 0.7, latency=0.001, client=0.001),
}


@dataclass
class Outcome:
    """Which share of the capacity a simulated run used, and its share of refusals."""

    share: float
    refused: float


class Simulation:
    """One run against one gateway."""

    def __init__(self, gateway: Gateway, controller: Controller, seed: int) -> None:
        self._gateway = gateway
        self._limits = gateway.limits()
        self._controller = controller
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._now = 0.0
        self._serving = 0
        self._wakes_at = -1.0
        self._fine = 0
        self._counted = [0, 0]  # taken and refused, from when they count
        self._left: dict[Slot, int] = {}  # calls of items

    def run(self) -> Outcome:
        """Simulate until the time is over."""
        self._fill()
        while self._events and self._events[0][0] <= SECONDS:
            self._now, _, act = heapq.heappop(self._events)
            act()
            self._fill()
        share = self._fine / SECONDS / self._gateway.capacity
        return Outcome(share, self._counted[1] / sum(self._counted))

    def _in(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self._now + seconds, next(self._order), act))

    def _fill(self) -> None:
        while self._controller.has_room(self._now, 0):
            slot = self._controller.begin(self._now)
            self._left[slot] = self._gateway.calls
            self._send(slot, 1)
        wakes_at = self._controller.wakes_at(self._now)
        if wakes_at is not None and self._wakes_at <= self._now:
            self._wakes_at = wakes_at
            self._in(wakes_at - self._now, lambda: None)

    def _send(self, slot: Slot, attempt: int) -> None:
        if not self._limits.takes(self._now, self._serving):
            self._in(REFUSAL, lambda: self._refused(slot, attempt, self._gateway.status))
        elif self._random.random() < self._gateway.noise:
            self._in(REFUSAL, lambda: self._refused(slot, attempt, 503))
        else:
            self._serving += 1
            self._in(self._latency(), lambda: self._taken(slot))

    def _latency(self) -> float:
        sigma = self._gateway.sigma
        latency = self._gateway.latency * math.exp(self._random.gauss(0, sigma) - sigma**2 / 2)
        has_pool = self._now >= self._gateway.pool_since
        pool = (has_pool and self._gateway.pool) or self._serving
        waiting = self._gateway.client * self._serving
        return latency * max(1.0, self._serving / pool) ** 2 + waiting

    def _taken(self, slot: Slot) -> None:
        self._serving -= 1
        self._fine += 1
        self._count(refused=False)
        self._controller.attempt_ended(slot, self._now, 200)
        self._left[slot] -= 1
        if self._left[slot]:
            self._send(slot, 1)
        else:
            self._end(slot)

    def _end(self, slot: Slot) -> None:
        del self._left[slot]
        self._controller.ended(slot)

    def _refused(self, slot: Slot, attempt: int, status: int) -> None:
        self._count(refused=True)
        self._controller.attempt_ended(slot, self._now, status)
        if attempt == ATTEMPTS and status != TOO_MANY:
            self._end(slot)
            return
        asked = self._gateway.retry_after if status == TOO_MANY else None
        seconds = (asked or 0.0) + self._random.uniform(0, 0.5 * 2 ** (attempt - 1))
        self._controller.waits(slot, self._now, seconds)
        self._in(seconds, lambda: self._send(slot, attempt % ATTEMPTS + 1))

    def _count(self, *, refused: bool) -> None:
        if self._now >= self._gateway.since:
            self._counted[refused] += 1


def simulate(name: str, seed: int) -> Outcome:
    """Run against the gateway of this name."""
    return Simulation(TABLE[name], Controller(maximum=100, start=4), seed).run()


def missed(name: str, outcomes: list[Outcome]) -> list[str]:
    """Say which targets the median of the runs misses."""
    gateway = TABLE[name]
    share = statistics.median(outcome.share for outcome in outcomes)
    refused = statistics.median(outcome.refused for outcome in outcomes)
    found = []
    if share < gateway.wanted:
        found.append(f"{name}: {share:.2f} of the capacity, {gateway.wanted:.2f} wanted")
    if refused > gateway.refused:
        found.append(f"{name}: {refused:.1%} refused, {gateway.refused:.0%} at most")
    return found


def row(name: str, outcomes: list[Outcome]) -> str:
    """Return one row of the table: medians and the worst of all runs."""
    gateway = TABLE[name]
    shares = [outcome.share for outcome in outcomes]
    refused = [outcome.refused for outcome in outcomes]
    cells = (
        name,
        f"{statistics.median(shares):.3f}",
        f"{min(shares):.3f}",
        f"{gateway.wanted:.2f}",
        f"{statistics.median(refused):.2%}",
        f"{max(refused):.2%}",
        f"{gateway.refused:.0%}" if gateway.refused < 1 else "",
    )
    return tables.row(cells)


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return how many targets were missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="runs for each gateway")
    given = parser.parse_args(arguments)
    print(tables.head(COLUMNS))
    problems = []
    for name in TABLE:
        outcomes = [simulate(name, seed) for seed in range(given.seeds)]
        print(row(name, outcomes), flush=True)
        problems += missed(name, outcomes)
    return tables.told(problems)


if __name__ == "__main__":
    sys.exit(main())
