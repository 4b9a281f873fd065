"""What is measured, of which variants, and how long: a whole run, and a short one."""

import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from benchmarks.measures.commands import COMMANDS
from benchmarks.measures.connections import RARE, WAYS as ROUTES
from benchmarks.measures.counts import IMPORTS, WAYS
from benchmarks.measures.cpu import level
from benchmarks.measures.instructions import BY_HAND, KINDS, TRACED
from benchmarks.measures.opening import HTTPS, STORED
from benchmarks.measures.targets import TARGETS
from benchmarks.peers import ALONE, OURS, PEERS

Settings = Mapping[str, Any]

LEVELS: Final = ((1, 0), (10, 0), (50, 0), (200, 0), (500, 0), (50, 50))
CALLERS: Final = (1, 50, 200)
LATENCIES: Final = (5, 50, 200)
STATEMENTS: Final = {
    "from gateway_sdk import GatewaySession": "gateway_sdk",
    "from gateway_sdk import GatewaySession; from gateway_sdk.auth import SharedTokenSource": (
        "gateway_sdk"
    ),
    "import httpx, pydantic, tenacity": "httpx",
    "import httpx, tenacity; from pydantic import BaseModel": "httpx",
    "import aiohttp": "aiohttp",
    "import openai": "openai",
}
"""What is imported, and the module that must be installed."""
COUNTED: Final = ("instructions", "counts")
"""The parts that valgrind counts."""
NEAREST: Final = ("aiohttp", "httpx", OURS)


class Part(NamedTuple):
    """One table: its rows, its figures by heading, and how it is measured, whole and in short."""

    title: str
    variants: tuple[str, ...]
    columns: Mapping[str, str]
    full: Settings
    short: Settings  # only what is different
    server: str = "gateway_server"


