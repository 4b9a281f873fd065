"""What was measured, for a file: each round of each figure, and the machine."""

import os
import platform
import statistics
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from benchmarks.budgets import judge
from benchmarks.rounds import Seen

PACKAGES: Final = (
    *("gateway-sdk", "aiohttp", "httpx", "httpx2", "openai", "openapi-python-client"),
    *("pyreqwest", "pydantic", "tenacity"),
)


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
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": installed,
        "load_before": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    """Return the model's name, as far as the system tells."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _summary(values: list[float]) -> dict[str, Any]:
    return {
        "median": round(statistics.median(values), 4),
        "lowest": round(min(values), 4),
        "highest": round(max(values), 4),
        "rounds": [round(value, 4) for value in values],
    }


def results(
    about: dict[str, Any], parts: Mapping[str, Seen], missing: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Return all that was measured, and what became of the budgets."""
    return {
        "machine": about,
        "parts": {
            part: {
                variant: {name: _summary(values) for name, values in figures.items()}
                for variant, figures in seen.items()
            }
            for part, seen in parts.items()
        },
        "left_out": missing,
        "budgets": [verdict._asdict() for verdict in judge(parts)],
    }
