"""Permits to send, from a generic cell rate algorithm (GCRA) in Redis."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from pyrate_limiter import GCRA, Decision, Duration, Rate, RedisStateStore
from redis import asyncio as client
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 - redis' own
    MasterDownError,
    ReadOnlyError,
    RedisError,
    TimeoutError,  # noqa: A004 - redis' own
    TryAgainError,
)

from gateway_sdk._python import safe_repr
from gateway_sdk.errors import ConfigurationError

_TIMEOUT: Final = 1.0
"""Seconds to connect to Redis, and for each reply: it usually replies in milliseconds."""

_CLOCK_LIFE: Final = 30.0
"""Seconds after which the clock of Redis is read again: two good clocks drift less than 1 ms."""

_CLOCK_ERROR: Final = 0.1
"""Seconds by which the clock of Redis, as two processes have read it, may differ."""

_REFUSALS: Final = (AuthenticationError, AuthorizationError)  # kinds of ConnectionError
_OUTAGES: Final = (
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    MasterDownError,
    OSError,
    ReadOnlyError,
    TimeoutError,
    TryAgainError,
)


# Milliseconds for which Redis keeps the state after the burst is there again. Longer, and a Redis
# that was killed could start with an old one; shorter, and no burst would come after a pause.
_KEPT: Final = 5000

_EMPTY_AT_FIRST: Final = """
if redis.call('EXISTS', KEYS[1]) == 0 then
    local full = ARGV[1] * 1000 + ARGV[5] * ARGV[6]
    redis.call('HSET', KEYS[1], 'tat1', string.format('%.0f', full))
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
"""
"""Without a state, the burst may have been used a moment ago: Redis was started again."""


class _Cautious(GCRA):
    """Gives a burst only where it is known that there was a pause."""

    def redis_script(self) -> str:
        return f"{_EMPTY_AT_FIRST}{super().redis_script()}"


class Permits:
    """At most rate + burst permits in any second, also if Redis loses its state meanwhile."""

    def __init__(
        self,
        url: str,
        key: str,
        rate: int,
        burst: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._sleep = sleep
        self._redis = client.from_url(
            url, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT, retry=None
        )
        self._store = RedisStateStore(self._redis, key, _KEPT + 1000 * burst // rate)
        self._rates = [Rate(rate, Duration.SECOND, burst=burst)]
        self._algorithm = _Cautious()
        # While the clocks agree, the whole burst is there again after this time.
        self._longest = burst / rate + _CLOCK_ERROR
        self._ahead = 0.0  # seconds of Redis' clock before ours
        self._read_at: float | None = None

    async def take(self, count: int) -> bool:
        """Wait for permits, at most the burst; False if Redis does not answer: some may be lost."""
        try:
            while wait := await self._wait_after_asking(count):
                if wait > self._longest:  # one of the clocks was set: read that of Redis again
                    self._read_at = None
                await self._sleep(min(wait, self._longest))
        # The others are those of a reply that makes no sense.
        except (RedisError, OSError, IndexError, TypeError, ValueError) as error:
            return self._judge(error.__cause__ or error)  # what failed while connecting is a cause
        return True

    async def _wait_after_asking(self, count: int) -> float:
        """Ask once; return the seconds until it is worth asking again, 0 if there are permits."""
        now = int(1000 * await self._now())
        # Its types are those for a Redis client that blocks.
        check: Callable[..., Awaitable[Decision]] = cast("Any", self._store).check
        decision = await check(self._algorithm, self._rates, now, count)
        return 0.0 if decision.allowed else (decision.retry_after_ms or 1) / 1000

    def _judge(self, error: BaseException) -> bool:
        """Return False if Redis may answer later; raise if it refuses."""
        if isinstance(error, _OUTAGES) and not isinstance(error, _REFUSALS):
            self._read_at = None
            return False
        # Without the text of Redis, which may name keys and users.
        raise ConfigurationError(
            f"the Redis of the shared rate limit refuses ({type(error).__name__}): its URL needs a"
            " user and password that may use EVALSHA, SCRIPT LOAD, TIME and the key of the limit"
        ) from None

    async def _now(self) -> float:  # seconds since 1970, of Redis' clock
        began = time.monotonic()
        if self._read_at is None or began - self._read_at > _CLOCK_LIFE:
            seconds, microseconds = await cast("Any", self._redis).time()
            # Read in the middle of the round trip, on the average.
            middle = (began + time.monotonic()) / 2
            self._ahead, self._read_at = seconds + microseconds / 1e6 - middle, began
        return time.monotonic() + self._ahead

    async def aclose(self) -> None:
        await self._redis.aclose()

    @safe_repr
    def __repr__(self) -> str:
        rate = self._rates[0]
        return f"<Permits {rate.limit} per second, burst {rate.burst}>"
