"""The benchmarks of bulk runs in short: what they see must be right, however fast it was."""

import asyncio
from typing import Any

import pytest

from benchmarks import adaptive, bulk


@pytest.mark.timeout(240)
async def test_the_sweep_sees_what_the_server_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a real socket, both ways of running are measured and compared."""
    monkeypatch.setattr(adaptive, "LATENCY", 0.01)

    outcome = await asyncio.to_thread(adaptive.run, 4, "429", 0.5, 0.5)

    assert outcome["rate"] > 0
    assert outcome["ratio"] > 0
    assert 0 <= outcome["refused"] < 1
    assert adaptive.row(outcome).startswith("| 4 | 429 | ")


@pytest.mark.parametrize(
    ("change", "problem"),
    [({"ratio": 0.84}, "0.84 of the best"), ({"refused": 0.021}, "2.1% refused")],
)
def test_the_sweep_names_what_missed_its_target(change: dict[str, float], problem: str) -> None:
    """By the limit and the way in which the server refuses."""
    good: dict[str, Any] = {"limit": 4, "way": "429", "ratio": 0.85, "refused": 0.02}

    assert adaptive.missed(good) == []
    (found,) = adaptive.missed({**good, **change})
    assert found.startswith("4, 429: ")
    assert problem in found


@pytest.mark.timeout(240)
async def test_a_bulk_run_leaves_nothing_behind_per_item(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is measured in three ways, and memory with a journal and without one."""
    monkeypatch.setattr(bulk, "CALLS", 100)
    monkeypatch.setattr(bulk, "LATENCY", 0.001)

    outcome = await asyncio.to_thread(bulk.run, 1, 2000)

    assert set(outcome) == {
        "bare", "session", "bulk", "bulk/bare", "bulk/session", "bytes_per_item",
        "bytes_per_key", "journal_us_per_item", "resume_us_per_item",
    }  # fmt: skip
    assert all(outcome[name] > 0 for name in ("bare", "session", "bulk", "journal_us_per_item"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [({"bulk/bare": 1.11}, "1.11 times"), ({"bytes_per_item": 1.1}, "1.1 bytes per item")],
)
def test_a_bulk_run_that_costs_too_much_is_named(change: dict[str, float], problem: str) -> None:
    """Each budget that was missed, with its figure."""
    good = {"bulk/bare": 1.1, "bytes_per_item": 1.0}

    assert bulk.missed(good) == []
    (found,) = bulk.missed({**good, **change})
    assert problem in found
