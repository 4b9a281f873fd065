"""A large upload from a file, a stream and a form: throughput, memory, event loop, content.

Each variant runs in a process of its own, several times in turn with the others, against a server
in another process. In a first round the server hashes what it gets, to prove that it is right; in
the others it only counts, for else it would be what takes the time. The bare engine is
httpx.AsyncClient.
"""

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.processes import MIB, ROOT, server
from benchmarks.upload_server import HASHED
from benchmarks.uploader import VARIANTS, pieces

MEMORY_BUDGET: Final = 8.0
BLOCKED_BUDGET: Final = 50.0
RATIO_BUDGET: Final = 0.95

Runs = list[dict[str, Any]]


def write_document(path: Path, mib: int) -> None:
    """Write a document, sparse where the disk allows it: each MiB has its number, and zeros."""
    with path.open("wb") as file:
        for number in range(mib):
            file.seek(number * MIB)
            file.write(number.to_bytes(8))
        file.truncate(mib * MIB)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a document."""
    digest = hashlib.sha256()
    for piece in pieces(path):
        digest.update(piece)
    return digest.hexdigest()


def run(mib: int, rounds: int, report: Callable[[str], object]) -> dict[str, Any]:
    """Run every variant in turn, as often as wanted, and sum up."""
    with tempfile.TemporaryDirectory() as folder, server("upload_server") as url:
        small, path = Path(folder, "small"), Path(folder, "document")
        write_document(small, 1)
        write_document(path, mib)
        expected = digest_of(path)
        results: dict[str, Runs] = {variant: [] for variant in VARIANTS}
        for number in range(1 + rounds):
            for variant in VARIANTS:
                report(f"round {number + 1} of {1 + rounds}: {variant}")
                to = url if number else url + HASHED
                results[variant].append(_run(variant, to, str(small), str(path)))
    variants = {
        variant: _summary(variant, runs, results, mib * MIB, expected)
        for variant, runs in results.items()
    }
    return {"mib": mib, "rounds": rounds, "variants": variants}


def _run(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.uploader", *arguments]
    # What is run is ours.
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT).stdout  # noqa: S603
    seen: dict[str, Any] = json.loads(output)
    return seen


def _summary(
    variant: str, runs: Runs, results: dict[str, Runs], size: int, expected: str
) -> dict[str, Any]:
    hashed, *timed = runs
    client, _, kind = variant.partition(" ")
    # A form has more around the document, so that only its length is known.
    content_ok = hashed["bytes"] > size if kind == "form" else hashed["sha256"] == expected
    ratio = None
    if kind != "form":
        # Each beside its neighbour of the same round: the machine is not the same all the time.
        pairs = zip(results[f"httpx {kind}"][1:], timed, strict=True)
        ratio = statistics.median(bare["seconds"] / ours["seconds"] for bare, ours in pairs)
    return {
        "mib_per_second": size / MIB / statistics.median(run["seconds"] for run in timed),
        "ratio": ratio,
        "cpu_seconds": statistics.median(run["cpu_seconds"] for run in timed),
        "memory_growth_mib": max(run["memory_growth_mib"] for run in runs),
        "blocked_ms": max(run["blocked_ms"] for run in runs),
        "content_ok": content_ok and {run["bytes"] for run in timed} == {hashed["bytes"]},
        "progress_ok": all(run["progress_ok"] for run in runs),
        "progress_told": 0 if client == "httpx" else min(run["progress_told"] for run in runs),
    }


def table(outcome: dict[str, Any]) -> str:
    """Return the outcome as a table in Markdown."""
    columns = (
        f"{outcome['mib']} MiB",
        "MiB/s",
        "÷ httpx",
        "CPU s",
        "peak memory, + MiB",
        "loop blocked, ms",
        "content",
        "progress",
    )
    rows = [columns, ["---"] * len(columns)]
    for variant, seen in outcome["variants"].items():
        rows.append(
            [
                variant,
                f"{seen['mib_per_second']:.0f}",
                "" if seen["ratio"] is None else f"{seen['ratio']:.2f}",
                f"{seen['cpu_seconds']:.2f}",
                f"{seen['memory_growth_mib']:.1f}",
                f"{seen['blocked_ms']:.0f}",
                "ok" if seen["content_ok"] else "WRONG",
                ("ok" if seen["progress_ok"] else "WRONG") if seen["progress_told"] else "",
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def missed(outcome: dict[str, Any]) -> list[str]:
    """Say which budgets were missed."""
    found = []
    for variant, seen in outcome["variants"].items():
        if not (seen["content_ok"] and seen["progress_ok"]):
            found.append(f"{variant}: content or progress is wrong")
        if variant.startswith("httpx"):
            continue
        if seen["memory_growth_mib"] > MEMORY_BUDGET:
            found.append(f"{variant}: more than {MEMORY_BUDGET:g} MiB of memory")
        if seen["blocked_ms"] > BLOCKED_BUDGET:
            found.append(f"{variant}: the event loop was blocked for over {BLOCKED_BUDGET:g} ms")
        if seen["ratio"] is not None and seen["ratio"] < RATIO_BUDGET:
            found.append(f"{variant}: less than {RATIO_BUDGET:g} of the throughput of httpx")
    return found


def main() -> int:
    """Do what the command line says; return the number of missed budgets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of the document")
    parser.add_argument("--rounds", type=int, default=5, help="how often each variant is timed")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    given = parser.parse_args()
    outcome = run(given.mib, given.rounds, lambda text: print(text, file=sys.stderr))
    print(table(outcome))
    if given.json:
        given.json.write_text(json.dumps(outcome, indent=2) + "\n")
    for budget in missed(outcome):
        print(f"missed: {budget}")
    return len(missed(outcome))


if __name__ == "__main__":
    sys.exit(main())
