"""The commands beside `python -m benchmarks`, in short: they notice what goes wrong."""

import asyncio
from typing import Any

import pytest

from benchmarks import adaptive, cluster, small_runs, soak, trust
from benchmarks.processes import server

SAMPLE = {"calls": 9, "tasks": 0, "threads": 0, "free": 20, "connections": 20, "memory_mib": 50.0}
GOOD: dict[str, Any] = {
    "usable": 20,
    "server": {"open": 0},
    "samples": [{**SAMPLE, "descriptors": 30, "outcomes": {"done": 1}}] * 10,
}


async def test_nothing_leaks_where_much_is_cut() -> None:
    """After thousands of calls, a third of them cut, every slot is usable and nothing is held."""
    with server("soak_server", "1") as url:
        outcome = await soak.soak(url, 2000, 1, soak.show)

    assert soak.missed(outcome) == []
    ends = [sample["outcomes"] for sample in outcome["samples"]]
    assert {"done", "cut before it began", "cut NOT_SENT", "cut UNKNOWN"} <= set().union(*ends)
    assert sum(sum(each.values()) for each in ends) == 2000


@pytest.mark.parametrize(
    "change",
    [
        *({"tasks": 1}, {"threads": 1}, {"free": 19}, {"connections": 21}, {"memory_mib": 60.0}),
        *({"descriptors": 51}, {"outcomes": {"UNEXPECTED KeyError": 1}}),
        *({"usable": 19}, {"server": {"open": 1}}),
    ],
    ids=str,
)
def test_a_soak_sees_what_leaks(change: dict[str, Any]) -> None:
    *samples, last = GOOD["samples"]
    bad = GOOD | change if change.keys() <= GOOD.keys() else {"samples": [*samples, last | change]}

    assert soak.missed(GOOD) == []
    assert len(soak.missed(GOOD | bad)) == 1


async def test_the_sweep_sees_what_the_server_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a real socket, both ways of running are measured; what is missed is named."""
    monkeypatch.setattr(adaptive, "LATENCY", 0.01)

    outcome = await asyncio.to_thread(adaptive.run, 4, "429", 0.5, 0.5)

    assert outcome["rate"] > 0
    assert 0 <= outcome["refused"] < 1
    assert adaptive.missed(outcome | {"ratio": 0.85, "refused": 0.02}) == []
    assert len(adaptive.missed(outcome | {"ratio": 0.84, "refused": 0.021})) == 2


def test_a_trial_of_the_cluster_that_loses_an_item_or_takes_too_long_is_told() -> None:
    assert cluster.missed("a", {"done": 9}, 9, 1.5, 1.5) == []
    assert len(cluster.missed("a", {"done": 8, "failed": 1}, 9, 1.6, 1.5)) == 2


async def test_small_runs_are_compared_on_connections_that_are_cut() -> None:
    outcome = await asyncio.to_thread(small_runs.compare, 0.001, 0.2, 40, 1)

    assert min(outcome["10"], outcome["50"], outcome["adaptive"]) > 0
    assert small_runs.missed(outcome | {"ratio": 1.25, "failed": 3}, 1) == []
    assert len(small_runs.missed(outcome | {"ratio": 1.26, "failed": 4}, 1)) == 2


async def test_a_weak_way_costs_one_write() -> None:
    """The relay resets what rests; the scenario counts what becomes of the calls."""
    ends, connections, _ = await trust.run(trust.SCENARIOS["resets 10, writes"])

    assert ends == {"ok": 12, "UNKNOWN": 1}
    assert 1 <= connections <= 12
