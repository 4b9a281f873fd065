"""Retries: which statuses may pass by themselves, which waits, and what ends the attempts."""

import httpx
import pytest

from gateway_sdk import Advice, Repeatability, RetryPolicy, ServerError, StatusError
from gateway_sdk.operations import OPERATIONS
from tests.support.calls import CALLS
from tests.support.scripted import Step, scripted

EVERY = range(400, 600)
BY_REPEATABILITY = {operation.repeatability: operation.name for operation in OPERATIONS}
READ, IDEMPOTENT, ONCE = (BY_REPEATABILITY[kind] for kind in Repeatability)
ONCES = [op.name for op in OPERATIONS if op.repeatability is Repeatability.ONCE]


async def requests_after(
    monkeypatch: pytest.MonkeyPatch, name: str, status: int, policy: RetryPolicy
) -> int:
    gateway, engine, _ = scripted(
        monkeypatch, lambda _: httpx.Response(status), retry=policy, retry_budget=None
    )
    with pytest.raises(StatusError):
        await CALLS[name](gateway)
    return len(engine.requests)


@pytest.mark.parametrize("name", [READ, IDEMPOTENT, ONCE])
@pytest.mark.parametrize(
    ("policy", "status", "repeated"),
    [
        (RetryPolicy(statuses=(500, 503)), 429, set()),  # taken out
        (RetryPolicy(statuses=()), 503, set()),
        (RetryPolicy(statuses=(599,)), 599, {READ, IDEMPOTENT}),  # put in
        (RetryPolicy(statuses={501}), 501, {READ, IDEMPOTENT}),  # a refusal, but not of too many
        (RetryPolicy(statuses=frozenset({429})), 429, {READ, IDEMPOTENT, ONCE}),
        (RetryPolicy(statuses=range(429, 430)), 429, {READ, IDEMPOTENT, ONCE}),
        (RetryPolicy(statuses=EVERY), 401, set()),  # a matter of the token
        (RetryPolicy(statuses=EVERY), 302, set()),
        (RetryPolicy(statuses=EVERY), 400, {READ, IDEMPOTENT}),
        (RetryPolicy(repeat_idempotent=False), 500, {READ}),
        (RetryPolicy(repeat_idempotent=False, statuses=[599]), 599, {READ}),
    ],
)
async def test_statuses_say_what_may_pass_by_itself(
    monkeypatch: pytest.MonkeyPatch, name: str, policy: RetryPolicy, status: int, repeated: set[str]
) -> None:
    assert await requests_after(monkeypatch, name, status, policy) == (3 if name in repeated else 1)


@pytest.mark.parametrize("name", ONCES)
async def test_what_must_happen_once_is_repeated_after_429_alone(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    policy = RetryPolicy(statuses=EVERY)

    repeated = [
        status for status in EVERY if await requests_after(monkeypatch, name, status, policy) > 1
    ]

    assert repeated == [429]


def test_statuses_are_kept_as_they_were_checked() -> None:
    """Nobody can put in later what would have been refused."""
    given = [429]
    policy = RetryPolicy(statuses=given)

    given.append(302)

    assert tuple(policy.statuses) == (429,)
    assert policy == RetryPolicy(statuses=(429,))
    assert hash(policy) == hash(RetryPolicy(statuses=(429,)))


async def test_what_a_policy_does_not_repeat_a_queue_does_not_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = RetryPolicy(repeat_idempotent=False)
    gateway, _, _ = scripted(monkeypatch, httpx.Response(500), retry=policy)

    with pytest.raises(ServerError) as caught:
        await CALLS[IDEMPOTENT](gateway)

    assert caught.value.advice is Advice.CHECK


async def test_full_jitter_spreads_callers_out(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, _, waits = scripted(
        monkeypatch, lambda _: httpx.Response(503), retry=RetryPolicy(attempts=2), retry_budget=None
    )
    for _ in range(200):
        with pytest.raises(StatusError):
            await CALLS[READ](gateway)

    quarters = {int(wait / 0.125) for wait in waits}
    assert quarters == {0, 1, 2, 3}
    assert len(set(waits)) == 200


@pytest.mark.parametrize(
    ("jitter", "drawn", "expected"),
    [
        (1.0, 0.0, [0.5, 1.0, 2.0, 3.0]),
        (1.0, 0.75, [0.125, 0.25, 0.5, 0.75]),
        (0.5, 1.0, [0.25, 0.5, 1.0, 1.5]),
        (0.0, 0.75, [0.5, 1.0, 2.0, 3.0]),
    ],
)
async def test_the_back_off_doubles_up_to_its_cap(
    monkeypatch: pytest.MonkeyPatch, jitter: float, drawn: float, expected: list[float]
) -> None:
    monkeypatch.setattr("gateway_sdk._call.retry.random.random", lambda: drawn)
    policy = RetryPolicy(attempts=5, backoff=0.5, backoff_max=3.0, jitter=jitter)
    gateway, engine, waits = scripted(monkeypatch, httpx.Response(503), retry=policy)

    with pytest.raises(ServerError):
        await CALLS["order_history"](gateway)

    assert waits == expected
    assert len(engine.requests) == 5


@pytest.mark.parametrize(
    "steps",
    [
        [ZeroDivisionError("bug")],
        [TimeoutError("somebody's")],  # no deadline of ours
        [httpx.ConnectError("-"), ZeroDivisionError("bug"), httpx.Response(200)],
    ],
)
async def test_an_error_that_is_not_ours_ends_the_attempts(
    monkeypatch: pytest.MonkeyPatch, steps: list[Step]
) -> None:
    gateway, engine, _ = scripted(monkeypatch, *steps)

    with pytest.raises((ZeroDivisionError, TimeoutError)) as caught:
        await CALLS["order_history"](gateway)

    assert caught.value in steps
    assert len(engine.requests) == min(len(steps), 2)


async def test_an_error_of_others_says_once_what_became_of_a_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bug = ZeroDivisionError("bug")
    gateway, _, _ = scripted(monkeypatch, bug)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await CALLS["create_customer"](gateway)

    assert bug.__notes__ == ["create_customer: it is unknown whether the gateway did it"]
