"""A large upload from a file, a stream and a form: throughput, memory, event loop, content.

Each variant runs in a process of its own, several times in turn with the others, against a server
in another process. In a first round the server hashes what it gets, to prove that it is right; in
the others it only counts, for else it would be what takes the time. What they are compared with
is `curl -T` where it is installed, and a bare httpx.AsyncClient.
"""

import argparse
import hashlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.parts import CURL, PARTS, left_out
from benchmarks.processes import MIB, ROOT, server
from benchmarks.upload_server import HASHED
from benchmarks.uploader import TARGET, pieces

MEMORY_BUDGET: Final = 4.0
BLOCKED_BUDGET: Final = 20.0
RATIO_BUDGET: Final = 0.97
PART: Final = "upload"
CURL_ARGUMENTS: Final = (
    *("--silent", "--show-error", "--noproxy", "*"),
    *("--request", "POST", "--header", "Expect:", "--write-out", "\n%{time_total}"),
)
"""Without `Expect` it would wait for a second: the server sends no interim reply."""

RATIOS: Final = ("ratio_curl", "ratio_httpx")

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
        results: dict[str, Runs] = {
            variant: [] for variant in PARTS[PART].variants if variant not in left_out(PART)
        }
        for number in range(1 + rounds):
            for variant, runs in results.items():
                report(f"round {number + 1} of {1 + rounds}: {variant}")
                to = url if number else url + HASHED
                if variant.startswith(CURL):
                    runs.append(_run_curl(variant, to, path))
                else:
                    runs.append(_run(variant, to, str(small), str(path)))
    summaries = {
        variant: _summary(variant, runs, results, mib * MIB, expected)
        for variant, runs in results.items()
    }
    return {"mib": mib, "rounds": rounds, "variants": summaries}


def _run(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.uploader", *arguments]
    # What is run is ours.
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT).stdout  # noqa: S603
    seen: dict[str, Any] = json.loads(output)
    return seen


def _run_curl(variant: str, url: str, path: Path) -> dict[str, Any]:
    """Upload with curl, whose own time is taken: it is without that of starting it."""
    source = "-" if variant.endswith("stream") else str(path)
    command = [CURL, *CURL_ARGUMENTS, "--upload-file", source, url + TARGET]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with path.open("rb") as file:
        output = subprocess.run(command, stdin=file, stdout=subprocess.PIPE, check=True).stdout  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    reply, _, seconds = output.rpartition(b"\n")
    return {
        **json.loads(reply),
        "seconds": float(seconds),
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "memory_growth_mib": 0.0,
        "blocked_ms": 0.0,
        "progress_ok": True,
        "progress_told": 0,
    }


def _summary(
    variant: str, runs: Runs, results: dict[str, Runs], size: int, expected: str
) -> dict[str, Any]:
    hashed, *timed = runs
    kind = variant.split()[1]
    # A form has more around the document, so that only its length is known.
    content_ok = hashed["bytes"] > size if kind == "form" else hashed["sha256"] == expected
    ratios = {
        f"ratio_{peer}": _ratio(timed, results[f"{peer} {kind}"][1:])
        for peer in (CURL, "httpx")
        if f"{peer} {kind}" in results
    }
    return {
        "mib_per_second": size / MIB / statistics.median(run["seconds"] for run in timed),
        **ratios,
        "cpu_seconds": statistics.median(run["cpu_seconds"] for run in timed),
        "memory_growth_mib": max(run["memory_growth_mib"] for run in runs),
        "blocked_ms": max(run["blocked_ms"] for run in runs),
        "content_ok": content_ok and {run["bytes"] for run in timed} == {hashed["bytes"]},
        "progress_ok": all(run["progress_ok"] for run in runs),
        "progress_told": min(run["progress_told"] for run in runs),
    }


def _ratio(ours: Runs, theirs: Runs) -> float:
    """Return the median of the ratios of the throughput, each to its neighbour of the same round.

    The machine is not the same all the time.
    """
    pairs = zip(ours, theirs, strict=True)
    ratios: list[float] = [their["seconds"] / our["seconds"] for our, their in pairs]
    return statistics.median(ratios)


def table(outcome: dict[str, Any]) -> str:
    """Return the outcome as a table in Markdown."""
    columns = (
        f"{outcome['mib']} MiB",
        "MiB/s",
        "÷ curl -T",
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
                *(f"{seen[name]:.2f}" if name in seen else "" for name in RATIOS),
                f"{seen['cpu_seconds']:.2f}",
                "" if variant.startswith(CURL) else f"{seen['memory_growth_mib']:.1f}",
                "" if variant.startswith(CURL) else f"{seen['blocked_ms']:.0f}",
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
        if not variant.startswith("gateway"):
            continue
        if seen["memory_growth_mib"] > MEMORY_BUDGET:
            found.append(f"{variant}: more than {MEMORY_BUDGET:g} MiB of memory")
        if seen["blocked_ms"] > BLOCKED_BUDGET:
            found.append(f"{variant}: the event loop was blocked for over {BLOCKED_BUDGET:g} ms")
        if seen.get("ratio_curl", RATIO_BUDGET) < RATIO_BUDGET:
            found.append(f"{variant}: less than {RATIO_BUDGET:g} of the throughput of curl")
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
