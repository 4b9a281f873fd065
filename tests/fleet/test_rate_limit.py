"""The shared rate limit with a real Redis, and with one that is lost, refuses or is not there."""

import asyncio
import pickle
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from gateway_sdk import (
    ConfigurationError,
    DeadlineExceededError,
    GatewaySession,
    MissingExtraError,
    Outcome,
    RateLimit,
)
from gateway_sdk.fleet import SharedRateLimit
from gateway_sdk.fleet._permits import Permits
from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Fault, Faults, Sandbox
from tests.support.redis_server import NEEDS_REDIS, RedisServer
from tests.support.secrecy import CANARY, texts_of

pytestmark = NEEDS_REDIS


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.kill()


def session_of(
    sandbox: Sandbox, limit: SharedRateLimit, *, deadline: float | None = None
) -> GatewaySession:
    return GatewaySession(
        "http://localhost",
        access_token=SANDBOX_ACCESS_TOKEN,
        tenant_id="acme",
        transport=sandbox.transport(),
        rate_limit=limit,
        deadline=deadline,
    )


async def take_all(permits: Permits, count: int, given: list[float]) -> None:
    for _ in range(count):
        assert await permits.take(1)
        given.append(time.monotonic())


async def test_two_clients_share_one_limit(redis: RedisServer) -> None:
    """Together they get a burst and then the rate, however often they ask."""
    rate, burst, each = 50, 5, 15
    clients = [Permits(redis.url, "limit", rate, burst) for _ in range(2)]
    given: list[float] = []

    began = time.monotonic()
    await asyncio.gather(*(take_all(permits, each, given) for permits in clients))

    # The last of n permits cannot come before (n - burst) / rate; Redis counts in milliseconds.
    assert time.monotonic() - began >= (2 * each - burst) / rate - 0.005 * len(clients)
    for permits in clients:
        await permits.aclose()


async def test_a_clock_that_is_set_forward_is_read_again(redis: RedisServer) -> None:
    """Another process has read it before: it waits no longer than the clock needs."""
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    behind = Permits(redis.url, "limit", 50, 5, note)
    ahead = Permits(redis.url, "limit", 50, 5)
    assert await behind.take(1)
    behind._ahead -= 3600.0
    assert await ahead.take(5)

    assert await behind.take(1)

    assert max(waits) < 1
    for permits in (behind, ahead):
        await permits.aclose()


