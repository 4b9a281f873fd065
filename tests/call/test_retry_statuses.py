"""Which statuses may pass by themselves is the user's choice; what may be repeated is not."""

from typing import Any

import httpx
import pytest
from hypothesis import given, strategies as st

from gateway_sdk import (
    ConfigurationError,
    RedirectError,
    Repeatability,
    RetryPolicy,
    StatusError,
    UnauthorizedError,
)
from gateway_sdk._call.retry import repeatable_after, try_again
from gateway_sdk.operations import OPERATIONS
from tests.support.calls import CALLS
from tests.support.scripted import scripted

EVERY = range(400, 600)
BY_REPEATABILITY = {operation.repeatability: operation.name for operation in OPERATIONS}
READ, IDEMPOTENT, ONCE = (BY_REPEATABILITY[kind] for kind in Repeatability)
ONCES = [op.name for op in OPERATIONS if op.repeatability is Repeatability.ONCE]


async def requests_after(
    monkeypatch: pytest.MonkeyPatch, name: str, status: int, policy: RetryPolicy
) -> int:
    """Return how many requests a call makes of a gateway that knows one answer."""
    gateway, engine, _ = scripted(
        monkeypatch, lambda _: httpx.Response(status), retry=policy, retry_budget=None
    )
    with pytest.raises(StatusError):
        await CALLS[name](gateway)
    return len(engine.requests)


@pytest.mark.parametrize("name", [READ, IDEMPOTENT, ONCE])
@pytest.mark.parametrize(
    ("statuses", "status", "repeated"),
    [
        ((500, 503), 429, set()),  # taken out
        ((), 503, set()),
        ((599,), 599, {READ, IDEMPOTENT}),  # put in
        ([404], 404, {READ, IDEMPOTENT}),
        ({501}, 501, {READ, IDEMPOTENT}),  # a refusal, but not one of too many
        (frozenset({429}), 429, {READ, IDEMPOTENT, ONCE}),
        (range(429, 430), 429, {READ, IDEMPOTENT, ONCE}),
        (EVERY, 401, set()),
        ((401,), 401, set()),
        (EVERY, 400, {READ, IDEMPOTENT}),
    ],
)
async def test_statuses_say_what_may_pass_by_itself(
    monkeypatch: pytest.MonkeyPatch, name: str, statuses: Any, status: int, repeated: set[str]
) -> None:
    """A status that is put in is tried again where that is harmless; one taken out is not."""
    policy = RetryPolicy(statuses=statuses)

    assert await requests_after(monkeypatch, name, status, policy) == (3 if name in repeated else 1)


@pytest.mark.parametrize("name", ONCES)
async def test_what_must_happen_once_is_repeated_after_429_alone(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whatever `statuses` says, no other answer makes such a call be sent again."""
    policy = RetryPolicy(statuses=EVERY)

    repeated = [
        status for status in EVERY if await requests_after(monkeypatch, name, status, policy) > 1
    ]

    assert repeated == [429]


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308, 399])
def test_a_redirect_is_never_tried_again(status: int) -> None:
    """No policy can hold a 3xx, and no error of one is repeatable."""
    with pytest.raises(ConfigurationError, match="statuses"):
        RetryPolicy(statuses=[status])

    error = RedirectError("-", status=status)
    assert repeatable_after(error, RetryPolicy(statuses=EVERY)) == frozenset()


def test_an_unauthorized_call_is_a_matter_of_its_token() -> None:
    """401 is answered by another token, never by patience."""
    error = UnauthorizedError("-", status=401)

    assert repeatable_after(error, RetryPolicy(statuses=EVERY)) == frozenset()


@pytest.mark.parametrize("idempotent", [True, False])
async def test_more_statuses_do_not_override_the_ban_on_repeating(
    monkeypatch: pytest.MonkeyPatch, idempotent: bool
) -> None:
    """With repeat_idempotent=False a DELETE is not sent again after a status of the user's."""
    policy = RetryPolicy(statuses=[599], repeat_idempotent=idempotent)

    requests = await requests_after(monkeypatch, "cancel_order", 599, policy)

    assert requests == (3 if idempotent else 1)


@pytest.mark.parametrize(
    "statuses",
    [
        [399],
        [600],
        [200],
        [0],
        [-429],
        [True],
        [429, True],
        [429.0],
        ["429"],
        [None],
        [float("nan")],
        "429",
        b"429",
        429,
        None,
        iter([429]),
        (status for status in [429]),
    ],
    ids=lambda value: repr(value).partition(" at 0x")[0],  # the same in every process
)
def test_statuses_that_are_none(statuses: Any) -> None:
    """Only a collection of error statuses is taken."""
    with pytest.raises(ConfigurationError, match="statuses must be a collection"):
        RetryPolicy(statuses=statuses)


def test_statuses_are_kept_as_they_were_checked() -> None:
    """Nobody can put in later what would have been refused."""
    given = [429]
    policy = RetryPolicy(statuses=given)

    given.append(302)

    assert tuple(policy.statuses) == (429,)
    assert policy == RetryPolicy(statuses=(429,))
    assert hash(policy) == hash(RetryPolicy(statuses=(429,)))


@pytest.mark.parametrize("jitter", [-0.1, 1.1, 100, None, True, "1", float("nan"), float("inf")])
def test_jitter_that_is_none(jitter: Any) -> None:
    """The random part of a wait is from nothing to all of it."""
    with pytest.raises(ConfigurationError, match="jitter must be"):
        RetryPolicy(jitter=jitter)


@given(st.floats(0, 1), st.floats(0, 10), st.floats(0, 10), st.integers(1, 6))
async def test_no_wait_leaves_its_bounds(
    jitter: float, backoff: float, backoff_max: float, attempts: int
) -> None:
    """Whatever is drawn, a wait is between the part that is not random and the whole."""
    policy = RetryPolicy(attempts=attempts, jitter=jitter, backoff=backoff, backoff_max=backoff_max)
    waits: list[float] = []

    async def fail() -> None:
        raise StatusError("-", status=503)

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    with pytest.raises(StatusError):
        await try_again(
            StatusError("-", status=503),
            fail,
            made=[],
            policy=policy,
            again=lambda _: True,
            fits=lambda _: True,
            spend=lambda: True,
            ended=pytest.fail,
            scheduled=lambda _: None,
            sleep=sleep,
        )

    assert len(waits) == attempts - 1
    for number, wait in enumerate(waits):
        longest = min(backoff * 2**number, backoff_max)
        assert longest * (1 - jitter) * (1 - 1e-9) <= wait <= longest


async def test_full_jitter_spreads_callers_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the waits of many callers fill all of the time up to the bound."""
    gateway, _, waits = scripted(
        monkeypatch,
        lambda _: httpx.Response(503),
        retry=RetryPolicy(attempts=2),
        retry_budget=None,
    )
    for _ in range(200):
        with pytest.raises(StatusError):
            await CALLS[READ](gateway)

    quarters = {int(wait / 0.125) for wait in waits}
    assert quarters == {0, 1, 2, 3}
    assert len(set(waits)) == 200
