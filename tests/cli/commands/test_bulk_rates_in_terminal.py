"""The command in a terminal of 80 columns, where somebody ends it."""

import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway_sdk.sandbox import Fault, Sandbox
from gateway_sdk.sandbox._faults import FaultyCall
from tests.cli.commands.journeys import (
    JOB,
    ONE_BY_ONE,
    SERIES,
    SERIES_OF,
    Call,
    asked,
    journal_of,
    keys,
    lines,
    states,
)
from tests.cli.terminal import Terminal

Start = Callable[..., Terminal]

THREE = 3


@pytest.fixture
def stuck(start_in_terminal: Start, served: Sandbox, out: Path) -> Terminal:
    """Provide a run that has three series and waits an hour for the fourth, which has arrived."""
    arrived = threading.Event()

    async def wait(call: FaultyCall) -> None:
        arrived.set()
        await Fault.latency(3600).apply(call)

    served.faults.on(SERIES_OF, Fault("an hour", wait), at=THREE + 1)
    terminal = start_in_terminal(*JOB, "--out", out, *ONE_BY_ONE)
    terminal.read_until(f"{THREE}/{SERIES}")
    assert arrived.wait(60)
    return terminal


def test_interrupted_run_goes_on(
    stuck: Terminal, call_gateway: Call, served: Sandbox, out: Path
) -> None:
    """Ctrl-C takes the bar away, says how to go on, and what was fetched is not fetched again."""
    stuck.interrupt()
    status, shown = stuck.end()
    kept = states(out)
    before = asked(served)
    again = call_gateway(*JOB, "--out", out)

    assert status == 130
    assert shown.splitlines()[-3:] == [
        "gateway: stopped by Ctrl-C",
        f"{journal_of(out)}: at least 3 of 6 series, 0 failed",
        "The same command continues.",
    ]
    assert kept == ["done"] * THREE
    assert again.err.startswith("6 of 6 series, 3 of them new\n")
    assert asked(served) - before == SERIES - THREE


def test_killed_run_goes_on(
    stuck: Terminal, call_gateway: Call, served: Sandbox, out: Path
) -> None:
    """After kill -9 nothing that was shown as done is fetched again, and nothing stands twice."""
    stuck.kill()
    left = out.exists()
    before = asked(served)
    again = call_gateway(*JOB, "--out", out)

    assert not left, "half a file of rates"
    assert again.err.startswith("6 of 6 series, 3 of them new\n")
    assert asked(served) - before == SERIES - THREE
    assert (len(lines(out)), len(keys(out))) == (SERIES, SERIES)


def test_bar_fits_and_goes_away(run_in_terminal: Callable[..., tuple[int, str]], out: Path) -> None:
    """No line of it is longer than the terminal, and the last line is the summary."""
    status, shown = run_in_terminal(*JOB, "--out", out, "--sandbox", NO_COLOR="1")

    plain = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", shown)
    assert status == 0
    assert f"{SERIES}/{SERIES}" in plain
    assert max(map(len, re.split(r"[\r\n]+", plain.rpartition("6 of 6")[0]))) <= 80
    assert shown.rstrip().endswith(f"{out}: 44 rows")
    assert not re.search(r"\x1b\[[0-9;]*(?<!\d)[34]\d", shown), "colours in spite of NO_COLOR"
