"""The retry budget, and what an outage costs a gateway and its callers, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from hypothesis import example, given, strategies as st

from gateway_sdk import GatewayError, GatewaySession, RetryBudget, RetryPolicy, ServerError
from gateway_sdk._call import call, shared_state
from gateway_sdk._call.retry import Bucket
from gateway_sdk._transport import gateway_transport
from gateway_sdk._transport.through_httpx import CustomTransport
from gateway_sdk._transport.transmission import EXTENSION
from tests.support.calls import CALLS
from tests.support.logins import Clock
from tests.support.virtual_time import in_virtual_time, now


class Gateway(httpx.AsyncBaseTransport):
    """A gateway that is down, each time after so many seconds, until it is not.

    Attributes:
        requests: How many came.
        failure: What becomes of each; None for an answer.
    """

    def __init__(self, failure: str | None, seconds: float = 0.0) -> None:
        self.requests = 0
        self.failure = failure
        self._seconds = seconds

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        await asyncio.sleep(self._seconds)
        if self.failure == "dead":
            raise httpx.ConnectError("nobody there")
        request.extensions[EXTENSION].sent = True
        return httpx.Response(503 if self.failure else 200, json={})


def bucket_of(_: str, budget: RetryBudget | None) -> Bucket | None:
    """Make a bucket that virtual time fills."""
    return None if budget is None else Bucket(budget, now)


@asynccontextmanager
async def session_on(gateway: Gateway, **options: Any) -> AsyncIterator[GatewaySession]:
    """Give a session on a gateway; its waits are random up to 0.5 s and 1 s."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            gateway_transport, "make_transport", lambda *_: CustomTransport(gateway, None)
        )
        patch.setitem(cast("Any", shared_state.SHARED), "retry_budget", (RetryBudget(), bucket_of))
        # How long an attempt took decides whether another one fits before the deadline.
        patch.setattr(call, "time", SimpleNamespace(monotonic=now))
        given = {"access_token": "t", "retry": RetryPolicy(connect_wait=0.0), **options}
        async with GatewaySession("http://localhost", **given) as session:
            yield session


async def keep_calling(session: GatewaySession, seconds: float) -> list[tuple[float, str]]:
    calls: list[tuple[float, str]] = []
    end = now() + seconds
    while now() < end:
        began = now()
        try:
            await CALLS["order_history"](session)
            calls.append((now() - began, "done"))
        except GatewayError as error:
            calls.append((now() - began, type(error).__name__))
        await asyncio.sleep(3.0)
    return calls


async def storm(session: GatewaySession, seconds: float) -> list[tuple[float, str]]:
    callers = [keep_calling(session, seconds) for _ in range(100)]
    return [call for calls in await asyncio.gather(*callers) for call in calls]


BUDGETS = {
    "default": RetryBudget(),
    "none to speak of": RetryBudget(reserve=1, share=0, per_second=0),
    "a share": RetryBudget(reserve=50, share=0.5, per_second=0),
    "time": RetryBudget(reserve=5, share=0, per_second=4.0),
}


@pytest.mark.parametrize("failure", ["dead", "503"])
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
@in_virtual_time
async def test_an_outage_costs_no_more_than_the_budget(failure: str, budget: RetryBudget) -> None:
    gateway = Gateway(failure)
    async with session_on(gateway, retry_budget=budget) as session:
        calls = await storm(session, 20)

    extra = gateway.requests - len(calls)
    bound = budget.reserve + budget.share * len(calls) + budget.per_second * now()
    assert budget.reserve <= extra <= bound  # it is used, and kept
    assert {error for _, error in calls} == {
        "ConnectionFailedError" if failure == "dead" else "ServerError"
    }


@pytest.mark.parametrize("failure", ["dead", "503"])
@pytest.mark.parametrize("budget", [RetryBudget(), None])
@in_virtual_time
async def test_every_caller_of_an_outage_ends_by_its_deadline(
    failure: str, budget: RetryBudget | None
) -> None:
    gateway = Gateway(failure, seconds=4.0)
    async with session_on(gateway, retry_budget=budget, deadline=10.0) as session:
        calls = await storm(session, 20)

    assert max(seconds for seconds, _ in calls) <= 10.0 + 1e-9
    if budget is None:  # three attempts of 4 s do not fit, so the third one is not begun
        assert gateway.requests == 2 * len(calls)
        assert {error for _, error in calls} == {
            "ConnectionFailedError" if failure == "dead" else "ServerError"
        }


@in_virtual_time
async def test_a_session_works_again_as_soon_as_the_gateway_does() -> None:
    gateway = Gateway("dead")
    async with session_on(gateway) as session:
        await storm(session, 10)
        while session._caller.shared.take_retry():
            pass

        gateway.failure = None
        assert {error for _, error in await storm(session, 10)} == {"done"}

        gateway.failure = "503"
        with pytest.raises(ServerError) as again:
            await CALLS["order_history"](session)
        assert len(again.value.attempts) == 3


@pytest.mark.parametrize(
    ("name", "options", "attempts"),
    [
        ("order_history", {"retry": RetryPolicy(attempts=1)}, 1),
        ("order_history", {"deadline": 5.0, "retry": RetryPolicy(backoff=8.0, jitter=0.0)}, 1),
        ("create_customer", {}, 1),
        ("order_history", {"retry": RetryPolicy(attempts=2)}, 2),
    ],
)
@in_virtual_time
async def test_only_a_retry_that_is_made_is_paid_for(
    name: str, options: dict[str, Any], attempts: int
) -> None:
    gateway = Gateway("503")
    budget = RetryBudget(reserve=5, share=0, per_second=0)
    async with session_on(gateway, retry_budget=budget, tenant_id="acme", **options) as session:
        with pytest.raises(GatewayError):
            await CALLS[name](session)

        assert gateway.requests == attempts
        left = 0
        while session._caller.shared.take_retry():
            left += 1
        assert left == 5 - (attempts - 1)


EVENTS = st.lists(st.one_of(st.sampled_from(["call", "take"]), st.integers(1, 40)), max_size=200)


@given(st.integers(1, 5), st.integers(0, 8), st.integers(0, 8), EVENTS)
@example(2, 2, 0, ["take"] * 3 + ["call"] * 4 + ["take"] * 2)
@example(2, 0, 4, ["take"] * 3 + [15, "take", 1, "take", "take", 40, "take", "take", "take"])
def test_calls_and_time_fill_the_bucket_up_to_its_reserve(
    reserve: int, share: int, per_second: int, events: list[str | int]
) -> None:
    clock = Clock(1000.0)
    budget = RetryBudget(reserve=reserve, share=share / 8, per_second=per_second / 8)
    bucket = Bucket(budget, clock)
    left = float(reserve)
    for event in events:
        if event == "take":
            assert bucket.take() is (left >= 1)
            left -= left >= 1
            continue
        if event == "call":
            bucket.calls += 1
        else:
            clock.now += int(event) / 8
        more = share / 8 if event == "call" else per_second / 8 * int(event) / 8
        left = min(left + more, float(reserve))
    assert [bucket.take() for _ in range(int(left) + 1)] == [True] * int(left) + [False]
