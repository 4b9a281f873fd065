"""Figures as the benchmarks would have measured them."""

from collections.abc import Sequence

from benchmarks.parts import PARTS
from benchmarks.rounds import Seen


def seen_of(name: str, values: Sequence[float] = (2.0, 1.0, 3.0)) -> Seen:
    """Return figures of all variants of a part."""
    columns = PARTS[name].columns.values()
    figures = {
        variant: {figure: [*values] for figure in columns} for variant in PARTS[name].variants
    }
    if name == "cpu":
        for one in figures.values():
            one |= {"server_busy 50": [0.2, 0.3], "server_us 50": [9.0, 8.4]}
    if name == "bulk":
        for one in figures.values():
            one["seconds 50"] = [*values]
    return figures


ALL = {name: seen_of(name) for name in PARTS}
