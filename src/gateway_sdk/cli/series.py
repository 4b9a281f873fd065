"""Exchange rates as they are shown: tables, a curve of blocks, charts as PNG."""

import atexit
import io
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from importlib import import_module
from itertools import cycle
from math import inf
from pathlib import Path
from shutil import rmtree
from statistics import fmean
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, Final

from gateway_sdk import bulk
from gateway_sdk.cli.arguments import writing
from gateway_sdk.cli.output import Table


@dataclass(frozen=True, slots=True)
class Series:
    base: str
    # The currencies asked for, in that order, then what else the gateway sent. The days of each
    # ascend; not every day has every currency.
    rates: Mapping[str, Mapping[date, Decimal]]

    @property
    def can_be_drawn(self) -> bool:
        return all(0 < float(it) < inf for found in self.rates.values() for it in found.values())

    @property
    def days(self) -> list[date]:
        return sorted({day for found in self.rates.values() for day in found})

    def change(self, symbol: str) -> Decimal:
        rates = list(self.rates[symbol].values())
        return 100 * (rates[-1] / rates[0] - 1)

    def table(self) -> Table:
        rows = [(day, *(found.get(day) for found in self.rates.values())) for day in self.days]
        return Table(("date", *self.rates), rows)


def read_series(reply: Any, base: str, symbols: Iterable[str]) -> Series | None:
    """Read a reply; None if it has another shape."""
    rows = bulk.rate_rows(reply, base=base)
    rates: dict[str, dict[date, Decimal]] = {symbol: {} for symbol in symbols}
    for row in rows or ():
        rates.setdefault(row.symbol, {})[row.date] = Decimal(str(row.rate))
    return None if rows is None else Series(base, rates)


BLOCKS: Final = "▁▂▃▄▅▆▇█"


def curve(rates: Mapping[date, Decimal], days: Sequence[date], width: int) -> str:
    """Draw rates as blocks, each the mean of a part of the days; a part without rates is a gap."""
    span = (days[-1] - days[0]).days + 1
    parts: dict[int, list[float]] = defaultdict(list)
    for day, rate in rates.items():
        parts[(day - days[0]).days * width // span].append(float(rate))
    means = {place: fmean(part) for place, part in parts.items()}
    low, high, top = min(means.values()), max(means.values()), len(BLOCKS) - 1
    drawn = [" "] * width
    for place, mean in means.items():
        drawn[place] = BLOCKS[round((mean - low) / (high - low) * top) if high > low else top // 2]
    return "".join(drawn)


COLOURS: Final = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#882255",
)  # fmt: skip
"""Okabe and Ito's palette, which colour-blind readers tell apart; and wine, of Paul Tol's."""
FEW_DAYS: Final = 8  # have a label each; more would overlap
REST: Final = "#c4c8cc"
INK: Final = "#2b2f33"
FAINT: Final = "#6b7177"
STYLE: Final[Any] = {
    "figure.figsize": (10, 6.25),  # inches
    "figure.dpi": 160,  # 1600 by 1000 in all
    "text.parse_math": False,  # a dollar begins no formula
    # What is not data is as faint as it can be read.
    **dict.fromkeys([f"axes.spines.{side}" for side in ("left", "right", "top", "bottom")], False),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 0),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 9),
    **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), FAINT),
    "axes.xmargin": 0,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#e8eaec",
    "legend.frameon": False,
    "legend.loc": "upper left",
}


def load_matplotlib(folder: Path) -> None:
    """Import it; without a folder for temporary files, its cache gets one beside the chart."""
    try:
        TemporaryDirectory().cleanup()
    except OSError:  # it would take one if there is no home either
        with writing(folder):
            ours = os.environ["MPLCONFIGDIR"] = mkdtemp(prefix=".matplotlib-", dir=folder)
        atexit.register(rmtree, ours, ignore_errors=True)
    import_module("matplotlib")


def draw_chart(
    series: Series, *, title: str = "", subtitle: str = "", named: Sequence[str] = ()
) -> bytes:
    """Draw the rates of a lone currency, and of several an index from their first day on."""
    # Imported here, because it needs the extra [plot], and takes a second or two. Not pyplot, which
    # keeps figures for the whole process.
    from matplotlib import dates as untyped, rc_context  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    dates: Any = untyped
    base, is_lone = series.base, len(series.rates) == 1
    drawn = {symbol: found for symbol, found in series.rates.items() if found}
    colours = dict(zip(named or drawn, cycle(COLOURS), strict=False))
    file = io.BytesIO()
    with rc_context(STYLE):
        figure: Any = Figure()
        room = (0.88, 0.83) if is_lone else (0.8, 0.79)  # without and with a legend and a subtitle
        axes = figure.add_axes((0.06, 0.075, *room))
        few = len(series.days) <= FEW_DAYS
        axes.xaxis.set_major_locator(
            dates.DayLocator() if few else dates.AutoDateLocator(minticks=3, maxticks=8)
        )
        axes.xaxis.set_major_formatter(dates.DateFormatter("%Y-%m-%d"))
        if grey := len(drawn) - len(colours):
            axes.plot([], [], color=REST, label=f"{grey} others")
        # Those in colour are drawn above the others, and the legend begins with the last one.
        for symbol in sorted(drawn, key=lambda it: (it in colours, series.change(it))):
            days, rates = zip(*drawn[symbol].items(), strict=True)
            unit = 1 if is_lone else rates[0] / 100
            axes.plot(
                days,
                [float(rate / unit) for rate in rates],
                clip_on=False,  # at the ends of the axis
                color=colours.get(symbol, REST),
                linewidth=1.8 if symbol in colours else 0.9,
                marker="o" if len(days) == 1 else "",  # a single rate makes no line
                label=f"{symbol} {series.change(symbol):+.1f} %" if symbol in colours else "_",
            )
        if is_lone:
            title = title or f"One {base} in {next(iter(drawn))}"
        else:
            axes.axhline(100, color=INK, linewidth=0.8, zorder=1)
            axes.legend(reverse=True, bbox_to_anchor=(1, 1))
            title = title or f"What one {base} buys, 100 on the first day"
            subtitle = subtitle or "Beside each currency: the change since its first day."
        figure.text(0.02, 0.945, title, fontsize=16, fontweight="bold", color=INK)
        figure.text(0.02, 0.9, subtitle, fontsize=10, color=FAINT)
        figure.savefig(file, format="png")
    return file.getvalue()
