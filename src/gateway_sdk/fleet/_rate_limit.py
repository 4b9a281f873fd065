"""One rate limit for many processes, with its state in Redis; needs the extra [fleet]."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn
from urllib.parse import urlsplit

from gateway_sdk._checks import check_count
from gateway_sdk._extras import needing_extra
from gateway_sdk._python import safe_repr
from gateway_sdk._transport.rate_limit import AnyRateLimit, Limiter, RateLimit, RateLimiter
from gateway_sdk.errors import ConfigurationError

if TYPE_CHECKING:
    from gateway_sdk.fleet._permits import Permits

_logger = logging.getLogger("gateway_sdk")

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
"""Seconds between two attempts while Redis does not answer; they double."""


@dataclass(frozen=True, slots=True)
class SharedRateLimit(AnyRateLimit):
    """At most so many requests in any second, over all sessions that share it.

    Each attempt counts, retries too, from when it gets its permit: a request that has to open a
    connection is sent later by that time, perhaps together with the next ones. A session takes
    permits from Redis, a few at a time and only for requests that wait, and hands them out in the
    order of arrival. It uses the clock of Redis, so the clocks of the machines may differ.

    While Redis does not answer, nothing is sent: the requests wait, within the deadlines of their
    calls. With `without_redis` each process sends at that rate meanwhile. If Redis answers that it
    refuses (a wrong password, a missing permission), calls raise a `ConfigurationError`, and
    nothing is sent.

    Attributes:
        requests: The largest number of requests in any second.
        redis: The URL of Redis: rediss://, redis:// or unix://; its repr is masked, because it may
            contain a password.
        key: The name of the limit. Sessions with the same Redis and key share it; all of them must
            give the same numbers.
        burst: How many of these requests may be sent at once after a pause; a tenth by default.
            The others are spread evenly, at `requests - burst` per second. After 5 seconds without
            a request, or if Redis has lost its state, there is no burst at first.
        without_redis: The limit of each process while Redis does not answer; None sends nothing.

    Raises:
        ConfigurationError: a number or the URL is wrong, or the extra is not installed.
    """

    requests: int
    redis: str = field(repr=False)
    _: KW_ONLY
    key: str = "gateway-sdk:rate-limit"
    burst: int | None = None
    without_redis: RateLimit | None = None

    def __post_init__(self) -> None:
        check_count("requests", self.requests)
        if self.requests == 1:
            raise ConfigurationError("requests must be at least 2: one of them is the burst")
        burst = max(1, self.requests // 10) if self.burst is None else self.burst
        check_count("burst", burst)
        if burst >= self.requests:
            raise ConfigurationError("burst must be less than requests")
        object.__setattr__(self, "burst", burst)
        if not isinstance(self.key, str):
            raise ConfigurationError("key must be a string: it is the name of the limit in Redis")
        if not self.key:
            raise ConfigurationError("key is empty: it is the name of the limit in Redis")
        if self.without_redis is not None and not isinstance(self.without_redis, RateLimit):
            raise ConfigurationError("without_redis must be a RateLimit, or None to send nothing")
        _load_permits()
        self._check_url()

    def _check_url(self) -> None:
        if not isinstance(self.redis, str):
            raise ConfigurationError("redis must be a URL with rediss://, redis:// or unix://")
        try:
            scheme = urlsplit(self.redis).scheme
            if scheme in ("redis", "rediss", "unix"):
                self.make_limiter()
                return
        except ValueError:  # its text may contain a part of the password
            raise ConfigurationError(
                "redis is invalid: characters such as / in its password must be percent-encoded"
            ) from None
        raise ConfigurationError("redis must be a URL with rediss://, redis:// or unix://")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a SharedRateLimit may hold a password: it cannot be pickled")

    def make_limiter(self) -> "SharedLimiter":
        """Return what keeps this limit for one session."""
        burst = self.burst or 1
        permits = _load_permits()(self.redis, self.key, self.requests - burst, burst)
        return SharedLimiter(permits, max(1, burst // 2), self.without_redis)


def _load_permits() -> "type[Permits]":
    with needing_extra("fleet", "a SharedRateLimit"):
        from gateway_sdk.fleet._permits import Permits  # noqa: PLC0415 - an extra
    return Permits


class SharedLimiter(Limiter):
    """Lets requests pass with permits from Redis, first come, first served."""

    def __init__(
        self,
        permits: "Permits",
        most: int,
        without: RateLimit | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._permits = permits
        self._most = most
        self._without = None if without is None else RateLimiter(without)
        self._clock = clock
        self._waiters: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        self._supply: asyncio.Task[None] | None = None
        self._lost = False

    async def enter(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        if self._supply is None:
            self._supply = asyncio.create_task(self._run())
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self._waiters:
                del self._waiters[waiter]
            elif not waiter.cancelled() and waiter.exception() is None:
                self._hand_out(1)  # its permit came in the same turn
            raise

    async def aclose(self) -> None:
        if self._supply is not None:
            self._supply.cancel()
            await asyncio.wait([self._supply])
        await self._permits.aclose()

    async def _run(self) -> None:
        try:
            while self._waiters:
                await self._get()
        except Exception as error:  # noqa: BLE001 - each caller raises it
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_exception(type(error)(*error.args))
            self._waiters.clear()
        finally:
            self._supply = None

    async def _get(self) -> None:
        pause = _FIRST_PAUSE
        while not await self._lease():
            await self._bear(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _lease(self) -> bool:
        """Get permits for those that wait; False if Redis does not answer."""
        wanted = min(self._most, len(self._waiters))
        if not wanted:  # the last caller was cancelled while Redis did not answer
            return True
        if not await self._permits.take(wanted):
            return False
        if self._lost:
            self._lost = False
            _logger.warning("the Redis of the shared rate limit answers again")
        self._hand_out(wanted)
        return True

    async def _bear(self, seconds: float) -> None:
        """Wait until Redis may answer again; send at the rate that is allowed without it."""
        if not self._lost:
            self._lost = True
            _logger.warning(
                "the Redis of the shared rate limit does not answer: %s",
                "requests wait" if self._without is None else f"{self._without!r} meanwhile",
            )
        if self._without is None:
            await asyncio.sleep(seconds)
            return
        end = self._clock() + seconds
        while self._waiters and self._clock() < end:
            await self._without.enter()
            self._without.begin()
            self._hand_out(1)

    def _hand_out(self, count: int) -> None:
        # A permit that nobody waits for is lost: fewer requests are sent, never more.
        while count and self._waiters:
            waiter, _ = self._waiters.popitem(last=False)
            if not waiter.done():  # else cancelled, and its task has not run yet
                waiter.set_result(None)
                count -= 1

    @safe_repr
    def __repr__(self) -> str:
        return f"<SharedLimiter {self._permits!r}, {len(self._waiters)} waiting>"
