"""What was promised, and whether it was kept."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from benchmarks.peers import OURS
from benchmarks.rounds import Seen, median_ratio
from benchmarks.uploader import VARIANTS as UPLOADS

MAIN: Final = ("1", "50", "200")
HELD: Final = ("held_opening_cpu_ms", "held_first_cpu_ms")


class Budget(NamedTuple):
    """A limit for the ratio of two medians, or for a figure.

    Attributes:
        title: What is limited.
        part: In which it is measured.
        ours: The variant that has the budget.
        figures: Each of which must keep it.
        limit: The most that is allowed, or the least.
        theirs: The variant that it is compared with, or None for the figure itself.
        at_least: Whether the limit is the least.
    """

    title: str
    part: str
    ours: str
    figures: tuple[str, ...]
    limit: float
    theirs: str | None = None
    at_least: bool = False


class Verdict(NamedTuple):
    """What became of a budget.

    Attributes:
        title: Of the budget.
        limit: Of the budget.
        at_least: Whether the limit is the least.
        measured: A ratio, or a figure, for each of the budget's figures.
        met: Whether all of them keep to it.
    """

    title: str
    limit: float
    at_least: bool
    measured: dict[str, float]
    met: bool


def cpu(*levels: str) -> tuple[str, ...]:
    """Return the names of the figures of CPU time at some levels."""
    return tuple(f"cpu_us {name}" for name in levels)


BUDGETS: Final = (
    *(
        Budget("CPU / aiohttp", "cpu", OURS, cpu(at), limit, "aiohttp")
        for at, limit in (("1", 0.55), ("50", 0.48), ("200", 0.45))
    ),
    Budget("CPU / pyreqwest", "cpu", OURS, cpu(*MAIN), 0.85, "pyreqwest"),
    Budget("CPU / OpenAI on aiohttp", "cpu", OURS, cpu(*MAIN), 0.12, "AsyncOpenAI on aiohttp"),
    Budget("CPU / OpenAI", "cpu", OURS, cpu(*MAIN), 0.12, "AsyncOpenAI"),
    Budget(
        "import / httpx, tenacity, BaseModel",
        "imports",
        "from gateway_sdk import GatewaySession",
        ("cpu_ms",),
        1.3,
        "import httpx, tenacity; from pydantic import BaseModel",
    ),
    Budget("loop held", "opening", OURS, HELD, 20.0),
    Budget("1st call", "opening", OURS, ("first_cpu_ms",), 10.0),
    *(
        Budget(f"{variant} / curl", "upload", variant, ("ratio_curl",), 0.97, at_least=True)
        for variant in ("gateway file", "gateway stream")
    ),
    *(
        Budget(f"{variant}, MiB", "upload", variant, ("memory_growth_mib",), 4.0)
        for variant in UPLOADS
        if variant.startswith("gateway")
    ),
    Budget("bulk / aiohttp", "bulk", OURS, ("seconds 50",), 1.10, "aiohttp"),
)


def judge(parts: Mapping[str, Seen]) -> list[Verdict]:
    """Say of each budget what was measured, as far as it was."""
    found = []
    for budget in BUDGETS:
        seen = parts.get(budget.part, {})
        needed = {budget.ours, budget.theirs} - {None}
        # A short run measures fewer figures, or none of a budget.
        measured = any(figure in seen.get(budget.ours, {}) for figure in budget.figures)
        if measured and needed <= seen.keys():
            found.append(_judged(budget, seen))
    return found


def _judged(budget: Budget, seen: Seen) -> Verdict:
    measured = {}
    for figure in budget.figures:
        ours = seen[budget.ours].get(figure)
        if ours is None:
            continue
        theirs = [1.0] * len(ours) if budget.theirs is None else seen[budget.theirs][figure]
        measured[figure] = median_ratio(ours, theirs)
    kept = (
        value >= budget.limit if budget.at_least else value <= budget.limit
        for value in measured.values()
    )
    return Verdict(budget.title, budget.limit, budget.at_least, measured, all(kept))
