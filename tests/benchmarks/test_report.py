"""Ratios are of one interleaved run; tables, page and chart are written from the results file."""

import json
from pathlib import Path

import pytest

from benchmarks import __main__ as command, chart, page
from benchmarks.budgets import BUDGETS, Budget, judge
from benchmarks.parts import COUNTED, PARTS, left_out
from benchmarks.peers import OURS
from benchmarks.report import machine, results
from benchmarks.rounds import Seen, beside, interleaved, median_ratio

ALL: dict[str, Seen] = {
    name: {
        variant: {figure: [2.0, 1.0] for figure in part.columns.values()}
        for variant in part.variants
    }
    for name, part in PARTS.items()
}
for figures in ALL["cpu"].values():
    figures |= {"server_busy 50": [0.2, 0.3], "server_us 50": [9.0, 8.4]}


def test_variants_take_turns_and_turns_begin_with_another_one_each() -> None:
    """Every round measures each of them once; nobody is always the first."""
    order = list[str]()

    def measure(name: str) -> dict[str, float]:
        order.append(name)
        return {"figure": float(len(order))}

    seen = interleaved("abc", 4, measure, lambda _: None)

    assert "".join(order) == "abcbcacababc"
    assert seen["a"]["figure"] == [1.0, 6.0, 8.0, 10.0]


def test_a_ratio_is_that_of_neighbours() -> None:
    """What slows down a whole round changes no ratio."""
    assert median_ratio([1.0, 100.0, 3.0], [2.0, 200.0, 2.0]) == 0.5
    uploads: Seen = {name: {"mib_per_second": [4.0, 1.0]} for name in PARTS["upload"].variants}
    uploads["curl file"] = {"mib_per_second": [8.0, 2.0]}
    assert beside(uploads)["gateway file"]["ratio_curl"] == [0.5, 0.5]
    assert uploads["gateway file"]["ratio_httpx"] == [1.0, 1.0]


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda one: f"{one.title} {one.figures}")
@pytest.mark.parametrize("beyond", [False, True])
def test_a_budget_is_met_up_to_its_limit(budget: Budget, beyond: bool) -> None:
    """One figure beyond it is enough to miss it; without the other variant nothing is judged."""
    values = [budget.limit] * len(budget.figures)
    values[-1] += beyond * (-0.01 if budget.at_least else 0.01) * (budget.limit or 1)
    seen: Seen = {budget.theirs or "": {name: [1.0] for name in budget.figures}}
    ours = [value + budget.more for value in values]
    seen[budget.ours] = {name: [value] for name, value in zip(budget.figures, ours, strict=True)}

    (found,) = judge({budget.part: seen})

    assert budget.figures[-1] in PARTS[budget.part].columns.values()
    assert found.met is not beyond
    assert list(found.measured.values()) == pytest.approx(values)
    if budget.theirs:
        assert judge({budget.part: {budget.ours: seen[budget.ours]}}) == []


def test_a_short_run_measures_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All figures are in the file and in tables, missed budgets are counted, no page is written."""
    monkeypatch.setattr(command, "RESULTS", tmp_path / "never")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")  # else it would be what is measured

    # These take minutes, for the processes of all variants; `test_measures` has one of each.
    names = [name for name in PARTS if name not in (*COUNTED, "suite", "targets")]
    missed = command.main([*names, "--short", "--results", str(tmp_path)])

    output = capsys.readouterr().out
    found = json.loads((tmp_path / "results.json").read_text())
    assert output.count("**missed**") == missed == sum(not one["met"] for one in found["budgets"])
    assert "too rough" in output
    assert not (tmp_path / "never").exists()
    for name in names:
        seen, part = found["parts"][name], PARTS[name]
        assert [*seen] == [variant for variant in part.variants if variant not in left_out(name)]
        assert part.title in output
        assert all(set(part.columns.values()) & figures.keys() for figures in seen.values())
    for upload in PARTS["upload"].variants[4:]:
        # Less than the document, so it was not read whole.
        assert found["parts"]["upload"][upload]["memory_growth_mib"]["median"] < 24


def test_only_a_whole_run_replaces_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part alone, or a short run, leaves the figures of the last whole run as they are."""
    monkeypatch.setattr(command, "measure", lambda names, **_: ({it: ALL[it] for it in names}, {}))
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results")

    command.main(["cpu"])
    command.main(["--short"])
    assert not (tmp_path / "results").exists()

    assert command.main([]) > 0
    written = json.loads((tmp_path / "results" / "results.json").read_text())
    assert set(written["parts"]) == set(PARTS)


def test_the_page_ends_with_the_figures_that_are_kept() -> None:
    """To renew it: `python -m benchmarks.page`."""
    found = json.loads(page.RESULTS.read_text())

    assert page.PAGE.read_text().endswith(f"\n\n{page.HEADING}\n{page.tables(found)}")
    assert {file.stem for file in page.RESULTS.parent.glob("*.svg")} == {
        f"chart-{theme}" for theme in chart.THEMES
    }


@pytest.mark.parametrize("busy", [0.8, 0.81])
def test_the_page_keeps_its_text_and_has_the_new_figures(tmp_path: Path, busy: float) -> None:
    """Each variant and budget has its row; a server that was the bottleneck is told."""
    some = ALL["cpu"][OURS] | {"server_busy 50": [busy]}
    seen = ALL | {"cpu": ALL["cpu"] | {OURS: some}}
    found = results(machine(), seen, {"countries": {"aiohttp": "not installed"}})
    found["printed"] = {"soak": "all is well\n"}
    (tmp_path / "results.json").write_text(json.dumps(found))
    text = tmp_path / "page.md"
    text.write_text(f"# Text\n\n{page.HEADING}old\n")

    page.write(tmp_path / "results.json", text)

    once = text.read_text()
    assert once.startswith(f"# Text\n\n{page.HEADING}\nMade on ")
    assert "| curl file | 1.50 (1.00 to 2.00) |" in once
    assert "| aiohttp | left out: not installed |" in once
    assert once.endswith("What `soak` printed\n\n```text\nall is well\n```\n")
    assert once.count("missed") == sum(not budget["met"] for budget in found["budgets"])
    assert f"is {busy:.0%} busy at most ({OURS}, 50)" in once
    assert ("That is too much" in once) == (busy > page.FULL_SERVER)
