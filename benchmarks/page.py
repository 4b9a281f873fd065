"""The figures of the last whole run as the tables that docs/performance.md ends with.

`python -m benchmarks.page` writes them into the page; a whole run does so, too.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.parts import PARTS
from benchmarks.peers import ALONE, OURS
from benchmarks.rounds import median_ratio

RESULTS: Final = Path(__file__).parent / "results" / "results.json"
PAGE: Final = Path(__file__).parents[1] / "docs" / "performance.md"
HEADING: Final = "## The last whole run\n"

Found = Mapping[str, Any]


def tables(found: Found) -> str:
    """Return the section with the figures of a run."""
    return "\n".join([HEADING, *_machine(found), *_budgets(found), *_ratios(found), *_parts(found)])


def write(results: Path = RESULTS, page: Path = PAGE) -> None:
    """Put the figures of a run in the place of those that the page has."""
    text = page.read_text().partition(HEADING)[0]
    page.write_text(text + tables(json.loads(results.read_text())))


def _machine(found: Found) -> Iterator[str]:
    about = found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    yield (
        f"Made on {about['date']} with Python {about['python']} on {about['system']}, "
        f"{about['processor']}, {about['cores']} cores, load {about['load_before']} at the start:\n"
        f"{versions}.\n"
    )


def _budgets(found: Found) -> Iterator[str]:
    yield "| budget | allowed | measured | |\n|---|---|---|---|"
    for budget in found["budgets"]:
        sign = "≥" if budget["at_least"] else "≤"
        values = ", ".join(f"{value:.2f}" for value in budget["measured"].values())
        met = "met" if budget["met"] else "**missed**"
        yield f"| {budget['title']} | {sign} {budget['limit']:g} | {values} | {met} |"
    yield ""


def _ratios(found: Found) -> Iterator[str]:
    """Give the CPU time of ours in parts of each peer's."""
    seen = found["parts"].get("cpu", {})
    columns = {
        heading: figure
        for heading, figure in PARTS["cpu"].columns.items()
        if all(figure in figures for figures in seen.values())
    }
    peers = [name for name in seen if name not in (OURS, ALONE)]
    for ours in (name for name in seen if name not in peers):
        yield f"CPU time per call of {ours}, divided by that of\n"
        yield _head("", columns)
        for peer in peers:
            ratios = (
                median_ratio(seen[ours][figure]["rounds"], seen[peer][figure]["rounds"])
                for figure in columns.values()
            )
            yield _row(peer, (f"{ratio:.2f}" for ratio in ratios))
        yield ""


def _parts(found: Found) -> Iterator[str]:
    for name, variants in found["parts"].items():
        part = PARTS[name]
        yield f"{part.title}\n"
        yield _head("median, lowest to highest", part.columns)
        for variant, figures in variants.items():
            yield _row(variant, (_cell(figures.get(figure)) for figure in part.columns.values()))
        yield ""


def _head(first: str, columns: Mapping[str, str]) -> str:
    return _row(first, columns) + "\n|" + "---|" * (1 + len(columns))


def _row(first: str, cells: Any) -> str:
    return f"| {first} | {' | '.join(cells)} |"


def _cell(figure: Mapping[str, float] | None) -> str:
    if figure is None:
        return ""
    middle, low, high = (_short(figure[name]) for name in ("median", "lowest", "highest"))
    return middle if low == high else f"{middle} ({low} to {high})"


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"  # noqa: PLR2004 - three digits


if __name__ == "__main__":
    write()
