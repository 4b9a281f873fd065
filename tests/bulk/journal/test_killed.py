"""Runs that are killed with SIGKILL at any moment: no yielded result is lost or doubled."""

from pathlib import Path

import pytest

from benchmarks import resume


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("kills", "count"), [(2, 120), pytest.param(10, 250, marks=pytest.mark.full)]
)
async def test_kills_lose_nothing_and_double_nothing(path: Path, kills: int, count: int) -> None:
    outcome = await resume.resume(path, count, kills=kills, seed=7)

    assert resume.missed(outcome) == []
    assert len(outcome["killed_at"]) == kills
    assert 0 < outcome["killed_at"][0] < outcome["killed_at"][-1] < count
    assert all("rates" in line["value"] for line in resume.rows(path))


def test_an_error_in_resuming_is_found() -> None:
    wrong = {"lost": 1, "doubled": 2, "missing": 3, "failed": 4}

    assert resume.missed({"count": 9, "yielded_at_last": 8, **wrong}) == [
        "1 lost", "2 doubled", "3 missing", "4 failed", "8 results at last",
    ]  # fmt: skip
