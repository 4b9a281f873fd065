"""The tables, budgets' lines, files and charts of the benchmarks."""

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks import chart, page
from benchmarks.__main__ import RESULTS
from benchmarks.budgets import BUDGETS, judge
from benchmarks.parts import PARTS
from benchmarks.peers import OURS
from benchmarks.report import (
    budget_lines,
    cell,
    machine,
    processor,
    ratios,
    results,
    server_load,
    summary,
    table,
)
from tests.benchmarks.figures import ALL


def test_every_budget_has_a_line() -> None:
    """It says what is allowed, every ratio that was measured, and what became of it."""
    lines = list(budget_lines(judge(ALL)))

    assert len(lines) == 1 + len(BUDGETS)
    assert max(map(len, lines)) <= 80
    assert re.search(r"^CPU / aiohttp +<= 0\.48 +1\.00 +MISSED$", lines[2])
    assert re.search(r"^CPU / aiohttp +<= 0\.45 +1\.00 +MISSED$", lines[3])
    assert any(re.search(r"^gateway file, MiB +<= 4\.00 +2\.00 +met$", line) for line in lines)


@pytest.mark.parametrize("name", PARTS)
def test_every_table_fits_a_terminal(name: str) -> None:
    """A row for each variant, a column for each figure, in 80 columns."""
    lines = list(table(name, ALL[name], {}))

    assert len(lines) == 2 + len(PARTS[name].variants)
    assert max(map(len, lines)) <= 80
    assert all(line.count("±50") == 0 for line in lines[:2])
    assert all(line.count("2.00±50") == len(PARTS[name].columns) for line in lines[2:])


def test_a_table_says_what_was_left_out() -> None:
    """A variant without figures has its reason in their place."""
    seen = {name: figures for name, figures in ALL["countries"].items() if name != "aiohttp"}

    lines = list(table("countries", seen, {"aiohttp": "aiohttp not installed"}))

    assert lines[2].split(maxsplit=1) == ["aiohttp", "left out: aiohttp not installed"]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (None, ""),
        ([1234.4], "1234"),
        ([1.234], "1.23"),
        ([90.0, 100.0, 120.0], "100±15"),
        ([0.0, 0.0], "0.00"),
    ],
)
def test_a_cell_is_a_median_and_its_spread(values: list[float] | None, text: str) -> None:
    """The spread is half of what lies between the extremes, in parts of the median."""
    assert cell(values) == text


def test_ratios_are_told_of_each_engine_to_each_peer() -> None:
    """Peers are what the SDK is not."""
    lines = list(ratios({name: {"cpu_us 1": [2.0]} for name in ("httpx", OURS)}))

    assert lines[0] == f"CPU time per call of {OURS} / that of"
    assert lines[1].split() == ["httpx", "1.00"]


@pytest.mark.parametrize(("busy", "lines"), [(0.8, 2), (0.81, 3)])
def test_a_server_that_was_the_bottleneck_is_told(busy: float, lines: int) -> None:
    """What a request costs the server is told, and whether it could not do more."""
    seen = {
        "a": {"server_busy 50": [0.1, busy], "server_us 50": [9.0, 8.4]},
        "b": {"server_busy 1": [0.2], "server_us 1": [30.0]},
    }

    told = list(server_load(seen))

    assert told[0] == "The server takes 8 us of CPU per request."
    assert told[1] == f"It is {busy:.0%} busy at the most (a, 50)."
    assert len(told) == lines
    assert list(server_load({"a": {}})) == []


def test_a_summary_keeps_every_round() -> None:
    """The median, the extremes, and all of the values."""
    assert summary([3.0, 1.0, 2.5]) == {
        "median": 2.5,
        "lowest": 1.0,
        "highest": 3.0,
        "rounds": [3.0, 1.0, 2.5],
    }


