"""Measure everything, or some parts of it, beside other clients; print tables and budgets."""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks import page
from benchmarks.chart import draw
from benchmarks.parts import PARTS, left_out, settings_of
from benchmarks.peers.generated import generate
from benchmarks.report import machine, results
from benchmarks.rounds import Seen, measure_part

RESULTS: Final = Path(__file__).parent / "results"


def measure(
    names: list[str], *, short: bool, rounds: int | None
) -> tuple[dict[str, Seen], dict[str, str]]:
    """Measure parts one after the other, and print each table as soon as it is there.

    Returns the figures, and what commands with targets of their own have printed.
    """
    parts = {}
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        for name in names:
            began = time.perf_counter()
            settings = settings_of(name, short=short)
            settings["rounds"] = rounds or settings["rounds"]
            parts[name] = measure_part(name, settings, folder, status)
            status("")
            found = results({}, {name: parts[name]}, {name: left_out(name)})
            print(*page.part_of(found, name), sep="\n")
            print(f"({time.perf_counter() - began:.0f} s)\n", flush=True)
        return parts, {file.stem: file.read_text() for file in Path(folder).glob("*.txt")}


def status(text: str) -> None:
    """Show what is being done, in a line of a terminal that is always written anew."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text[:79]}", end="", file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; return the number of missed budgets."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of: {', '.join(PARTS)}")
    parser.add_argument("--short", action="store_true", help="a minute: too short for good figures")
    parser.add_argument("--rounds", type=int, help="in place of what each part has")
    parser.add_argument(
        "--results", type=Path, help="folder for the figures and the chart; a whole run has one"
    )
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - PARTS.keys():
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    about, names = machine(), given.parts or list(PARTS)
    parts, printed = measure(names, short=given.short, rounds=given.rounds)
    found = results(about, parts, {name: why for name in names if (why := left_out(name))})
    found["printed"] = printed
    print(*page.budgets(found), sep="\n")
    if given.short:
        print("It was a short run, whose figures are too rough to judge by.")
    whole = not (given.parts or given.short)
    if folder := given.results or (RESULTS if whole else None):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "results.json").write_text(json.dumps(found, indent=1) + "\n")
        draw(folder / "results.json", folder)
        if folder == RESULTS:
            page.write()
    return sum(not budget["met"] for budget in found["budgets"])


if __name__ == "__main__":
    sys.exit(main())
