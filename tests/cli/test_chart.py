import io
from typing import Any

import pytest
from matplotlib.axes import Axes
from PIL import Image

from gateway_sdk.cli.series import COLOURS, LABEL_GAP, REST, draw_chart
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

    found = colours_of(draw_chart(series_of(rates), title="$x^$", named=["GBP", "XXX"]))

    assert {REST, COLOURS[0]} <= found
    assert COLOURS[1] not in found


def test_labels_keep_their_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    """A label is beside the end of its line, or else as far above the one below as it has to be."""
    placed: dict[str, float] = {}

    def annotate(_: Axes, text: str, place: tuple[float, float], *__: Any, **___: Any) -> None:
        placed[text.split(maxsplit=1)[0]] = place[1]

    monkeypatch.setattr(Axes, "annotate", annotate)
    draw_chart(series_of({"A": ["1", "2"], "B": ["1", "1.5"], "C": ["1", "1.5"], "D": ["1", "1"]}))

    gap = placed["C"] - placed["B"]
    assert [placed["A"], placed["B"], placed["D"]] == [200, 150, 100]
    assert 100 * LABEL_GAP < gap < 120 * LABEL_GAP  # matplotlib leaves a margin


def test_legend_counts_the_grey_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[list[str]] = []
    monkeypatch.setattr(Axes, "legend", lambda _, __, texts, **___: shown.append(texts))
    series = series_of({"A": ["1", "2"], "B": ["1", "1.5"], "C": ["1", "1.5"]})

    draw_chart(series)
    draw_chart(series, named=["A"])

    assert shown == [["2 other currencies"]]
