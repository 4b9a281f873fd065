"""The chart, on matplotlib's object interface: pyplot keeps figures and settings for the process.

Importing this takes a second or two.
"""

# matplotlib's own annotations leave the types of its keyword arguments open.
# pyright: reportUnknownMemberType=false

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from gateway_sdk.cli.demo.findings import Finding, Findings, Plan, State
from gateway_sdk.cli.demo.labels import spread
from gateway_sdk.cli.demo.table import format_change

SIZE: Final = (10.0, 6.25)
"""Inches."""
RESOLUTION: Final = 160
"""Dots per inch: 1600 by 1000 in all."""

LABELLED: Final = 4
"""Currencies named at each end: those that moved most."""
LABEL_GAP: Final = 0.042
"""Of the height of the chart, from one label to the next."""

ROSE: Final = "#0072b2"
FELL: Final = "#d55e00"
"""Blue and vermilion of Okabe and Ito's palette, which colour-blind readers tell apart."""
REST: Final = "#c4c8cc"
GRID: Final = "#e8eaec"
INK: Final = "#2b2f33"
FAINT: Final = "#6b7177"


def draw_chart(findings: Findings, path: Path) -> None:
    """Draw all series with rates as a PNG, each at 100 on its own first day."""
    figure = Figure(figsize=SIZE, dpi=RESOLUTION, facecolor="white")
    axes = figure.add_axes((0.06, 0.075, 0.8, 0.79))
    rising, falling, rest = _sort_out(findings.quoted)
    for group, colour, width in ((rest, REST, 0.9), (falling, FELL, 1.8), (rising, ROSE, 1.8)):
        for finding in group:
            axes.plot(*_line(finding, findings.plan), color=colour, linewidth=width)
    _dress(axes, findings.plan)
    _label(axes, findings.plan, [*reversed(falling), *reversed(rising)])
    for finding in findings.of(State.ENDED):
        _mark_end(axes, finding, findings.plan)
    _write_titles(figure, findings)
    figure.savefig(path, format="png")


def months_within(first_day: date, last_day: date) -> Iterator[date]:
    """Give the first day of every other month in a range."""
    for month in range(first_day.year * 12 + first_day.month, last_day.year * 12 + 12, 2):
        day = date(month // 12, month % 12 + 1, 1)
        if first_day <= day <= last_day:
            yield day


def _sort_out(quoted: list[Finding]) -> tuple[list[Finding], list[Finding], list[Finding]]:
    """Part those that rose most and those that fell most from the rest."""
    current = [finding for finding in quoted if finding.state is State.CURRENT]
    rising = [finding for finding in current[:LABELLED] if finding.change > 0]
    falling = [finding for finding in current[-LABELLED:] if finding.change < 0]
    named = {finding.currency for finding in (*rising, *falling)}
    return rising, falling, [finding for finding in quoted if finding.currency not in named]


def _line(finding: Finding, plan: Plan) -> tuple[list[int], list[float]]:
    """Give a series as days since the first one and index."""
    days = [(day - plan.first_day).days for day in finding.rates]
    return days, [100 * rate / finding.first_rate for rate in finding.rates.values()]


def _dress(axes: Axes, plan: Plan) -> None:
    """Draw what is not data, as faintly as it can be read."""
    months = list(months_within(plan.first_day, plan.last_day))
    axes.set_xlim(0, (plan.last_day - plan.first_day).days)
    axes.set_xticks(
        [(month - plan.first_day).days for month in months],
        [f"{month:%b %Y}" for month in months],
    )
    axes.axhline(100, color=INK, linewidth=0.8, zorder=1)
    axes.grid(visible=True, axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=9, labelcolor=FAINT)
    axes.spines[:].set_visible(False)


def _label(axes: Axes, plan: Plan, findings: list[Finding]) -> None:
    """Name series at the right edge, each beside the end of its line; they come ascending."""
    low, high = axes.get_ylim()
    ends = [100 + finding.change for finding in findings]
    heights = spread(ends, (high - low) * LABEL_GAP)
    for finding, height in zip(findings, heights, strict=True):
        change = format_change(finding.change)
        # Points to the right of the edge: where the code begins, and where the figure ends.
        for text, offset, side in ((finding.currency, 8, "left"), (change, 90, "right")):
            axes.annotate(
                text,
                ((plan.last_day - plan.first_day).days, height),
                xytext=(offset, 0),
                textcoords="offset points",
                ha=side,
                va="center",
                fontsize=10,
                fontweight="bold",
                color=ROSE if finding.change > 0 else FELL,
                annotation_clip=False,
            )


def _mark_end(axes: Axes, finding: Finding, plan: Plan) -> None:
    """Show where a series ends before the others do."""
    days, index = _line(finding, plan)
    axes.plot(days[-1:], index[-1:], "o", color=INK, markersize=4, zorder=5)
    axes.annotate(
        f"{finding.currency} ends on {finding.days[-1]}",
        (days[-1], index[-1]),
        xytext=(6, 5),
        textcoords="offset points",
        fontsize=8.5,
        color=INK,
        path_effects=[withStroke(linewidth=3, foreground="white")],
        zorder=5,
    )


def _write_titles(figure: Figure, findings: Findings) -> None:
    plan = findings.plan
    title = f"What one euro buys, {plan.first_day:%B %Y} to {plan.last_day:%B %Y}"
    figure.text(0.02, 0.945, title, fontsize=16, fontweight="bold", color=INK)
    source = (
        f"ECB reference rates through the Gateway sandbox: {len(findings.quoted)} currencies,"
        " each at 100 on its first day. Up: the euro gained on it."
    )
    figure.text(0.02, 0.9, source, fontsize=10, color=FAINT)
