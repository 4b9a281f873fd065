"""No context of a call makes its session lie, hang, leak, or cancel somebody else's code."""

import time
from collections import Counter

import pytest

from gateway_sdk import Outcome
from tests.support.contexts import CONTEXTS, LOOPS, fuzz

FULL = 20.0
"""Seconds for each loop with --full."""


@pytest.mark.parametrize("loop", LOOPS)
def test_random_contexts_of_calls(loop: str) -> None:
    totals: Counter[str] = Counter()

    for seed in range(2):
        fuzz(loop, seed, totals)

    assert totals["rounds"] == 2


@pytest.mark.full
@pytest.mark.parametrize("loop", LOOPS)
def test_more_random_contexts_of_calls(loop: str) -> None:
    totals: Counter[str] = Counter()
    wanted = {context.__name__ for context in CONTEXTS} | {repr(outcome) for outcome in Outcome}
    end = time.monotonic() + FULL

    # On a slow machine longer, until each has come; else the time of a test ends it.
    while time.monotonic() < end or not wanted < set(totals):
        fuzz(loop, time.time_ns(), totals)

    assert totals["DeadlineExceededError"] > 50
