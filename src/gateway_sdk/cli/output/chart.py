"""Charts as files, on matplotlib's object interface: pyplot keeps figures for the whole process.

Importing this takes a second or two.
"""

# matplotlib's own annotations leave the types of its keyword arguments open.
# pyright: reportUnknownMemberType=false

import io
from collections.abc import Sequence
from datetime import date
from itertools import cycle
from statistics import fmean
from typing import Final

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from gateway_sdk.cli.series import Series

SIZE: Final = (10.0, 6.25)
"""Inches."""
RESOLUTION: Final = 160
"""Dots per inch: 1600 by 1000 in all."""
LABEL_GAP: Final = 0.042
"""Of the height of the chart, from one label to the next."""

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
    """Draw all currencies as a PNG: one by its rates, several by index, each at 100 at first.

    Args:
        series: What to draw; a currency without rates is left out.
        title: The title; else it says what is drawn.
        subtitle: A line below it.
        named: The currencies in colour, with a label at the end of the line; else all are.
    """
    quoted = [symbol for symbol in series.symbols if series.of(symbol)]
    named = [symbol for symbol in (quoted if named is None else named) if symbol in quoted]
    figure = Figure(figsize=SIZE, dpi=RESOLUTION, facecolor="white")
    axes = figure.add_axes((0.06, 0.075, 0.8, 0.79))
    for symbol in quoted:
        if symbol not in named:
            _draw_line(axes, series, symbol, REST, width=0.9)
    colours = dict(zip(named, cycle(COLOURS), strict=False))
    for symbol, colour in colours.items():
        _draw_line(axes, series, symbol, colour, width=1.8)
    _dress(axes, one=len(series.symbols) == 1)
    if len(series.symbols) > 1:
        _label(axes, series, colours)
        _mark_ends(axes, series, [symbol for symbol in quoted if symbol not in named])
    figure.text(
        0.02, 0.945, _plain(title or _title(series)), fontsize=16, fontweight="bold", color=INK
    )
    figure.text(0.02, 0.9, _plain(subtitle), fontsize=10, color=FAINT)
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _plain(text: str) -> str:
    """Write a dollar so that matplotlib does not take it for the begin of a formula."""
    return text.replace("$", r"\$")


def _title(series: Series) -> str:
    if len(series.symbols) == 1:
        return f"One {series.base} in {series.symbols[0]}"
    return f"What one {series.base} buys, 100 on the first day"


def _heights(series: Series, symbol: str) -> dict[date, float]:
    """Give the rates of a lone currency, and of several an index."""
    found = series.of(symbol)
    unit = 1.0 if len(series.symbols) == 1 else float(next(iter(found.values()))) / 100
    return {day: float(rate) / unit for day, rate in found.items()}


def _place(day: date) -> float:
    return float(date2num(day))  # type: ignore[no-untyped-call]


def _draw_line(axes: Axes, series: Series, symbol: str, colour: str, *, width: float) -> None:
    found = _heights(series, symbol)
    # A single rate makes no line, but a dot.
    marker = "o" if len(found) == 1 else ""
    days = [_place(day) for day in found]
    axes.plot(days, list(found.values()), color=colour, linewidth=width, marker=marker)


def _dress(axes: Axes, *, one: bool) -> None:
    """Draw what is not data, as faintly as it can be read."""
    if not one:
        axes.axhline(100, color=INK, linewidth=0.8, zorder=1)
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    formatter = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(formatter)
    axes.margins(x=0)
    axes.grid(visible=True, axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=9, labelcolor=FAINT)
    axes.spines[:].set_visible(False)


def _label(axes: Axes, series: Series, colours: dict[str, str]) -> None:
    """Name series at the right edge, each beside the end of its line, with its change."""
    (low, high), edge = axes.get_ylim(), axes.get_xlim()[1]
    ends = {symbol: list(_heights(series, symbol).values())[-1] for symbol in colours}
    ascending = sorted(ends, key=ends.__getitem__)
    heights = spread([ends[symbol] for symbol in ascending], (high - low) * LABEL_GAP)
    for symbol, height in zip(ascending, heights, strict=True):
        change = f"{ends[symbol] - 100:+.1f} %"
        # Points to the right of the edge: where the code begins, and where the figure ends.
        for text, offset, side in ((_plain(symbol), 8, "left"), (change, 90, "right")):
            axes.annotate(
                text,
                (edge, height),
                xytext=(offset, 0),
                textcoords="offset points",
                ha=side,
                va="center",
                fontsize=10,
                fontweight="bold",
                color=colours[symbol],
                annotation_clip=False,
            )


def _mark_ends(axes: Axes, series: Series, symbols: Sequence[str]) -> None:
    """Show which series end before the others do."""
    for symbol in symbols:
        day, height = list(_heights(series, symbol).items())[-1]
        if day == series.days[-1]:
            continue
        axes.plot([_place(day)], [height], "o", color=INK, markersize=4, zorder=5)
        axes.annotate(
            _plain(f"{symbol} ends on {day}"),
            (_place(day), height),
            xytext=(6, 5),
            textcoords="offset points",
            fontsize=8.5,
            color=INK,
            path_effects=[withStroke(linewidth=3, foreground="white")],
            zorder=5,
        )


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move heights apart until neighbours are *gap* apart; those with room enough stay.

    Args:
        heights: Ascending.
        gap: The least distance.

    Returns:
        The new heights in the same order; each crowd of them is centred where it was.
    """
    # Less its place in the queue, a height may not be below the one before it: where it is, the
    # two share their mean (the pooling of adjacent violators of isotonic regression).
    crowds: list[list[float]] = []
    for place, height in enumerate(heights):
        crowds.append([height - place * gap])
        while len(crowds) > 1 and fmean(crowds[-1]) < fmean(crowds[-2]):
            crowds[-2:] = [crowds[-2] + crowds[-1]]
    means = [fmean(crowd) for crowd in crowds for _ in crowd]
    return [mean + place * gap for place, mean in enumerate(means)]
