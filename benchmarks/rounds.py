"""Variants in turn, round after round, each time in a fresh process."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from benchmarks import upload
from benchmarks.measures.load import Figures
from benchmarks.parts import PARTS, left_out
from benchmarks.processes import ROOT

Seen = dict[str, dict[str, list[float]]]
"""What was measured, by variant and figure: a number for each round."""
Tell = Callable[[str], object]

IMPORT: Final = """
import json, time
wall, cpu = time.perf_counter(), time.process_time()
{}
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(json.dumps({{"wall_ms": wall * 1000, "cpu_ms": cpu * 1000}}))
"""
UNWANTED: Final = {"http_proxy", "https_proxy", "all_proxy", "no_proxy", "pythondontwritebytecode"}
"""A proxy would be what is measured; and installed packages have been compiled before."""


def in_process(*arguments: str) -> Figures:
    """Run Python with arguments, and read the JSON that it prints."""
    environment = {name: at for name, at in os.environ.items() if name.lower() not in UNWANTED}
    # What is run is ours.
    output = subprocess.run(  # noqa: S603
        [sys.executable, *arguments], stdout=subprocess.PIPE, check=True, cwd=ROOT, env=environment
    ).stdout
    figures: Figures = json.loads(output)
    return figures


def interleaved(
    variants: Iterable[str], rounds: int, measure: Callable[[str], Figures], tell: Tell
) -> Seen:
    """Measure each variant once in each round; each round begins with another one.

    What the machine does meanwhile so hits all of them alike, and two of one round can be compared.
    """
    names = list(variants)
    seen: Seen = {name: {} for name in names}
    for number in range(rounds):
        start = number % max(1, len(names))
        for name in names[start:] + names[:start]:
            tell(f"round {number + 1} of {rounds}: {name}")
            for figure, value in measure(name).items():
                seen[name].setdefault(figure, []).append(value)
    return seen


def measure_part(name: str, settings: dict[str, Any], url: str, generated: str, tell: Tell) -> Seen:
    """Measure one part.

    Args:
        name: Of the part.
        settings: As `parts.settings_of` returns them.
        url: Of the server.
        generated: The folder in which there is a generated client, perhaps.
        tell: Is told what is being done.
    """
    settings = dict(settings)
    rounds = settings.pop("rounds")
    if name == "upload":
        return uploads(upload.run(settings["mib"], rounds, tell))
    missing = left_out(name)
    variants = [variant for variant in PARTS[name].variants if variant not in missing]
    if name == "imports":
        for variant in variants:
            in_process("-c", IMPORT.format(variant))  # once for the caches of the disk
        return interleaved(
            variants, rounds, lambda what: in_process("-c", IMPORT.format(what)), tell
        )
    given = json.dumps({**settings, "generated": generated})
    worker = ("-m", "benchmarks.worker", name)
    return interleaved(variants, rounds, lambda peer: in_process(*worker, peer, url, given), tell)


def uploads(outcome: dict[str, Any]) -> Seen:
    """Return what `benchmarks.upload` measured, which sums up its rounds itself.

    Raises:
        ValueError: something else arrived than was sent.
    """
    wrong = [name for name, one in outcome["variants"].items() if not one["content_ok"]]
    if wrong:
        raise ValueError(f"what arrived is not what was sent: {', '.join(wrong)}")
    wanted = ("mib_per_second", *upload.RATIOS, "cpu_seconds", "memory_growth_mib", "blocked_ms")
    return {
        variant: {name: [one[name]] for name in wanted if name in one}
        for variant, one in outcome["variants"].items()
    }


def median_ratio(ours: list[float], theirs: list[float]) -> float:
    """Return the median of the ratios, each to its neighbour of the same round."""
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))