async def test_a_reply_without_sense_is_an_error_of_the_settings(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent."""
    permits = Permits(redis.url, "limit", 50, 5)
    check = create_autospec(permits._store.check, side_effect=ValueError)
    monkeypatch.setattr(permits._store, "check", check)

    with pytest.raises(ConfigurationError, match="refuses"):
        await permits.take(1)
    await permits.aclose()


async def test_limits_of_other_names_do_not_disturb_each_other(redis: RedisServer) -> None:
    """Each has its own burst."""
    clients = [Permits(redis.url, name, 50, 5) for name in ("one", "two")]
    for permits in clients:
        assert await permits.take(1)
        permits._ahead += 1.0  # a pause
    waits = [await waits_for(permits, 5) for permits in clients]

    assert waits == [0.0, 0.0]
    assert repr(clients[0]) == "<Permits 50 per second, burst 5>"
    for permits in clients:
        await permits.aclose()


async def waits_for(permits: Permits, count: int) -> float:
    """Take permits, and return for how many seconds they are waited for; time goes on at once."""
    waited = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal waited
        waited += seconds
        permits._ahead += seconds

    permits._sleep = sleep
    assert await permits.take(count)
    return waited


async def test_a_redis_that_lost_its_state_gives_no_second_burst(redis: RedisServer) -> None:
    """It was started again within a second, or its memory was full: the burst may be used."""
    permits = Permits(redis.url, "limit", 50, 10)
    assert await permits.take(1)
    permits._ahead += 1.0
    assert await waits_for(permits, 10) == 0.0

    await permits._redis.flushall()

    assert await waits_for(permits, 10) == pytest.approx(0.2, abs=0.005)
    await permits.aclose()


async def test_every_attempt_counts(redis: RedisServer) -> None:
    """A call that is repeated takes a permit for each request."""
    sandbox = Sandbox(faults=Faults().on("list_countries", Fault.unavailable(), times=2))
    taken: list[int] = []
    limit = SharedRateLimit(1000, redis.url, burst=2)
    async with session_of(sandbox, limit) as gateway:
        limiter = gateway._caller.client
        assert limiter
        take = Permits.take

        async def counted(self: Permits, count: int) -> bool:
            taken.append(count)
            return await take(self, count)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Permits, "take", counted)
            await gateway.country_data.list_countries()

    assert taken == [1, 1, 1]
    assert len(sandbox.received) == len(taken)


async def test_without_redis_nothing_is_sent_until_it_is_back(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A deadline ends the wait with NOT_SENT; later calls pass without a restart."""
    sandbox = Sandbox()
    async with session_of(sandbox, SharedRateLimit(100, redis.url)) as gateway:
        await gateway.country_data.list_countries()
        redis.kill()
        with pytest.raises(DeadlineExceededError) as caught:
            await gateway.with_options(deadline=0.3).country_data.list_countries()
        assert caught.value.outcome is Outcome.NOT_SENT

        waiting = asyncio.create_task(gateway.country_data.list_countries())
        redis.start()
        assert await waiting

    assert len(sandbox.received) == 2
    assert "requests wait" in caplog.text
    assert "answers again" in caplog.text


async def test_a_limit_of_each_process_can_stand_in(redis: RedisServer) -> None:
    """With `without_redis` requests are sent while Redis is lost."""
    redis.kill()
    sandbox = Sandbox()
    limit = SharedRateLimit(100, redis.url, without_redis=RateLimit(50))
    async with session_of(sandbox, limit) as gateway:
        await asyncio.gather(*(gateway.country_data.list_countries() for _ in range(3)))

    assert len(sandbox.received) == 3


async def test_a_wrong_password_is_an_error_of_the_settings(tmp_path: Path) -> None:
    """Nothing is sent, and no text shows the password."""
    server = RedisServer(tmp_path, "--requirepass", "another")
    server.start()
    sandbox = Sandbox()
    limit = SharedRateLimit(100, f"{server.url}?password={CANARY}")
    assert CANARY not in repr(limit)
    try:
        async with session_of(sandbox, limit) as gateway:
            with pytest.raises(ConfigurationError, match="user and password") as caught:
                await gateway.country_data.list_countries()
    finally:
        server.kill()

    assert caught.value.outcome is Outcome.NOT_SENT
    assert not sandbox.received
    assert CANARY not in texts_of(caught.value)


async def test_a_user_without_permissions_is_an_error_of_the_settings(tmp_path: Path) -> None:
    """The message says what the limit needs."""
    user = ("default", "on", "nopass", "~*", "+time", "+hello", "+client")
    server = RedisServer(tmp_path, "--user", *user)
    server.start()
    try:
        async with session_of(Sandbox(), SharedRateLimit(100, server.url)) as gateway:
            with pytest.raises(ConfigurationError, match="may use EVALSHA"):
                await gateway.country_data.list_countries()
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"requests": 0}, "requests"),
        ({"requests": 1}, "at least 2"),
        ({"requests": 10, "burst": 10}, "burst must be less"),
        ({"requests": 10, "burst": 0}, "burst"),
        ({"redis": "http://localhost"}, "rediss://"),
        ({"redis": "redis://:secret/a@localhost"}, "percent-encoded"),
        ({"redis": "redis://:secret\u2100@localhost"}, "percent-encoded"),
        ({"redis": 5}, "rediss://"),
        ({"key": ""}, "key is empty"),
        ({"key": 5}, "key must be a string"),
        ({"without_redis": 10}, "without_redis must be"),
    ],
)
def test_wrong_settings_are_refused_at_once(settings: dict[str, object], message: str) -> None:
    """The message names the setting."""
    given = {"requests": 100, "redis": "redis://localhost", **settings}

    with pytest.raises(ConfigurationError, match=message) as caught:
        SharedRateLimit(**given)  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)


def test_its_password_is_not_pickled() -> None:
    """Each process makes its own."""
    with pytest.raises(TypeError, match="may hold a password"):
        pickle.dumps(SharedRateLimit(100, "redis://:secret@localhost"))


def test_the_extra_is_named_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is sent."""
    monkeypatch.delitem(sys.modules, "gateway_sdk.fleet._permits", raising=False)
    monkeypatch.setitem(sys.modules, "pyrate_limiter", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'gateway-sdk\[fleet\]'"):
        SharedRateLimit(100, "redis://localhost")