def test_a_machine_is_named_by_its_model_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Date, processor, cores and versions; not whose machine it is."""
    monkeypatch.setattr(Path, "exists", lambda _: False)

    about = machine()

    assert set(about) == {
        "date", "processor", "cores", "system", "python", "versions", "load_before",
    }  # fmt: skip
    assert about["versions"].keys() >= {"httpx", "pydantic", "tenacity"}
    assert processor()


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """Provide the file of a whole run."""
    file = tmp_path / "results.json"
    about = {**machine(), "versions": {"httpx": "0.28.1"}}
    file.write_text(json.dumps(results(about, ALL, {})))
    return file


def test_charts_are_drawn_for_light_and_dark_pages(measured: Path, tmp_path: Path) -> None:
    """Each is a picture, and the same figures give the same file."""
    pytest.importorskip("matplotlib")
    files = chart.draw(measured, tmp_path)
    once = [file.read_bytes() for file in files]

    assert [file.name for file in files] == ["chart-light.svg", "chart-dark.svg"]
    assert once[0] != once[1]
    for picture in once:
        assert ET.fromstring(picture).tag.endswith("svg")  # noqa: S314 - we wrote it
    assert [file.read_bytes() for file in chart.draw(measured, tmp_path)] == once


def test_no_chart_is_drawn_of_nothing(measured: Path, tmp_path: Path) -> None:
    """A run of a part that no panel shows has figures only."""
    pytest.importorskip("matplotlib")
    measured.write_text(json.dumps(results(machine(), {"imports": ALL["imports"]}, {})))

    assert chart.draw(measured, tmp_path) == []


def test_no_chart_is_drawn_without_matplotlib(
    measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures are there without it."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)

    assert chart.draw(measured, tmp_path) == []


@pytest.mark.parametrize(
    ("medians", "limit"),
    [([1.0, 2.0, 6.0], 6.5), ([1.0, 2.0, 6.1], 3.0), ([1.0, 2.0, 9.0, 9.0], 3.0), ([4.0], 4.5)],
)
def test_an_axis_ends_behind_what_can_be_compared(medians: list[float], limit: float) -> None:
    """Bars that dwarf the others are cut off, so that the others can be told apart."""
    values = [{"median": median, "highest": median + 0.5} for median in medians]

    assert chart._limit(values) == limit


def test_an_axis_does_not_follow_a_line_that_went_far() -> None:
    """The extremes of a busy machine leave the bars as long as they were."""
    values = [{"median": 1.0, "highest": 90.0}, {"median": 2.0, "highest": 2.1}]

    assert chart._limit(values) == 3.0


def test_the_results_that_are_kept_are_of_a_whole_run() -> None:
    """What the README shows has every part, and a chart for each theme."""
    found = json.loads((RESULTS / "results.json").read_text())

    assert set(found["parts"]) == set(PARTS)
    assert {file.name for file in RESULTS.glob("*.svg")} == {
        f"chart-{theme}.svg" for theme in chart.THEMES
    }


def test_the_page_ends_with_the_figures_that_are_kept() -> None:
    """To renew it: `python -m benchmarks.page`."""
    found = json.loads((RESULTS / "results.json").read_text())

    assert page.PAGE.read_text().endswith("\n\n" + page.tables(found))


def test_the_page_keeps_its_text_and_has_the_new_figures(tmp_path: Path) -> None:
    """Whatever stands before the heading stays; each part and each budget has its rows."""
    figures = results(machine(), ALL, {})
    (tmp_path / "results.json").write_text(json.dumps(figures))
    text = tmp_path / "page.md"
    text.write_text(f"# Text\n\n{page.HEADING}old\n")

    page.write(tmp_path / "results.json", text)
    page.write(tmp_path / "results.json", text)

    lines = text.read_text().splitlines()
    assert lines[:3] == ["# Text", "", page.HEADING.strip()]
    assert "old" not in lines
    assert sum(line.startswith("| curl file |") for line in lines) == 1
    assert sum("missed" in line for line in lines) == sum(
        not budget["met"] for budget in figures["budgets"]
    )
