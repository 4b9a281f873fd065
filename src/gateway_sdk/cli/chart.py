"""Charts as PNG. Not with pyplot, which keeps figures for the whole process.

To import this takes a second or two.
"""

# matplotlib's own annotations leave the types of its keyword arguments open.
# pyright: reportUnknownMemberType=false

import io
from collections.abc import Sequence
from itertools import cycle
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure

from gateway_sdk.cli.series import Series

SIZE: Final = (10.0, 6.25)
"""Inches."""
RESOLUTION: Final = 160  # dots per inch: 1600 by 1000 in all
LABEL_GAP: Final = 0.042  # of the height of the chart, from one label to the next
COLOURS: Final = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#882255",
)  # fmt: skip
"""Okabe and Ito's palette, which colour-blind readers tell apart; and wine, of Paul Tol's."""
REST: Final = "#c4c8cc"
GRID: Final = "#e8eaec"
INK: Final = "#2b2f33"
FAINT: Final = "#6b7177"


def draw_chart(
    series: Series, *, title: str = "", subtitle: str = "", named: Sequence[str] | None = None
) -> bytes:
    one = len(series.rates) == 1
    curves = {symbol: _heights(series, symbol, one=one) for symbol in series.rates}
    curves = {symbol: curve for symbol, curve in curves.items() if curve}
    wanted = [symbol for symbol in (curves if named is None else named) if symbol in curves]
    # Those in colour have a label at the end of the line.
    colours = dict(zip(wanted, cycle(COLOURS), strict=False))
    figure = Figure(figsize=SIZE, dpi=RESOLUTION, facecolor="white")
    axes = figure.add_axes((0.06, 0.075, 0.8, 0.79))
    for symbol in sorted(curves, key=colours.__contains__):  # those in colour above the others
        heights = curves[symbol]
        axes.plot(
            list(heights),
            list(heights.values()),
            color=colours.get(symbol, REST),
            linewidth=1.8 if symbol in colours else 0.9,
            marker="o" if len(heights) == 1 else "",  # a single rate makes no line
        )
    _dress(axes)
    if not one:
        axes.axhline(100, color=INK, linewidth=0.8, zorder=1)
        _label(axes, curves, colours)
        subtitle = subtitle or "Beside each line: its currency, and the change since the first day."
    if grey := len(curves) - len(colours):
        lines = axes.plot([], [], color=REST)
        axes.legend(
            lines, [f"{grey} other currencies"], loc="upper left", frameon=False, labelcolor=FAINT
        )
    base, lone = series.base, next(iter(series.rates))
    usual = f"One {base} in {lone}" if one else f"What one {base} buys, 100 on the first day"
    # A dollar begins no formula.
    plain: Any = {"parse_math": False}
    figure.text(0.02, 0.945, title or usual, fontsize=16, fontweight="bold", color=INK, **plain)
    figure.text(0.02, 0.9, subtitle, fontsize=10, color=FAINT, **plain)
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _heights(series: Series, symbol: str, *, one: bool) -> dict[float, float]:
    """Give the rates of a lone currency, and of several an index, by matplotlib's days."""
    found = series.rates[symbol]
    unit = 1.0 if one or not found else float(next(iter(found.values()))) / 100
    days: Any = date2num(list(found))  # type: ignore[no-untyped-call]
    return {float(day): float(rate) / unit for day, rate in zip(days, found.values(), strict=True)}


def _dress(axes: Axes) -> None:
    """Draw what is not data, as faintly as it can be read."""
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.margins(x=0)
    axes.grid(visible=True, axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=9, labelcolor=FAINT)
    axes.spines[:].set_visible(False)


def _label(axes: Axes, curves: dict[str, dict[float, float]], colours: dict[str, str]) -> None:
    """Name series at the right edge, each beside or above the end of its line, with its change."""
    (low, high), edge = axes.get_ylim(), axes.get_xlim()[1]
    ends = {symbol: list(curves[symbol].values())[-1] for symbol in colours}
    free = low
    for symbol in sorted(ends, key=ends.__getitem__):
        height = max(ends[symbol], free)
        free = height + (high - low) * LABEL_GAP
        axes.annotate(
            f"{symbol:<4}{ends[symbol] - 100:>+6.1f} %",
            (edge, height),
            (8, 0),  # points to the right of the edge
            textcoords="offset points",
            annotation_clip=False,
            color=colours[symbol],
            va="center",
            family="monospace",
            fontweight="bold",
            parse_math=False,
        )
