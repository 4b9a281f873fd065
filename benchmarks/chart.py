"""The chart of a run, once for light pages and once for dark ones."""

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.peers import OURS, PEERS


class Theme(NamedTuple):
    """Colours."""

    text: str
    faint: str
    grid: str
    ours: str
    other: str
    floor: str


class Panel(NamedTuple):
    """One group of bars: where its figure is, what that is, and the unit of the axis."""

    part: str
    figure: str
    title: str
    unit: str


THEMES: Final = {
    "light": Theme("#1f2328", "#59636e", "#d1d9e0", "#0969da", "#aeb8c3", "#e3e8ed"),
    "dark": Theme("#f0f6fc", "#9198a1", "#3d444d", "#4493f8", "#656c76", "#3a4149"),
}
PANELS: Final = (
    Panel("cpu", "cpu_us 1", "CPU per call, one caller", "µs"),
    Panel("cpu", "cpu_us 50", "CPU per call, 50 callers", "µs"),
    Panel("cpu", "cpu_us 200", "CPU per call, 200 callers", "µs"),
    Panel("latency", "p95_ms", "Latency at 150 calls/s, p95", "ms"),
    Panel("blocking", "late_p99_ms", "Event loop late, 50 callers, p99", "ms"),
    Panel("memory", "peak_mib", "Memory of the process, 200 callers", "MiB"),
)
COLUMNS: Final = 3
FLOOR: Final = "raw sockets"
FAR: Final = 3
"""A bar longer than this many times the next shorter one is cut off, and so are those after it."""
BEHIND: Final = 1.5
"""Where they are cut off, in parts of the longest that is not."""


def draw(results: Path, folder: Path) -> list[Path]:
    """Draw a chart for each theme; none without matplotlib, or without a figure to be drawn."""
    found = json.loads(results.read_text())
    panels = [
        panel
        for panel in PANELS
        if any(panel.figure in one for one in found["parts"].get(panel.part, {}).values())
    ]
    try:
        pyplot = import_module("matplotlib.pyplot")
    except ImportError:
        return []
    return [
        _draw(pyplot, found, panels, theme, folder / f"chart-{name}.svg")
        for name, theme in THEMES.items()
        if panels
    ]


def _caption(about: Mapping[str, Any]) -> str:
    """Say when, where and with which versions it was measured."""
    versions = about["versions"]
    shown = ("aiohttp", "httpx", "httpx2", "openai", "gateway-sdk")
    packages = ", ".join(f"{name} {versions[name]}" for name in shown if name in versions)
    return (
        f"Less is better. Medians of several rounds; a line goes from the lowest to the highest, "
        f"an arrow beyond the axis.\n{about['date']}, {about['processor']}, {about['cores']} cores"
        f", {about['system']}, over loopback, Python {about['python']}, {packages}"
    )


def _draw(
    pyplot: Any, found: dict[str, Any], panels: list[Panel], theme: Theme, file: Path
) -> Path:
    rows = -(-len(panels) // COLUMNS)
    look = {
        "font.family": "sans-serif",
        "font.size": 9,
        "svg.hashsalt": "benchmarks",  # the same file from the same figures
        "text.color": theme.text,
        "axes.labelcolor": theme.faint,
        "xtick.color": theme.faint,
        "ytick.color": theme.text,
    }
    with pyplot.rc_context(look):
        figure, grid = pyplot.subplots(
            rows, COLUMNS, figsize=(10.4, 0.5 + 3.1 * rows), layout="constrained", squeeze=False
        )
        for number, axes in enumerate(grid.flat):
            if number >= len(panels):
                axes.set_visible(False)
                continue
            _panel(axes, found["parts"][panels[number].part], panels[number], theme)
            if number % COLUMNS:
                axes.tick_params(labelleft=False)
        figure.get_layout_engine().set(wspace=0.05, hspace=0.05)
        text = _caption(found["machine"])
        figure.supxlabel(text, x=0.01, ha="left", fontsize=8, color=theme.faint)
        figure.savefig(file, transparent=True, metadata={"Date": None})
        pyplot.close(figure)
    return file


def _panel(axes: Any, seen: dict[str, Any], panel: Panel, theme: Theme) -> None:
    names = [name for name in reversed(PEERS) if name in seen]
    values = [seen[name][panel.figure] for name in names]
    limit = _limit(values)
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        _bar(axes, -place, name, value, limit=limit, theme=theme)
    axes.set_yticks([-place for place in range(len(names))], names)
    for label, name in zip(axes.get_yticklabels(), names, strict=True):
        label.set_fontweight(_weight(name))
    axes.set_title(panel.title, fontsize=9.5, loc="left", color=theme.text, fontweight="bold")
    axes.set_xlabel(panel.unit, fontsize=8)
    axes.set_xlim(0, limit * 1.16)
    axes.locator_params(axis="x", nbins=4)
    axes.tick_params(length=0)
    axes.grid(axis="x", color=theme.grid, linewidth=0.6)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _bar(
    axes: Any, place: int, name: str, value: dict[str, float], *, limit: float, theme: Theme
) -> None:
    """Draw a median as a bar and its extremes as a line, or a bar that goes on beyond the axis."""
    middle = value["median"]
    cut = middle > limit
    end = min(value["highest"], limit)
    colour = theme.ours if name == OURS else theme.other
    axes.barh(
        place, min(middle, limit), height=0.66, color=theme.floor if name == FLOOR else colour
    )
    if not cut:
        line = {"color": theme.text, "linewidth": 0.9, "alpha": 0.75}
        axes.plot([value["lowest"], end], [place, place], **line)
        if end < value["highest"]:
            axes.plot([end], [place], marker=">", markersize=3, **line)
    text = f"{middle:.0f}" if middle >= 10 else f"{middle:.1f}"  # noqa: PLR2004 - digits
    axes.annotate(
        f"{text} →" if cut else text,
        (end, place),
        xytext=(-4 if cut else 4, 0),
        textcoords="offset points",
        va="center",
        ha="right" if cut else "left",
        fontsize=8,
        color=theme.text,
        fontweight=_weight(name),
    )


def _weight(name: str) -> str:
    return "bold" if name == OURS else "normal"


def _limit(values: list[dict[str, float]]) -> float:
    """Return where the axis ends: behind the longest bar that does not dwarf those before it.

    A line that goes much further is cut off too: it tells of the machine, not of the client.
    """
    ordered = sorted(values, key=lambda value: value["median"])
    for place in range((len(ordered) + 1) // 2, len(ordered)):
        longest = ordered[place - 1]["median"]
        if ordered[place]["median"] > FAR * longest:
            return longest * BEHIND
    return min(ordered[-1]["median"] * BEHIND, max(value["highest"] for value in values))
