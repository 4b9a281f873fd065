"""Variants in turn, round after round, each time in a fresh process."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from benchmarks.measures.load import Figures
from benchmarks.parts import PARTS, left_out
from benchmarks.processes import ROOT, server

Seen = dict[str, dict[str, list[float]]]
"""What was measured, by variant and figure: a number for each round."""
Tell = Callable[[str], object]

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

    What else the machine does then affects all of them alike, and two of one round can be compared.
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


def measure_part(name: str, settings: dict[str, Any], folder: str, tell: Tell) -> Seen:
    """Measure a part with its settings; the folder has the generated client."""
    missing = left_out(name)
    variants = [variant for variant in PARTS[name].variants if variant not in missing]
    with server(PARTS[name].server) as url:

        def run(variant: str, *, hashed: bool = False) -> Figures:
            given = json.dumps({**settings, "folder": folder, "hashed": hashed})
            return in_process("-m", "benchmarks.worker", name, variant, url, given)

        if name != "upload":
            return interleaved(variants, settings["rounds"], run, tell)
        # Once the content that arrives is compared; hashing it takes longer than sending it.
        interleaved(variants, 1, lambda variant: run(variant, hashed=True), tell)
        return beside(interleaved(variants, settings["rounds"], run, tell))


def beside(uploads: Seen) -> Seen:
    """Add the throughput divided by that of curl and of httpx in the same round."""
    for variant, figures in uploads.items():
        for peer in ("curl", "httpx"):
            if theirs := uploads.get(f"{peer} {variant.split()[1]}"):
                pairs = zip(figures["mib_per_second"], theirs["mib_per_second"], strict=True)
                figures[f"ratio_{peer}"] = [ours / their for ours, their in pairs]
    return uploads


def median_difference(ours: list[float], theirs: list[float]) -> float:
    """Return the median of how much more each is than its neighbour of the same round."""
    return statistics.median(one - other for one, other in zip(ours, theirs, strict=True))


def median_ratio(ours: list[float], theirs: list[float]) -> float:
    """Return the median of the ratios, each to its neighbour of the same round."""
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))
