"""The table of adaptive runs over real sockets, in short: what it sees must be right."""

from typing import Any

import pytest

from benchmarks import simulated, sockets


@pytest.mark.timeout(240)
def test_the_table_is_measured_on_a_real_socket(capsys: pytest.CaptureFixture[str]) -> None:
    """Both ways of running are measured; what is missed is counted."""
    name = "100 in any second, Retry-After: 1"

    count = sockets.main(["--only", name, "--seconds", "1"])

    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith(f"| {name} | ")
    assert sum(line.startswith("missed: ") for line in lines) == count


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"ratio": 0.94}, "0.94 of the best"),
        ({"refused": 0.011}, "1.1% refused"),
        ({"lost": 3}, "3 items failed for a 429"),
    ],
)
def test_what_missed_its_target_is_named(change: dict[str, Any], problem: str) -> None:
    """By the gateway, and in the row."""
    good = {"name": "limit 50", "rate": 240.0, "ratio": 0.95, "refused": 0.01, "lost": 0}

    assert sockets.missed(good) == []
    assert sockets.row(good).endswith("| pass |")
    (found,) = sockets.missed({**good, **change})
    assert found.startswith("limit 50: ")
    assert problem in found
    assert sockets.row({**good, **change}).endswith("| fail |")


def test_the_simulated_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each gateway."""
    missed = simulated.main(["--seeds", "1"])

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(simulated.TABLE) + missed
