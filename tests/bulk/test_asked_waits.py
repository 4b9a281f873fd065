"""Waits that the gateway asks for: no item is asked sooner, in any round of a run."""

import itertools
from collections import Counter
from typing import Any

import httpx
import pytest

from gateway_sdk import RetryPolicy, errors
from tests.bulk.runs import Answering, Memory, ask
from tests.bulk.test_outage import done, item_of, orders
from tests.support import virtual_time


def asking(status: int, seconds: float) -> httpx.Response:
    return httpx.Response(status, headers={"Retry-After": f"{seconds:g}"})


@pytest.mark.parametrize("concurrency", ["adaptive", 10])
@pytest.mark.parametrize("retry", [None, RetryPolicy()])
@pytest.mark.parametrize("status", [429, 503])
def test_a_wait_beyond_the_patience_ends_the_run_at_once(
    status: int, retry: RetryPolicy | None, concurrency: Any
) -> None:
    transport = Answering(lambda _: asking(status, 7200), seconds=0.1)

    with pytest.raises(errors.OutageError, match="a wait of 7200 s, longer than") as caught:
        ask(transport, orders, 300, retry=retry, concurrency=concurrency)

    assert isinstance(caught.value.__cause__, errors.StatusError)
    assert len(transport.asked) <= 20
    assert transport.asked[-1][1] < 1.0


@pytest.mark.parametrize("concurrency", [1, 10])
@pytest.mark.parametrize("status", [429, 503])
def test_a_long_wait_is_an_outage_and_is_never_shortened(status: int, concurrency: int) -> None:
    """Longer than the session waits. Then one item tries, and the others go on if it succeeds."""

    def answer(request: httpx.Request) -> httpx.Response:
        return done(request) if virtual_time.now() >= 600 else asking(status, 600)

    transport, told = Answering(answer), list[Any]()
    results = ask(
        transport, orders, 30, retry=RetryPolicy(), concurrency=concurrency,
        on_progress=lambda progress: told.append(progress.outage),
    )  # fmt: skip

    assert [result.error for result in results] == [None] * 30
    assert sum(moment < 600 for _, moment in transport.asked) <= concurrency
    assert len(transport.asked) == 30 + sum(moment < 600 for _, moment in transport.asked)
    assert any(told)


def test_a_longer_wait_than_is_left_of_the_patience_ends_the_run() -> None:
    transport = Answering(lambda _: asking(503, 600))

    with pytest.raises(errors.OutageError, match="the gateway asks for a wait of 600 s"):
        ask(transport, orders, 30, retry=RetryPolicy(), concurrency=1, patience=1000)

    assert [moment for _, moment in transport.asked] == [0, 600]


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("patience", "concurrency"), [(0, 10), *itertools.product([0.01, 2, 3600], [1, 10])]
)
def test_a_longer_wait_for_one_item_is_its_result(
    patience: float, concurrency: int, status: int
) -> None:
    """Others succeed, so there is no outage: the run does not wait silently for one item."""
    ledger = Memory()

    def answer(request: httpx.Request) -> httpx.Response:
        return asking(status, 100_000) if item_of(request) == 3 else done(request)

    transport = Answering(answer)
    options: dict[str, Any] = {
        "concurrency": concurrency,
        "patience": patience,
        "journal": ledger,
    }
    results = ask(transport, orders, 30, retry=RetryPolicy(), **options)

    assert [result.item for result in results if result.error] == [3]
    assert len(transport.asked) == 30
    assert transport.asked[-1][1] < 1.0
    states = Counter(entry.state.value for entry in ledger.entries.values())
    assert states == {"done": 29, "failed": 1}


@pytest.mark.parametrize("seconds", [20, 600])
def test_an_item_is_asked_no_sooner_also_while_others_succeed(seconds: float) -> None:
    """After two later rounds its failure is its result, and it holds up nobody."""
    moments: list[float] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if item_of(request) != 3:
            return done(request)
        moments.append(virtual_time.now())
        return asking(503, seconds)

    results = ask(Answering(answer, seconds=0.1), orders, 300, concurrency=10)

    assert [result.item for result in results if result.error] == [3]
    assert len(moments) == 3
    assert all(later - sooner >= seconds for sooner, later in itertools.pairwise(moments))
