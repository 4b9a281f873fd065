"""Trials of a fleet, and its costs: `python -m benchmarks.fleet [NAME ...]`."""

import asyncio
import json
import random
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.fleet import costs, trials

RATES = {"outage": 300, "term": 100}
EVERY = ("kills", "all_kills", "poison", "outage", "term", "permits", "cpu", "million")


def run(name: str) -> dict[str, Any]:
    """Run one trial in a place of its own."""
    plot: dict[str, Any] = {"number": 20_000, "once": 100, "workers": 4, "killed": 20}
    given: dict[str, Any] = {
        "rate": RATES.get(name, 600),
        "latency": 0.0 if name == "cpu" else 0.02,
    }
    with trials.place(**given) as where:
        if name == "permits":
            return {
                f"{rate}/s, {processes}": costs.permits(where, rate, processes)
                for rate in (20, 200, 2000)
                for processes in (2, 4, 8)
            }
        every: dict[str, Callable[[], Coroutine[Any, Any, dict[str, Any]]]] = {
            "kills": lambda: trials.kills(where, **plot, stops=0, database=False),
            "all_kills": lambda: trials.kills(where, **plot, stops=3, database=True),
            "poison": lambda: trials.poison(where),
            "outage": lambda: trials.outage(where, number=9000, seconds=60),
            "term": lambda: trials.term(where),
            "cpu": lambda: costs.cpu(where),
            "million": lambda: costs.million(where),
        }
        return asyncio.run(every[name]())


if __name__ == "__main__":
    random.seed(1)
    for wanted in sys.argv[1:] or EVERY:
        print(wanted, json.dumps(run(wanted)), flush=True)
