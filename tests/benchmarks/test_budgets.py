"""The rounds, ratios and budgets of the benchmarks, and the command that runs them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as command, rounds
from benchmarks.budgets import BUDGETS, judge
from benchmarks.parts import PARTS
from benchmarks.peers import OURS, PEERS
from benchmarks.rounds import interleaved, median_ratio, uploads
from tests.benchmarks.figures import ALL, seen_of


def test_variants_take_turns_and_turns_begin_with_another_one_each() -> None:
    """Every round measures each of them once; nobody is always the first."""
    order, told = list[str](), list[str]()

    def measure(name: str) -> dict[str, float]:
        order.append(name)
        return {"figure": float(len(order))}

    seen = interleaved("abc", 4, measure, told.append)

    assert "".join(order) == "abcbcacababc"
    assert seen["a"]["figure"] == [1.0, 6.0, 8.0, 10.0]
    assert told[3] == "round 2 of 4: b"


def test_a_ratio_is_that_of_neighbours() -> None:
    """What slows down a whole round changes no ratio."""
    assert median_ratio([1.0, 100.0, 3.0], [2.0, 200.0, 2.0]) == 0.5


def test_a_process_is_without_the_proxies_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A proxy would be what is measured."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    code = "import json, os; print(json.dumps({'it': float('HTTP_PROXY' in os.environ)}))"

    assert rounds.in_process("-c", code) == {"it": 0.0}


def upload_of(**changes: Any) -> dict[str, Any]:
    one = {
        "content_ok": True,
        "mib_per_second": 900.0,
        "cpu_seconds": 1.0,
        "memory_growth_mib": 0.5,
        "blocked_ms": 1.0,
        "progress_told": 3,
    }
    return {"variants": {"gateway form httpx": one | changes}}


def test_an_upload_gives_its_figures() -> None:
    """A ratio that there is not is left out."""
    figures = uploads(upload_of())["gateway form httpx"]

    assert figures["mib_per_second"] == [900.0]
    assert "ratio_curl" not in figures


def test_an_upload_of_something_else_is_no_figure() -> None:
    """What arrived must be what was sent."""
    with pytest.raises(ValueError, match="gateway form httpx"):
        uploads(upload_of(content_ok=False))


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.title)
@pytest.mark.parametrize("beyond", [False, True])
def test_a_budget_is_met_up_to_its_limit(budget: Any, beyond: bool) -> None:
    """The limit itself is allowed; one figure beyond it is enough to miss the budget."""
    parts = {budget.part: seen_of(budget.part, [1.0])}
    over = 0.99 if budget.at_least else 1.01
    values = [budget.limit] * len(budget.figures)
    values[-1] *= over if beyond else 1
    for figure, value in zip(budget.figures, values, strict=True):
        parts[budget.part][budget.ours][figure] = [value]

    verdicts = {(one.title, one.limit): one for one in judge(parts)}

    found = verdicts[budget.title, budget.limit]
    assert found.met is not beyond
    assert list(found.measured.values()) == pytest.approx(values)


def test_a_budget_of_something_that_was_left_out_is_not_judged() -> None:
    """No figures, no verdict; fewer figures, a verdict of those."""
    short = {name: {"cpu_us 1": [1.0]} for name in PEERS if name not in {"aiohttp", "AsyncOpenAI"}}

    assert judge({}) == []
    assert [one.title for one in judge({"cpu": short})] == [
        "CPU / pyreqwest",
        "CPU / OpenAI on aiohttp",
    ]


@pytest.mark.timeout(240)
def test_a_short_run_writes_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables and budgets are printed, all figures are in a file, and missed budgets are counted."""
    monkeypatch.setattr(command, "RESULTS", tmp_path / "never")

    missed = command.main(["imports", "countries", "--short", "--results", str(tmp_path)])

    output = capsys.readouterr().out
    found = json.loads((tmp_path / "results.json").read_text())
    assert set(found["parts"]) == {"imports", "countries"}
    assert found["parts"]["countries"][OURS]["cpu_us"]["median"] > 0
    assert output.count("MISSED") == missed == sum(not one["met"] for one in found["budgets"])
    assert PARTS["countries"].title in output
    assert "too rough" in output
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("arguments", [["speed"], ["cpu", "speed"]])
def test_an_unknown_part_is_named(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is measured, and what there is is told."""
    with pytest.raises(SystemExit):
        command.main(arguments)

    assert "no such part: speed" in capsys.readouterr().err


def test_only_a_whole_run_replaces_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part alone, or a short run, leaves the figures of the last whole run as they are."""
    monkeypatch.setattr(command, "measure", lambda names, **_: {name: ALL[name] for name in names})
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results")

    command.main(["cpu"])
    command.main(["--short"])
    assert not (tmp_path / "results").exists()

    assert command.main([]) > 0
    written = json.loads((tmp_path / "results" / "results.json").read_text())
    assert set(written["parts"]) == set(PARTS)


def test_what_is_being_done_is_shown_in_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, cut to the terminal, and nothing of it in a file."""
    command.status("somewhere")
    assert capsys.readouterr().err == ""

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    command.status("x" * 100)
    assert capsys.readouterr().err == "\r\033[K" + "x" * 79
