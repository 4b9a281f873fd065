"""A chart as a file, on matplotlib's object interface. Importing this takes a second or two."""

# matplotlib's own annotations leave the types of its keyword arguments open.
# pyright: reportUnknownMemberType=false

import io
from itertools import cycle
from typing import Final

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure

from gateway_sdk.cli.rates.series import Series

SIZE: Final = (10.0, 5.5)
"""Inches."""
RESOLUTION: Final = 160
"""Dots per inch: 1600 by 880 in all."""

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's palette, which colour-blind readers tell apart."""
GRID: Final = "#e8eaec"
FAINT: Final = "#6b7177"


def draw_picture(series: Series) -> bytes:
    """Draw all currencies as a PNG: one by its rates, several by index, each at 100 at first."""
    figure = Figure(figsize=SIZE, dpi=RESOLUTION, facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    for symbol, colour in zip(series.symbols, cycle(COLOURS), strict=False):
        _line(axes, series, symbol, colour)
    _dress(axes, series)
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _line(axes: Axes, series: Series, symbol: str, colour: str) -> None:
    found = [(day, rate) for day, rate in zip(series.days, series.of(symbol), strict=True) if rate]
    if not found:
        return
    unit = 1.0 if len(series.symbols) == 1 else float(found[0][1]) / 100
    days = [float(date2num(day)) for day, _ in found]  # type: ignore[no-untyped-call]
    heights = [float(rate) / unit for _, rate in found]
    # A dollar would begin a formula.
    label = symbol.replace("$", r"\$")
    axes.plot(days, heights, color=colour, linewidth=1.6, label=label, marker=_marker(len(days)))


def _marker(count: int) -> str:
    """A single rate makes no line, but a dot."""
    return "o" if count == 1 else ""


def _dress(axes: Axes, series: Series) -> None:
    """Draw what is not data, as faintly as it can be read."""
    one = len(series.symbols) == 1
    base = series.base.replace("$", r"\$")
    title = (
        f"One {base} in {series.symbols[0]}"
        if one
        else f"What one {base} buys, 100 on the first day"
    )
    axes.set_title(title, loc="left", fontsize=14, fontweight="bold")
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    formatter = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(formatter)
    axes.grid(visible=True, axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=9, labelcolor=FAINT)
    axes.spines[:].set_visible(False)
    if not one:
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
