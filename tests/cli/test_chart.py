import io

import pytest
from matplotlib.axes import Axes
from PIL import Image

from gateway_sdk.cli.series import COLOURS, REST, draw_chart
from tests.cli.support import series_of


def colours_of(png: bytes) -> set[str]:
    image = Image.open(io.BytesIO(png)).convert("RGB")
    assert image.size == (1600, 1000)
    found = image.getcolors(1_000_000) or []
    return {f"#{r:02x}{g:02x}{b:02x}" for count, (r, g, b) in found if count > 50}  # type: ignore[misc]


@pytest.mark.parametrize(
    ("rates", "lines"),
    [
        ({"USD": ["1", "2", "3"]}, 1),
        ({"USD": ["1.5"]}, 1),
        ({"USD": ["1", "2"], "GBP": ["3", "1"]}, 2),
        ({"USD": ["1", "2"], "$x^$": ["3", "1"], "SEK": [None, None]}, 2),
    ],
)
def test_picture_has_a_line_for_each_currency(
    rates: dict[str, list[str | None]], lines: int
) -> None:
    assert colours_of(draw_chart(series_of(rates))) >= set(COLOURS[:lines])
    assert COLOURS[lines] not in colours_of(draw_chart(series_of(rates)))


def test_currencies_that_are_not_named_are_grey() -> None:
    """In a chart of many only those have a colour that are named; one that ends early is marked."""
    rates: dict[str, list[str | None]] = {
        "USD": ["1", "2", "3"],
        "GBP": ["3", "1", "2"],
        "BGN": ["1", "2", None],
    }

    found = colours_of(draw_chart(series_of(rates), title="$x^$", named=["GBP"]))

    assert {REST, COLOURS[0]} <= found
    assert COLOURS[1] not in found


def test_legend_has_the_changes_and_counts_the_grey_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[list[str]] = []
    monkeypatch.setattr(
        Axes, "legend", lambda it, **_: shown.append(it.get_legend_handles_labels()[1][::-1])
    )
    series = series_of({"A": ["1", "2"], "B": ["1", "1.5"], "C": ["2", "1"]})

    draw_chart(series)
    draw_chart(series, named=["B"])

    assert shown == [["A +100.0 %", "B +50.0 %", "C -50.0 %"], ["B +50.0 %", "2 others"]]
