"""What the benchmarks measure, in short: that the work is really done, never how fast it was."""

import asyncio
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gateway_server import SERIES
from benchmarks.measures import latency
from benchmarks.measures.load import ask, counted, drive, warm
from benchmarks.parts import NEAREST, PARTS, left_out, settings_of
from benchmarks.peers import PEERS, lacking
from benchmarks.peers.generated import generate
from benchmarks.peers.request import check
from benchmarks.processes import server

HERE = [name for name in PEERS if lacking(name) is None]
MEASURES = ("cpu", "latency", "blocking", "memory", "bulk", "countries", "opening")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with server("gateway_server") as address:
        yield address


@pytest.fixture
def generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the generated client where Python looks for it."""
    generate(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize("peer", HERE)
@pytest.mark.usefixtures("generated")
async def test_every_peer_makes_the_call_and_reads_the_reply(url: str, peer: str) -> None:
    """One call is one request at the server, and its reply is there, decoded."""
    before = ask(url)["requests"]

    async with PEERS[peer].open(url, 2) as call:
        replies = await asyncio.gather(call(), call(), call())

    for reply in replies:
        check(reply)
        assert reply["rates"] == SERIES["rates"]
    assert ask(url)["requests"] == before + 3


@pytest.mark.parametrize("peer", HERE)
@pytest.mark.usefixtures("generated")
async def test_every_peer_fails_where_the_reply_is_an_error(url: str, peer: str) -> None:
    """No peer is measured while it takes a refusal for an answer."""
    async with PEERS[peer].open(f"{url}/nowhere", 1) as call:
        with pytest.raises(Exception, match=r"404|refusal"):
            await call()


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("peer", [name for name in NEAREST if name in HERE])
async def test_every_measure_gives_all_the_figures_of_its_table(
    url: str, measure: str, peer: str
) -> None:
    """Figures come out, each of them a number of something that happened."""
    before = ask(url)["requests"]
    module = import_module(f"benchmarks.measures.{measure}")

    figures: dict[str, float] = await module.measure(peer, url, settings_of(measure, short=True))

    shown = PARTS[measure].columns.values() & figures.keys()
    assert shown
    assert all(value >= 0 for value in figures.values())
    assert all(figures[name] > 0 for name in shown if "late" not in name and name != "first_cpu_ms")
    assert ask(url)["requests"] > before


def test_a_whole_run_gives_every_column_of_the_table() -> None:
    """The levels and latencies that are measured are those that have a heading."""
    cpu, bulk = (settings_of(name, short=False) for name in ("cpu", "bulk"))

    assert len(PARTS["cpu"].columns) == len(cpu["levels"])
    assert [f"{latency} ms" for latency in bulk["latencies"]] == [*PARTS["bulk"].columns]


async def test_work_is_counted_at_the_server(url: str) -> None:
    """Callers make at least a call each, and the server has seen as many as were made."""
    async with PEERS["raw sockets"].open(url, 3) as call:
        await warm(call, 3)
        seen = await counted(url, lambda: drive(call, 3, 0.0))

    assert seen["calls"] == 3
    assert seen["cpu_us"] > 0
    assert seen["calls_per_s"] > 0


async def test_calls_that_were_never_made_are_not_measured(url: str) -> None:
    """A number of calls that the server did not see is refused."""

    async def boast() -> int:
        return 2

    with pytest.raises(ValueError, match="2 calls were made, and the server saw 0"):
        await counted(url, boast)


async def test_callers_call_until_their_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call begins when the time is over, and each that began is counted."""
    now = 0.0
    monkeypatch.setattr("time.perf_counter", lambda: now)

    async def call() -> Any:
        nonlocal now
        now += 1.0
        return SERIES

    assert await drive(call, 2, 5.0) == 6  # the sixth began before the fifth second was over


async def test_latency_counts_from_when_a_call_was_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that a slow one held up are charged with the time that they waited."""
    now = 0.0
    monkeypatch.setattr("time.perf_counter", lambda: now)
    took: list[float] = []

    async def call() -> Any:
        nonlocal now
        now += 0.1  # blocks the event loop for so long
        return SERIES

    assert await latency.at_rate(call, 100, 4, took) == 4
    assert took == pytest.approx([0.1, 0.2 - 0.01, 0.3 - 0.02, 0.4 - 0.03])


@pytest.mark.parametrize(
    ("values", "percent", "value"),
    [
        ([1.0], 99, 1.0),
        ([1.0, 2.0], 50, 1.0),
        ([1.0, 2.0], 51, 2.0),
        ([float(number) for number in range(1, 101)], 99, 99.0),
        ([float(number) for number in range(1, 101)], 50, 50.0),
    ],
)
def test_a_percentile_is_a_value_that_was_seen(
    values: list[float], percent: int, value: float
) -> None:
    """It is the smallest that so many percent do not exceed, and nothing is interpolated."""
    assert latency.percentile(values, percent) == value


def test_a_reply_that_is_another_one_is_refused() -> None:
    """A peer that decoded something else is not measured."""
    with pytest.raises(ValueError, match="not the reply"):
        check({"base": "USD"})


def test_what_is_not_installed_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer whose package is missing has a reason."""
    for module in ("benchmarks.peers.find_spec", "benchmarks.parts.find_spec"):
        monkeypatch.setattr(module, lambda name: None if name == "openai" else name)

    assert left_out("cpu").items() >= {
        ("AsyncOpenAI", "openai not installed"),
        ("AsyncOpenAI on aiohttp", "openai not installed"),
    }
    assert left_out("imports") == {"import openai": "openai not installed"}
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert left_out("upload").items() == {
        ("curl file", "curl not installed"),
        ("curl stream", "curl not installed"),
    }
