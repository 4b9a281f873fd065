"""A gateway that restarts: calls wait for it, one connection at a time is tried."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace

import httpx
import pytest

from gateway_sdk import ConnectionFailedError, GatewaySession, Outcome, RateLimit, RetryPolicy
from gateway_sdk._call import call
from gateway_sdk._transport.connection import Connection
from gateway_sdk._transport.dial import Dialler
from tests.support.calls import CALLS
from tests.support.raw_server import Server, raw_server
from tests.support.virtual_time import in_virtual_time, now


class Away(httpx.AsyncBaseTransport):
    """A gateway that is away for some time, in virtual time."""

    def __init__(
        self, until: float, *, since: float = 0.0, error: type[Exception] = httpx.ConnectError
    ) -> None:
        self._until, self._since, self._error = until, since, error

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._since <= now() < self._until:
            request.extensions["gateway_sdk.transmission"].sent = False
            raise self._error("refused")
        return httpx.Response(200, json={"a": 1})


def session(transport: Away, **options: object) -> GatewaySession:
    given = {"access_token": "t", "transport": transport, "deadline": 13.0, **options}
    return GatewaySession("https://gateway.test", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("attempts", [1, 3])
@in_virtual_time
async def test_a_restart_loses_no_call(attempts: int) -> None:
    """Nothing was sent, so the attempts cost nothing of the policy and of the budget."""
    async with session(Away(until=1.0), retry=RetryPolicy(attempts=attempts)) as gateway:
        calls = (gateway.aml.upload_document(b"x") for _ in range(60))
        assert await asyncio.gather(*calls) == [{"a": 1}] * 60
        assert sum(gateway._caller.shared.take_retry() for _ in range(200)) == 100  # its reserve
    assert now() < 3.0


@pytest.mark.parametrize("deadline", [13.0, None])
@in_virtual_time
async def test_a_restart_loses_no_call_that_has_waited_in_a_queue(
    monkeypatch: pytest.MonkeyPatch, deadline: float | None
) -> None:
    """Neither the gateway was away in that time, nor does the next attempt take as long."""
    monkeypatch.setattr(call, "time", SimpleNamespace(monotonic=now))
    gateway = Away(since=5.0, until=6.5)
    options = {"rate_limit": RateLimit(1, 6.0), "retry": RetryPolicy(attempts=1)}
    async with session(gateway, deadline=deadline, **options) as waiting:
        calls = (waiting.aml.upload_document(b"x") for _ in range(2))
        assert await asyncio.gather(*calls) == [{"a": 1}] * 2
    assert now() == 12.0


@pytest.mark.parametrize(
    ("error", "retry", "wait", "attempts"),
    [
        (httpx.ConnectError, RetryPolicy(), 5.0, range(3, 100)),
        (httpx.ConnectError, RetryPolicy(connect_wait=2.0), 2.0, range(3, 100)),
        (httpx.ConnectError, None, 0.0, [1]),  # waits for nothing
        (httpx.PoolTimeout, RetryPolicy(attempts=2), 1.0, [2]),  # a slow slot is no restart
    ],
)
@in_virtual_time
async def test_a_gateway_that_stays_away_is_an_error_in_time(
    error: type[Exception], retry: RetryPolicy | None, wait: float, attempts: Sequence[int]
) -> None:
    async with session(Away(until=1e9, error=error), retry=retry) as gateway:
        with pytest.raises(ConnectionFailedError) as caught:
            await gateway.aml.upload_document(b"x")

    assert wait - 1.0 <= now() <= wait
    assert caught.value.outcome is Outcome.NOT_SENT
    assert len(caught.value.attempts) in attempts


async def refused(*_: object) -> None:
    raise ConnectionRefusedError


async def test_a_wait_for_the_trial_of_another_ends_by_its_own_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: asyncio.Queue[None] = asyncio.Queue()

    async def hanging(*_: object) -> None:
        tried.put_nowait(None)
        await asyncio.Event().wait()

    url = "http://127.0.0.1:1"
    monkeypatch.setattr(Dialler, "connect", refused)
    async with GatewaySession(url, access_token="t", retry=None) as gateway:
        with pytest.raises(ConnectionFailedError):
            await CALLS["order_history"](gateway)
        monkeypatch.setattr(Dialler, "connect", hanging)
        patient = asyncio.create_task(CALLS["order_history"](gateway))
        await tried.get()
        hurried = gateway.with_options(timeout=httpx.Timeout(5.0, connect=0.02))
        with pytest.raises(ConnectionFailedError, match="no connection"):
            await CALLS["order_history"](hurried)

        assert tried.empty()
        assert not patient.done()
        patient.cancel()
        await asyncio.wait([patient])


@pytest.mark.parametrize("connect", [5.0, None])
async def test_a_trial_with_a_shorter_timeout_ends_no_other_call(
    monkeypatch: pytest.MonkeyPatch, connect: float | None
) -> None:
    connects, tried = Dialler.connect, asyncio.Event()

    async def hanging(dialler: Dialler) -> Connection:
        monkeypatch.setattr(Dialler, "connect", connects)
        tried.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with (
        raw_server(Server().handle) as url,
        GatewaySession(url, access_token="t", retry=None) as gateway,
    ):
        monkeypatch.setattr(Dialler, "connect", refused)
        with pytest.raises(ConnectionFailedError):
            await CALLS["order_history"](gateway)
        monkeypatch.setattr(Dialler, "connect", hanging)
        hasty = gateway.with_options(timeout=httpx.Timeout(5.0, connect=0.02))
        trial = asyncio.create_task(CALLS["order_history"](hasty))
        await tried.wait()
        patient = gateway.with_options(timeout=httpx.Timeout(5.0, connect=connect))

        assert await CALLS["order_history"](patient) == {}
        await asyncio.wait([trial])
        assert isinstance(trial.exception(), ConnectionFailedError)


async def test_a_trial_that_is_cancelled_leaves_the_next_one_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (
        raw_server(Server().handle) as url,
        GatewaySession(url, access_token="t", retry=None) as gateway,
    ):
        with monkeypatch.context() as patch:
            patch.setattr(Dialler, "connect", refused)
            with pytest.raises(ConnectionFailedError):
                await CALLS["order_history"](gateway)
        first = asyncio.create_task(CALLS["order_history"](gateway))
        others = [asyncio.create_task(CALLS["order_history"](gateway)) for _ in range(5)]
        await asyncio.sleep(0)
        first.cancel()

        assert await asyncio.gather(*others) == [{}] * 5
        assert first.cancelled()
