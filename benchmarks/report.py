"""The tables in the terminal, 80 columns wide, and the file of all figures."""

import os
import platform
import statistics
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from benchmarks.budgets import Verdict, judge
from benchmarks.parts import PARTS
from benchmarks.peers import ALONE, OURS
from benchmarks.rounds import Seen, median_ratio

NAME: Final = 24
WIDTH: Final = 80
PACKAGES: Final = (
    "gateway-sdk",
    "aiohttp",
    "httpx",
    "httpx2",
    "openai",
    "openapi-python-client",
    "pyreqwest",
    "pydantic",
    "tenacity",
)
FULL_SERVER: Final = 0.8
"""From here on the server would be what is measured."""


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    installed = {}
    for name in PACKAGES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": installed,
        "load_before": round(os.getloadavg()[0], 2),
    }


def processor() -> str:
    """Return the model's name, as far as the system tells."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def summary(values: list[float]) -> dict[str, Any]:
    """Return the median of all rounds, their lowest and highest, and each of them."""
    return {
        "median": round(statistics.median(values), 4),
        "lowest": round(min(values), 4),
        "highest": round(max(values), 4),
        "rounds": [round(value, 4) for value in values],
    }


def results(
    about: dict[str, Any], parts: Mapping[str, Seen], missing: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Return all that was measured, for a file."""
    return {
        "machine": about,
        "parts": {
            part: {
                variant: {name: summary(values) for name, values in figures.items()}
                for variant, figures in seen.items()
            }
            for part, seen in parts.items()
        },
        "left_out": missing,
        "budgets": [verdict._asdict() for verdict in judge(parts)],
    }


def table(name: str, seen: Seen, missing: Mapping[str, str]) -> Iterator[str]:
    """Give the lines of one part's table."""
    part = PARTS[name]
    columns = {
        heading: figure
        for heading, figure in part.columns.items()
        if any(figure in figures for figures in seen.values())
    }
    names = max(NAME, *map(len, part.variants))
    wide = (WIDTH - names) // max(1, len(columns))
    yield f"{part.title}; ± percent"
    yield " " * names + "".join(heading.rjust(wide) for heading in columns)
    for variant in part.variants:
        if variant in missing:
            yield f"{variant:{names}}  left out: {missing[variant]}"
            continue
        cells = (cell(seen[variant].get(figure)) for figure in columns.values())
        yield f"{variant:{names}}" + "".join(text.rjust(wide) for text in cells)


def cell(values: list[float] | None) -> str:
    """Return a median, and half of what lies between the extremes, in percent of it."""
    if not values:
        return ""
    middle = statistics.median(values)
    text = f"{middle:.2f}" if middle < 10 else f"{middle:.0f}"  # noqa: PLR2004 - three digits
    if len(values) == 1 or not middle:
        return text
    return f"{text}±{(max(values) - min(values)) / 2 / middle * 100:.0f}"


def ratios(seen: Seen) -> Iterator[str]:
    """Give the lines of a table of CPU time per call: ours in parts of that of each peer."""
    columns = {
        heading: figure
        for heading, figure in PARTS["cpu"].columns.items()
        if all(figure in figures for figures in seen.values())
    }
    wide = (WIDTH - NAME) // max(1, len(columns))
    ours_all = [name for name in seen if name in (OURS, ALONE)]
    for ours in ours_all:
        yield f"CPU time per call of {ours} / that of"
        for name in (name for name in seen if name not in ours_all):
            found = (
                median_ratio(seen[ours][figure], seen[name][figure]) for figure in columns.values()
            )
            yield f"{name:{NAME}}" + "".join(f"{ratio:{wide}.2f}" for ratio in found)


def server_load(seen: Seen) -> Iterator[str]:
    """Say what a request costs the server, and whether it was ever what limited a client."""
    busy = {
        (value, variant, figure.removeprefix("server_busy "))
        for variant, figures in seen.items()
        for figure, values in figures.items()
        if figure.startswith("server_busy ")
        for value in values
    }
    if not busy:
        return
    most, variant, at = max(busy)
    cost = [
        value
        for figures in seen.values()
        for figure, values in figures.items()
        if figure == f"server_us {at}"
        for value in values
    ]
    yield f"The server takes {min(cost):.0f} us of CPU per request."
    yield f"It is {most:.0%} busy at the most ({variant}, {at})."
    if most > FULL_SERVER:
        yield "That is too much: the server was what limited that client."


def budget_lines(verdicts: list[Verdict]) -> Iterator[str]:
    """Give one line for each budget: what it allows, what was measured, and what became of it."""
    yield "Budgets: what is allowed, and what was measured"
    for verdict in verdicts:
        sign = ">=" if verdict.at_least else "<="
        values = " ".join(f"{value:.2f}" for value in verdict.measured.values())
        state = "met" if verdict.met else "MISSED"
        yield f"{verdict.title:34} {sign} {verdict.limit:.2f} {values:29} {state:>6}"
