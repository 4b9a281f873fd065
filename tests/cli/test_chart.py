import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
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
        "matplotlib.axes.Axes.legend",
        lambda it, **_: shown.append(it.get_legend_handles_labels()[1][::-1]),
    )
    series = series_of({"A": ["1", "2"], "B": ["1", "1.5"], "C": ["2", "1"]})

    draw_chart(series)
    draw_chart(series, named=["B"])

    assert shown == [["A +100.0 %", "B +50.0 %", "C -50.0 %"], ["B +50.0 %", "2 others"]]


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (1, ["2025-12-30", "2025-12-31", "2026-01-01", "2026-01-02", "2026-01-03"]),
        (3, ["2026-01-01", "2026-01-02", "2026-01-03"]),
        (60, ["2026-01-01", "2026-01-15", "2026-02-01", "2026-02-15", "2026-03-01"]),
    ],
)
def test_the_axis_has_days_in_one_format(
    monkeypatch: pytest.MonkeyPatch, count: int, shown: list[str]
) -> None:
    """No hours, for a rate is that of a day."""
    found: list[list[str]] = []

    def keep(figure: Any, *_: object, **__: object) -> None:
        (axes,) = figure.axes
        found.append([label.get_text() for label in axes.get_xticklabels()])
        assert axes.get_position().x1 > 0.93, "an empty margin, without a legend"

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", keep)
    draw_chart(series_of({"USD": [str(1 + day) for day in range(count)]}))

    assert found == [shown]


WITHOUT_FOLDERS = """if True:
    import os, sys, tempfile
    tempfile.tempdir = os.environ["HOME"] = "/dev/null/none"
    for name in ("MPLCONFIGDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        os.environ.pop(name, None)
    from gateway_sdk.cli import main
    sys.argv[0] = "gateway"
    main()
"""


RATES, DEMO = "rates EUR USD --start 2026-10-20 --png {}/x.png", "demo --out {}/x"


@pytest.mark.parametrize(
    ("place", "command"),
    [
        ("here", RATES),
        ("/proc", DEMO),
        pytest.param("here", DEMO, marks=pytest.mark.full),
        pytest.param("/proc", RATES, marks=pytest.mark.full),
    ],
)
def test_a_chart_needs_no_home_and_no_folder_for_temporary_files(
    tmp_path: Path, place: str, command: str
) -> None:
    """As in a container: where the chart itself can be written is a folder for matplotlib."""
    (tmp_path / "here").mkdir()
    sandbox = ["--sandbox"] if "rates" in command else []
    words = [*sandbox, *command.format(place).split()]

    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_FOLDERS, *words],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        text=True,
    )

    if place == "here":
        assert (ended.returncode, "Traceback" in ended.stderr) == (0, False)
        left = {path.name for path in (tmp_path / "here").rglob("*")}
        assert left in ({"x.png"}, {"x", "rates.csv", "rates.png"})
    else:
        assert ended.returncode == 2
        assert ended.stderr.startswith("gateway: cannot write /proc")
        assert len(ended.stderr.splitlines()) == 1
