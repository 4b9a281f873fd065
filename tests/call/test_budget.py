"""The retry budget: its arithmetic."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from gateway_sdk import ConfigurationError, GatewaySession, RetryBudget
from gateway_sdk._call.retry import Bucket


class Clock:
    """Stands still until a test moves it."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def taken(bucket: Bucket) -> int:
    """Take all that is in a bucket, and return how much that was."""
    return next(number for number in range(10_000) if not bucket.take())


def test_the_reserve_is_there_at_the_beginning() -> None:
    """A new bucket holds its reserve and no more."""
    bucket = Bucket(RetryBudget(reserve=7, share=0, per_second=0), Clock())

    assert repr(bucket) == "<Bucket 7.0 of 7 retries left>"
    assert taken(bucket) == 7
    assert repr(bucket) == "<Bucket 0.0 of 7 retries left>"


@pytest.mark.parametrize(("calls", "retries"), [(3, 0), (4, 1), (11, 2), (1000, 7)])
def test_calls_fill_the_bucket(calls: int, retries: int) -> None:
    """Each call adds its share, up to the reserve."""
    bucket = Bucket(RetryBudget(reserve=7, share=0.25, per_second=0), Clock())
    taken(bucket)

    for _ in range(calls):
        bucket.calls += 1

    assert taken(bucket) == retries


@pytest.mark.parametrize(("seconds", "retries"), [(1.5, 0), (2, 1), (5, 2), (1e9, 7)])
def test_time_fills_the_bucket(seconds: float, retries: int) -> None:
    """Each second adds its part, up to the reserve, and none is counted twice."""
    clock = Clock()
    bucket = Bucket(RetryBudget(reserve=7, share=0, per_second=0.5), clock)
    taken(bucket)

    clock.now += seconds

    assert taken(bucket) == retries
    assert taken(bucket) == 0


EVENTS = st.lists(st.one_of(st.sampled_from(["call", "take"]), st.integers(1, 40)), max_size=200)


@given(st.integers(1, 5), st.integers(0, 8), st.integers(0, 8), EVENTS)
def test_the_bound_holds_over_every_stretch(
    reserve: int, share: int, per_second: int, events: list[str | int]
) -> None:
    """Between any two moments no more is taken than the reserve and what was added."""
    budget = RetryBudget(reserve=reserve, share=share / 8, per_second=per_second / 8)
    clock = Clock()
    bucket = Bucket(budget, clock)
    counts = [(0, 0.0)]  # what was taken and added so far, after each event
    for event in events:
        took, added = counts[-1]
        if event == "call":
            bucket.calls += 1
            added += budget.share
        elif event == "take":
            took += bucket.take()
        else:
            clock.now += int(event) / 8
            added += budget.per_second * int(event) / 8
        counts.append((took, added))

    lowest = counts[0][0] - counts[0][1]
    for took, added in counts:
        assert took - added <= lowest + budget.reserve
        lowest = min(lowest, took - added)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("reserve", value) for value in (0, -1, 1.5, True, None, "20", float("inf"))),
        *(
            (field, value)
            for field in ("share", "per_second")
            for value in (-0.1, None, True, "1", float("nan"), float("inf"))
        ),
    ],
)
def test_a_budget_that_is_none(field: str, value: object) -> None:
    """A number that is out of its range is refused by name."""
    with pytest.raises(ConfigurationError, match=f"^{field} must be"):
        RetryBudget(**{field: value})  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("budget", [0, 0.1, True, "20", RetryBudget, {"reserve": 20}])
def test_what_is_no_budget(budget: Any) -> None:
    """A budget is a RetryBudget, so that nobody guesses its unit."""
    with pytest.raises(ConfigurationError, match="retry_budget must be a RetryBudget"):
        GatewaySession("https://gateway.test", access_token="t", retry_budget=budget)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, "<Bucket 100.0 of 100 retries left>"),
        ({"retry_budget": RetryBudget(reserve=5)}, "<Bucket 5.0 of 5 retries left>"),
        ({"retry_budget": None}, "None"),
    ],
)
def test_a_session_has_a_budget_unless_it_is_told_to_have_none(
    given: dict[str, Any], kept: str
) -> None:
    """Leaving it out means the default one; None means no bound."""
    session = GatewaySession("https://gateway.test", access_token="t", **given)

    assert repr(session._caller.client._bucket) == kept
    assert session.with_options(tenant_id="acme")._caller.client is session._caller.client
