"""A gateway with a limit of calls at once, in virtual time, and a session that retries."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from gateway_sdk import Attempt, CallInfo, Outcome, RateLimitedError, operations
from gateway_sdk._call.events import ITEMS, Watch
from tests.support.virtual_time import now


@dataclass
class Gateway:
    """Takes so many calls at once and refuses the others.

    Attributes:
        limit: How many, as a function of the time.
        status: How it refuses.
        retry_after: Seconds that it asks to wait.
        noise: How much its latency varies: 0 not at all, 1 from nothing to twice the mean.
        trouble: The share of calls that it refuses for no reason.
    """

    limit: Callable[[float], int]
    status: int = 429
    retry_after: float | None = None
    noise: float = 0.0
    trouble: float = 0.0
    latency: float = 0.1
    refusal: float = 0.01
    seed: int = 1
    serving: int = 0
    log: list[tuple[float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)  # noqa: S311 - repeatable, not secret

    async def answer(self) -> int:
        """Serve a request and return its status."""
        if self.serving >= self.limit(now()) or self._random.random() < self.trouble:
            await asyncio.sleep(self.refusal)
            self.log.append((now(), self.status))
            return self.status
        self.serving += 1
        try:
            spread = self.noise * self.latency
            await asyncio.sleep(self.latency + self._random.uniform(-spread, spread))
        finally:
            self.serving -= 1
        self.log.append((now(), 200))
        return 200

    async def call(self, number: int) -> None:
        """Make a call as a session does: three attempts, and observers of the context are told."""
        place = "https://gateway.test", "gateway.test", 443
        call = CallInfo(operations.LIST_COUNTRIES, number, *place)
        watch = Watch(ITEMS.get(), call)
        watch.started()
        for attempt in range(3):
            began = now()
            status = await self.answer()
            ok = status == 200
            ended = Attempt(Outcome.APPLIED if ok else Outcome.REFUSED, status, None, now() - began)
            watch.ended(ended)
            if ok:
                return
            if attempt < 2:
                wait = self.retry_after or self._random.uniform(0, 0.5 * 2**attempt)
                watch.scheduled(ended, wait)
                await asyncio.sleep(wait)
        raise RateLimitedError("refused", status=status)

    def seen(self, since: float, until: float) -> tuple[float, float]:
        """Return successes per second and the share of refusals, within a time."""
        there = [status for time, status in self.log if since <= time < until]
        fine = there.count(200)
        return fine / (until - since), 1 - fine / max(1, len(there))