PARTS: Final = {
    "cpu": Part(
        "CPU time per call by concurrent calls, us (+50ms: in the server)",
        tuple(PEERS),
        {level(*pair): f"cpu_us {level(*pair)}" for pair in LEVELS},
        {"rounds": 5, "levels": LEVELS, "seconds": 0.4},
        {"rounds": 1, "levels": ((1, 0), (50, 0), (50, 5)), "seconds": 0.01},
    ),
    "instructions": Part(
        "Instructions of a warm call by concurrent calls, thousands",
        tuple(KINDS),
        {f"{callers}": f"instructions_k {callers}" for callers in CALLERS},
        {"rounds": 1, "callers": CALLERS, "calls": (400, 2400)},
        {"rounds": 1, "callers": (1,), "calls": (20, 40)},
    ),
    "counts": Part(
        "Instructions of an import in a bare environment, and of an item of `bulk.run`, thousands",
        (*IMPORTS, *WAYS),
        {"": "instructions_k"},
        {"rounds": 1, "items": (500, 3000)},
        {"rounds": 1, "items": (10, 20)},
    ),
    "latency": Part(
        "Latency at 150 calls per second from when each was due, ms",
        tuple(PEERS),
        {"p50": "p50_ms", "p95": "p95_ms", "p99": "p99_ms", "longest": "max_ms"},
        {"rounds": 4, "rate": 150, "seconds": 4},
        {"rounds": 1, "rate": 400, "seconds": 0.05},
    ),
    "blocking": Part(
        "How late a timer of 1 ms is beside 50 callers, ms",
        tuple(PEERS),
        {"p50": "late_p50_ms", "p99": "late_p99_ms", "longest": "late_max_ms"},
        {"rounds": 3, "callers": 50, "seconds": 0.7},
        {"rounds": 1, "seconds": 0.02},
    ),
    "opening": Part(
        "Longest turn of the loop: opening, first call; that call's CPU, +; ms",
        (*NEAREST, HTTPS, STORED),
        {
            "opening": "held_opening_ms",
            "its CPU": "held_opening_cpu_ms",
            "1st call": "held_first_ms",
            "its CPU ": "held_first_cpu_ms",
            "CPU, +": "first_cpu_ms",
        },
        {"rounds": 7, "calls": 20},
        {"rounds": 1, "calls": 3},
    ),
    "memory": Part(
        "Resident memory of the process, MiB",
        tuple(PEERS),
        {"after one call": "rest_mib", "most, 200 callers": "peak_mib"},
        {"rounds": 3, "callers": 200, "seconds": 0.5},
        {"rounds": 1, "seconds": 0.02},
    ),
    "imports": Part(
        "Import in a fresh interpreter, ms",
        tuple(STATEMENTS),
        {"wall": "wall_ms", "CPU": "cpu_ms"},
        {"rounds": 9},
        {"rounds": 1},
    ),
    "commands": Part(
        "A command from its start to its end, ms",
        tuple(COMMANDS),
        {"wall": "wall_ms", "CPU": "cpu_ms"},
        {"rounds": 9},
        {"rounds": 1},
    ),
    "bulk": Part(
        "1000 calls, 50 at once: time / ideal, by the server's latency",
        ("raw sockets", "aiohttp", "httpx", ALONE, f"{OURS}, by tasks", OURS),
        {f"{milliseconds} ms": f"to_ideal {milliseconds}" for milliseconds in LATENCIES},
        {"rounds": 3, "calls": 1000, "latencies": LATENCIES},
        {"rounds": 1, "calls": 100, "latencies": (5,)},
    ),
    "items": Part(
        "An item of `bulk.run` that does nothing",
        ("no journal", "journal", "journal that has all results"),
        {"time, us": "us", "memory that stays, bytes": "bytes"},
        {"rounds": 2, "items": 1_000_000},
        {"rounds": 1, "items": 2000},
    ),
    "countries": Part(
        "A list of 250 countries, and one of 5 MB, as models, CPU time, us",
        NEAREST,
        {"a list": "cpu_us", "5 MB": "long_cpu_us"},
        {"rounds": 4, "lists": 300, "long": 4},
        {"rounds": 1, "lists": 2, "long": 1},
    ),
    "deadlines": Part(
        "How late the last of calls ends that wait at their deadline, ms; writes that leave late",
        (OURS,),
        {"3,000 calls": "late_ms", "of 200 writes": "sent_late"},
        {"rounds": 3, "calls": 3000},
        {"rounds": 1, "calls": 60},
    ),
    "upload": Part(
        "One large upload",
        (
            *("curl file", "curl stream", "httpx file", "httpx stream"),
            *("gateway file", "gateway stream", "gateway form"),
        ),
        {
            "MiB/s": "mib_per_second",
            "/ curl": "ratio_curl",
            "/ httpx": "ratio_httpx",
            "CPU, s": "cpu_seconds",
            "+ MiB": "memory_growth_mib",
            "loop held, ms": "blocked_ms",
        },
        {"rounds": 5, "mib": 1024},
        {"rounds": 1, "mib": 32},
        "upload_server",
    ),
    "connections": Part(
        "Connections of 1000 calls by caller; rare writes over TLS, 100 ms away: time / ideal",
        (*ROUTES, RARE),
        {"connections": "connections", "time": "time"},
        {"rounds": 1},
        {"rounds": 1},
    ),
    "embedded": Part(
        "A Dask cluster of two workers: 1000 items from start to end, s; the program's CPU, ms",
        ("cluster.run",),
        {"time": "seconds", "CPU of an item": "cpu_ms"},
        {"rounds": 3, "items": (1000, 6000)},
        {"rounds": 1, "items": (10, 20)},
        "counting_gateway",
    ),
    "suite": Part(
        "The README's test command, without its installations, s",
        ("pytest",),
        {"time": "seconds"},
        {"rounds": 1, "tests": ()},
        {"rounds": 1, "tests": ("tests/shape/test_path.py",)},
    ),
    "targets": Part(
        "Commands with targets of their own: 1 if all are kept",
        tuple(TARGETS),
        {"kept": "kept"},
        {"rounds": 1, "short": False},
        {"rounds": 1, "short": True},
    ),
}


def settings_of(name: str, *, short: bool) -> dict[str, Any]:
    """Return how a part is measured."""
    part = PARTS[name]
    return {**part.full, **(part.short if short else {})}


def left_out(name: str) -> dict[str, str]:
    """Return the variants of a part that cannot be measured here, and why."""
    found = {}
    for variant in PARTS[name].variants:
        needs = PEERS[variant].needs if variant in PEERS else ()
        needs += (STATEMENTS[variant],) if variant in STATEMENTS else ()
        needs += ("opentelemetry.sdk",) if variant in (TRACED, BY_HAND) else ()
        missing = [module for module in needs if not _is_installed(module)]
        programs = {"upload": "curl" * variant.startswith("curl")}
        programs |= dict.fromkeys(COUNTED, "valgrind")
        if (program := programs.get(name)) and shutil.which(program) is None:
            missing.append(program)
        if missing:
            found[variant] = f"{' and '.join(missing)} not installed"
    return found


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package that has it
        return False
