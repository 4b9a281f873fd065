"""Very many calls, a third of them cut at random, against a server that fails at random.

What leaks shows: after each tenth of the run nothing is under way, and what is still held is
printed. At the end every connection that a session may have must be usable at the same time.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Final

from benchmarks.processes import server
from benchmarks.soaking import CALLERS, CONNECTIONS, Sample, soak

WARM: Final = 2
"""The tenth from which on nothing may grow."""
MEMORY_BUDGET: Final = 8.0
COLUMNS: Final = (
    "calls",
    "seconds",
    "descriptors",
    "tasks",
    "threads",
    "RSS, MiB",
    "connections",
    "slots free",
    "how the calls of this tenth ended",
)


def missed(outcome: dict[str, Any]) -> list[str]:
    """Say what was not as it should be."""
    found, slots, samples = [], outcome["connections"], outcome["samples"]
    if outcome["usable"] != slots:
        found.append(f"only {outcome['usable']} connections are usable")
    if outcome["server"]["open"]:
        found.append(f"{outcome['server']['open']} connections outlive the session")
    for sample in samples:
        at = f"after {sample['calls']} calls"
        if sample["tasks"] or sample["threads"]:
            found.append(f"{at}: {sample['tasks']} tasks, {sample['threads']} threads left")
        if sample["free"] != slots:
            found.append(f"{at}: {sample['free']} slots free")
        if sample["connections"] > slots:
            found.append(f"{at}: {sample['connections']} connections at the server")
        found += [f"{at}: {name}" for name in sample["outcomes"] if "UNEXPECTED" in name]
    warm, *later = samples[WARM - 1 :]
    if max(sample["memory_mib"] for sample in later) - warm["memory_mib"] > MEMORY_BUDGET:
        found.append("memory grows")
    if max(sample["descriptors"] for sample in later) - samples[0]["descriptors"] > slots:
        found.append("descriptors grow")
    return found


def heading() -> str:
    """Return the head of the table of samples, in Markdown."""
    return f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}"


def row(sample: Sample) -> str:
    """Return one row of the table."""
    outcomes = ", ".join(f"{count} {name}" for name, count in sample.outcomes.items())
    cells = (
        sample.calls,
        f"{sample.seconds:.0f}",
        sample.descriptors,
        sample.tasks,
        sample.threads,
        f"{sample.memory_mib:.1f}",
        sample.connections,
        sample.free,
        outcomes,
    )
    return f"| {' | '.join(map(str, cells))} |"


def main() -> int:
    """Do what the command line says; return how much was not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1, help="of cancellations and faults")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    given = parser.parse_args()
    print(f"{CONNECTIONS} connections, {CALLERS} callers\n\n{heading()}")
    with server("soak_server", str(given.seed)) as url:
        run = soak(url, given.calls, given.seed, lambda sample: print(row(sample), flush=True))
        outcome = asyncio.run(run)
    print(f"\n{outcome['usable']} of {CONNECTIONS} slots usable at the end")
    print("what the server did:", json.dumps(outcome["server"]["made"]))
    for problem in missed(outcome):
        print(f"missed: {problem}")
    if given.json:
        given.json.write_text(json.dumps(outcome, indent=2) + "\n")
    return len(missed(outcome))


if __name__ == "__main__":
    sys.exit(main())
