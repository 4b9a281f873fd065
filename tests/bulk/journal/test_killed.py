"""Runs that are killed with SIGKILL at any moment: no yielded result is lost or doubled."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import resume

COUNT = 250


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.full)])
async def test_kills_lose_nothing_and_double_nothing(tmp_path: Path, kills: int) -> None:
    """Resumed after each kill, the journal ends complete: one line per item, with its value."""
    path = tmp_path / "journal.db"

    outcome = await resume.resume(path, COUNT, kills=kills, seed=7)

    assert resume.missed(outcome) == []
    assert len(outcome["killed_at"]) == kills
    assert 0 < outcome["killed_at"][0] < outcome["killed_at"][-1] < COUNT
    assert all("rates" in line["value"] for line in resume.rows(path))


GOOD: dict[str, Any] = {
    "count": 9,
    "yielded_at_last": 9,
    "lost": 0,
    "doubled": 0,
    "missing": 0,
    "failed": 0,
}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"lost": 1}, "1 lost"),
        ({"doubled": 2}, "2 doubled"),
        ({"missing": 3}, "3 missing"),
        ({"failed": 4}, "4 failed"),
        ({"yielded_at_last": 8}, "8 results at last"),
    ],
)
def test_an_error_in_resuming_is_found(change: dict[str, int], problem: str) -> None:
    """Each figure that must be 0 is named if it is not."""
    assert resume.missed(GOOD) == []
    assert resume.missed({**GOOD, **change}) == [problem]
