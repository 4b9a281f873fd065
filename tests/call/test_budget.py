"""The retry budget: its arithmetic."""

from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from gateway_sdk import GatewaySession, RetryBudget
from gateway_sdk._call.retry import Bucket


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


EVENTS = st.lists(st.one_of(st.sampled_from(["call", "take"]), st.integers(1, 40)), max_size=200)


@given(st.integers(1, 5), st.integers(0, 8), st.integers(0, 8), EVENTS)
@example(2, 2, 0, ["take"] * 3 + ["call"] * 4 + ["take"] * 2)
@example(2, 0, 4, ["take"] * 3 + [15, "take", 1, "take", "take", 40, "take", "take", "take"])
def test_calls_and_time_fill_the_bucket_up_to_its_reserve(
    reserve: int, share: int, per_second: int, events: list[str | int]
) -> None:
    clock = Clock()
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


@pytest.mark.parametrize(
    ("given", "kept"),
    [({}, 100), ({"retry_budget": RetryBudget(reserve=5)}, 5), ({"retry_budget": None}, 1000)],
)
def test_a_session_has_a_budget_unless_it_is_told_to_have_none(
    given: dict[str, Any], kept: int
) -> None:
    shared = GatewaySession("https://gateway.test", access_token="t", **given)._caller.shared

    assert sum(shared.take_retry() for _ in range(1000)) == kept
