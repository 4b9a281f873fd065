"""What was promised, and whether it was kept."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from benchmarks.measures.connections import RARE, WAYS as ROUTES
from benchmarks.measures.counts import WAYS
from benchmarks.measures.instructions import BY_HAND, SHARED, TRACED
from benchmarks.measures.opening import HTTPS, STORED
from benchmarks.measures.targets import TARGETS
from benchmarks.parts import PARTS
from benchmarks.peers import ALONE, OURS
from benchmarks.rounds import Seen, median_difference, median_ratio


class Budget(NamedTuple):
    """A limit for the ratio to another variant in the same round, or for a figure itself."""

    title: str
    part: str
    ours: str
    figures: tuple[str, ...]  # each of which must keep it
    limit: float
    theirs: str | None = None
    at_least: bool = False
    more: bool = False  # the limit is for what is more than theirs, not for the ratio


class Verdict(NamedTuple):
    """What was measured of a budget, by figure, and whether all of it keeps to the limit."""

    title: str
    limit: float
    at_least: bool
    measured: dict[str, float]
    met: bool


CPU: Final = ("cpu_us 1", "cpu_us 50", "cpu_us 200")
UPLOADS: Final = [name for name in PARTS["upload"].variants if name.startswith("gateway")]

BUDGETS: Final = (
    *(
        Budget("CPU / aiohttp", "cpu", OURS, (figure,), limit, "aiohttp")
        for figure, limit in zip(CPU, (0.50, 0.48, 0.50), strict=True)
    ),
    Budget("CPU / pyreqwest", "cpu", OURS, CPU, 1.0, "pyreqwest"),
    Budget("CPU / OpenAI on aiohttp", "cpu", OURS, CPU, 0.12, "AsyncOpenAI on aiohttp"),
    Budget("instructions, k", "instructions", OURS, ("instructions_k 1",), 215.0),
    Budget("instructions, k, shared token", "instructions", SHARED, ("instructions_k 1",), 232.0),
    Budget(
        "instructions, k, traced, + two spans",
        "instructions",
        TRACED,
        ("instructions_k 1",),
        110.0,
        BY_HAND,
        more=True,
    ),
    Budget("countries / aiohttp", "countries", OURS, ("cpu_us",), 1.15, "aiohttp"),
    Budget("5 MB of countries / aiohttp", "countries", OURS, ("long_cpu_us",), 1.2, "aiohttp"),
    Budget(
        "import / asyncio, httpx, tenacity, BaseModel",
        "counts",
        "import GatewaySession",
        ("instructions_k",),
        1.25,
        "import asyncio, httpx, tenacity, BaseModel",
    ),
    Budget(
        "import of SharedTokenSource, + ms",
        "imports",
        "from gateway_sdk import GatewaySession; from gateway_sdk.auth import SharedTokenSource",
        ("cpu_ms",),
        12.0,
        "from gateway_sdk import GatewaySession",
        more=True,
    ),
    Budget(
        "gateway --version / typer, rich",
        "commands",
        "gateway --version",
        ("cpu_ms",),
        1.3,
        "python -c 'import typer, rich'",
    ),
    Budget("loop held, ms", "opening", OURS, ("held_opening_cpu_ms", "held_first_cpu_ms"), 10.0),
    Budget("loop held, https, 1st call, ms", "opening", HTTPS, ("held_first_cpu_ms",), 10.0),
    Budget("loop held, stored login, ms", "opening", STORED, ("held_opening_cpu_ms",), 15.0),
    Budget("deadline passed by, ms", "deadlines", OURS, ("late_ms",), 500.0),
    Budget("writes sent after a deadline", "deadlines", OURS, ("sent_late",), 0.0),
    *(
        Budget(f"{way}, connections / callers", "connections", way, ("connections",), 1.1)
        for way in ROUTES
    ),
    Budget(f"{RARE} over TLS, time / ideal", "connections", RARE, ("time",), 1.05),
    Budget("embedded cluster, 1000 items, s", "embedded", "cluster.run", ("seconds",), 6.0),
    Budget("cluster, the program, ms an item", "embedded", "cluster.run", ("cpu_ms",), 0.1),
    Budget("the README's tests, s", "suite", "pytest", ("seconds",), 180.0),
    *(
        Budget(f"{variant} / curl", "upload", variant, ("ratio_curl",), 0.97, at_least=True)
        for variant in ("gateway file", "gateway stream")
    ),
    *(Budget(f"{name}, MiB", "upload", name, ("memory_growth_mib",), 4.0) for name in UPLOADS),
    *(
        Budget(f"{way}, instructions, k", "counts", way, ("instructions_k",), limit)
        for way, limit in zip(WAYS, (92.0, 112.0, 185.0), strict=True)
    ),
    Budget("bulk / aiohttp", "bulk", OURS, ("to_ideal 50",), 1.10, "aiohttp"),
    Budget("bulk / engine alone", "bulk", OURS, ("to_ideal 50",), 1.10, ALONE),
    Budget("an item, bytes", "items", "no journal", ("bytes",), 1.0),
    *(Budget(f"{name}, kept", "targets", name, ("kept",), 1.0, at_least=True) for name in TARGETS),
)


def judge(parts: Mapping[str, Seen]) -> list[Verdict]:
    """Judge each budget by what was measured; a short run measures fewer figures, or none."""
    found = []
    for budget in BUDGETS:
        seen = parts.get(budget.part, {})
        figures = [name for name in budget.figures if name in seen.get(budget.ours, {})]
        if figures and {budget.ours, budget.theirs} - {None} <= seen.keys():
            found.append(_judged(budget, figures, seen))
    return found


def _judged(budget: Budget, figures: list[str], seen: Seen) -> Verdict:
    measured = {}
    for figure in figures:
        ours = seen[budget.ours][figure]
        theirs = [1.0] * len(ours) if budget.theirs is None else seen[budget.theirs][figure]
        compare = median_difference if budget.more else median_ratio
        measured[figure] = compare(ours, theirs)
    kept = (
        value >= budget.limit if budget.at_least else value <= budget.limit
        for value in measured.values()
    )
    return Verdict(budget.title, budget.limit, budget.at_least, measured, all(kept))
