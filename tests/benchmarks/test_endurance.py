"""The benchmarks in short: what they see must be right; how fast it was is not asked here."""

from typing import Any

import pytest

from benchmarks import soak, upload
from benchmarks.processes import server
from benchmarks.soaking import CONNECTIONS, Sample, soak as run_soak
from benchmarks.uploader import VARIANTS
from gateway_sdk._http.pieces import FEW, LARGE_PIECE, PIECE

MIB = 32
SLACK = 24
"""MiB that an upload may take at the most: less than the document, so it was not read whole."""


@pytest.fixture(scope="module")
def uploads() -> dict[str, Any]:
    """Provide what was seen in one short round of every variant."""
    outcome = upload.run(MIB, 1, lambda _: None)
    variants: dict[str, Any] = outcome["variants"]
    assert upload.table(outcome).count("\n") == len(variants) + 1
    return variants


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.timeout(240)
def test_a_large_upload_is_whole_and_never_in_memory(uploads: dict[str, Any], variant: str) -> None:
    """The server has the document, progress was told to its end, and memory stayed small."""
    seen = uploads[variant]

    assert seen["content_ok"]
    assert seen["progress_ok"]
    assert seen["memory_growth_mib"] < SLACK
    if variant.startswith("gateway"):
        assert seen["progress_told"] >= FEW // PIECE + (MIB * 2**20 - FEW) // LARGE_PIECE


@pytest.mark.timeout(240)
async def test_nothing_leaks_where_much_is_cut() -> None:
    """After thousands of calls, a third of them cut, every slot is usable and nothing is held."""
    calls, rows = 2000, list[str]()

    def report(sample: Sample) -> None:
        rows.append(soak.row(sample))

    with server("soak_server", "1") as url:
        outcome = await run_soak(url, calls, 1, report)

    assert soak.missed(outcome) == []
    assert len(rows) == 10
    ends = {name for sample in outcome["samples"] for name in sample["outcomes"]}
    cut = {"cut before it began", "cut NOT_SENT", "cut UNKNOWN"}
    assert {"done", "ReplyLostError APPLIED", *cut} <= ends
    assert sum(sum(sample["outcomes"].values()) for sample in outcome["samples"]) == calls


GOOD: dict[str, Any] = {
    "connections": CONNECTIONS,
    "usable": CONNECTIONS,
    "server": {"open": 0},
    "samples": [
        {
            "calls": number,
            "tasks": 0,
            "threads": 0,
            "free": CONNECTIONS,
            "connections": CONNECTIONS,
            "memory_mib": 50.0,
            "descriptors": 30,
            "outcomes": {"done": 1},
        }
        for number in range(10)
    ],
}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"tasks": 1}, "1 tasks"),
        ({"threads": 1}, "1 threads"),
        ({"free": CONNECTIONS - 1}, "19 slots free"),
        ({"connections": CONNECTIONS + 1}, "21 connections"),
        ({"memory_mib": 60.0}, "memory grows"),
        ({"descriptors": 51}, "descriptors grow"),
        ({"outcomes": {"UNEXPECTED KeyError": 1}}, "UNEXPECTED KeyError"),
    ],
)
def test_a_soak_sees_what_leaks(change: dict[str, Any], problem: str) -> None:
    """Each figure that is not flat is named."""
    *samples, last = GOOD["samples"]

    assert soak.missed(GOOD) == []
    found = soak.missed({**GOOD, "samples": [*samples, {**last, **change}]})
    assert len(found) == 1
    assert problem in found[0]


@pytest.mark.parametrize(
    ("change", "problem"),
    [({"usable": 19}, "only 19"), ({"server": {"open": 1}}, "1 connections outlive")],
)
def test_a_soak_sees_what_is_wrong_at_its_end(change: dict[str, Any], problem: str) -> None:
    """A slot that is lost for good, or a connection that is never closed, is named."""
    found = soak.missed({**GOOD, **change})

    assert len(found) == 1
    assert problem in found[0]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"content_ok": False}, "content or progress"),
        ({"progress_ok": False}, "content or progress"),
        ({"memory_growth_mib": 4.1}, "4 MiB"),
        ({"blocked_ms": 20.1}, "20 ms"),
        ({"ratio_curl": 0.96}, "throughput"),
    ],
)
def test_an_upload_sees_what_missed_its_budget(change: dict[str, Any], problem: str) -> None:
    """Each budget that was missed is named, by variant."""
    seen = {
        "content_ok": True,
        "progress_ok": True,
        "memory_growth_mib": 4.0,
        "blocked_ms": 20.0,
        "ratio_curl": 0.97,
    }

    assert upload.missed({"variants": {"gateway file": seen}}) == []
    (found,) = upload.missed({"variants": {"gateway file": {**seen, **change}}})
    assert found.startswith("gateway file: ")
    assert problem in found
