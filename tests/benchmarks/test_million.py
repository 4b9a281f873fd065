"""A large plan, in processes whose memory is looked at."""

import re
from typing import Any

from benchmarks import million

IMPORTS = 100
"""Mebibytes that a process has before it does anything, and some more."""

COLLECTING = 512


def test_memory_does_not_grow_with_a_plan(capsys: Any) -> None:
    """Planning and submitting need what imports need; collecting stays below its limit."""
    million.main(100_000, 1000)

    rows = re.findall(
        r"^\| ([\w ]+) \| [\d.]+ \| [\d.]+ \| (\d+) \|$", capsys.readouterr().out, re.MULTILINE
    )
    memory = {step: int(size) for step, size in rows}
    assert list(memory) == list(million.STEPS)
    for step in ("plan", "plan again", "submit", "status"):
        assert memory[step] < memory["nothing"] + IMPORTS / 2
    assert memory["nothing"] < IMPORTS
    assert memory["collect"] < COLLECTING
