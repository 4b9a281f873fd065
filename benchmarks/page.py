"""The figures of a run as tables, for the terminal and for the end of benchmarks/README.md.

`python -m benchmarks.page` makes the charts and the page anew from the kept figures of the last
whole run, and prints the table of the budgets; a whole run does so, too.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.chart import draw
from benchmarks.parts import PARTS
from benchmarks.peers import ALONE, OURS
from benchmarks.rounds import median_ratio
from benchmarks.tables import head, row

RESULTS: Final = Path(__file__).parent / "results" / "results.json"
PAGE: Final = Path(__file__).parent / "README.md"
HEADING: Final = "## The last whole run\n"
FULL_SERVER: Final = 0.8
"""The share of the time from which on the server would be what is measured."""

Found = Mapping[str, Any]


def write(results: Path = RESULTS, page: Path = PAGE) -> None:
    """Put the figures of a run in the place of those that the page has."""
    text = page.read_text().partition(HEADING)[0]
    page.write_text(text + HEADING + "\n" + tables(json.loads(results.read_text())))


def tables(found: Found) -> str:
    """Return all figures of a run."""
    parts = (part_of(found, name) for name in found["parts"])
    lines = [*_machine(found["machine"]), *budgets(found), *(x for p in parts for x in p)]
    for name, text in found.get("printed", {}).items():
        lines += [f"What `{name}` printed\n", f"```text\n{text.strip()}\n```\n"]
    return "\n".join(lines)


def part_of(found: Found, name: str) -> Iterator[str]:
    """Give the lines of one part."""
    part, seen, missing = PARTS[name], found["parts"][name], found["left_out"].get(name, {})
    columns = _columns(name, seen)
    yield f"{part.title}\n"
    yield head(["median, lowest to highest", *columns])
    for variant, figures in seen.items():
        yield row([variant, *(_cell(figures.get(figure)) for figure in columns.values())])
    for variant, reason in missing.items():
        yield row([variant, f"left out: {reason}", *[""] * (len(columns) - 1)])
    yield ""
    if name == "cpu":
        yield from _server(seen)
        for ours in (ours for ours in (ALONE, OURS) if ours in seen):
            yield from _ratios(seen, ours, columns)


def budgets(found: Found) -> Iterator[str]:
    """Give a line for each budget: what it allows, what was measured, and what became of it."""
    yield head(["budget", "allowed", "measured", ""])
    for budget in found["budgets"]:
        sign = "≥" if budget["at_least"] else "≤"
        values = ", ".join(f"{value:.2f}" for value in budget["measured"].values())
        met = "met" if budget["met"] else "**missed**"
        yield row([budget["title"], f"{sign} {budget['limit']:g}", values, met])
    yield ""


def _machine(about: Found) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    yield (
        f"Made on {about['date']} with Python {about['python']} on {about['system']}, "
        f"{about['processor']}, {about['cores']} cores, load {about['load_before']} at the start:\n"
        f"{versions}.\n"
    )


def _server(seen: Found) -> Iterator[str]:
    """Say what a request costs the server, and whether it was what limited a client."""
    most, variant, at = max(
        (figures[figure]["highest"], variant, figure.removeprefix("server_busy "))
        for variant, figures in seen.items()
        for figure in figures
        if figure.startswith("server_busy ")
    )
    cost = min(f[f"server_us {at}"]["lowest"] for f in seen.values() if f"server_us {at}" in f)
    yield (
        f"The server takes {cost:.0f} us of CPU time per request, and is {most:.0%} busy at most "
        f"({variant}, {at})."
    )
    if most > FULL_SERVER:
        yield "That is too much: the server was what limited that client."
    yield ""


def _ratios(seen: Found, ours: str, columns: Mapping[str, str]) -> Iterator[str]:
    """Give the CPU time of ours, divided by each peer's in the same round."""
    yield f"CPU time per call of {ours}, divided by that of\n"
    yield head(["", *columns])
    for peer in (name for name in seen if name not in (OURS, ALONE)):
        ratios = (
            median_ratio(seen[ours][figure]["rounds"], seen[peer][figure]["rounds"])
            for figure in columns.values()
        )
        yield row([peer, *(f"{ratio:.2f}" for ratio in ratios)])
    yield ""


def _columns(name: str, seen: Found) -> dict[str, str]:
    """Return the headings of what was measured; a short run leaves out some."""
    measured = {figure for figures in seen.values() for figure in figures}
    return {title: name for title, name in PARTS[name].columns.items() if name in measured}


def _cell(figure: Mapping[str, float] | None) -> str:
    if figure is None:
        return ""
    middle, low, high = (_short(figure[name]) for name in ("median", "lowest", "highest"))
    return middle if low == high else f"{middle} ({low} to {high})"


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"  # noqa: PLR2004 - three digits


if __name__ == "__main__":
    draw(RESULTS, RESULTS.parent)
    write()
    print(*budgets(json.loads(RESULTS.read_text())), sep="\n")
