"""What cuts a run short, a deadline or Ctrl-C, and how it goes on."""

import threading
from pathlib import Path

import pytest

from gateway_sdk.sandbox import Fault, Sandbox
from gateway_sdk.sandbox._faults import FaultyCall
from tests.cli.commands.journeys import (
    ALL,
    JOB,
    ONE_BY_ONE,
    SERIES,
    SERIES_OF,
    Call,
    journal_of,
    keys,
    lines,
    states,
)
from tests.cli.interruptions import interrupt


def test_deadline_ends_a_run_that_goes_on_later(
    call_gateway: Call, served: Sandbox, out: Path
) -> None:
    """What was cut off or not begun is not in the file: the same command fetches it."""
    late = threading.Event()

    async def wait(call: FaultyCall) -> None:
        await (call.proceed() if late.is_set() else Fault.latency(3600).apply(call))

    served.faults.on(SERIES_OF, Fault("an hour", wait), at=3)

    ended = call_gateway(*JOB, "--out", out, *ONE_BY_ONE, "--deadline", "1")
    late.set()  # on a slow machine, the third call is one of the next run
    missing = SERIES - len(lines(out))
    again = call_gateway(*JOB, "--out", out)

    assert (ended.status, missing >= SERIES - 2) == (4, True)
    assert ended.err.splitlines()[1:] == [
        f"gateway: the deadline of 1 s passed: {missing} series are missing",
        "The same command fetches what is missing.",
    ]
    assert again.status == 0
    assert states(out) == ["done"] * SERIES


@pytest.mark.parametrize(
    ("operation", "job", "series"), [("list_countries", ALL, "all"), (SERIES_OF, JOB, "6")]
)
def test_interruption_says_how_to_go_on(
    call_gateway: Call,
    served: Sandbox,
    out: Path,
    operation: str,
    job: tuple[str, ...],
    series: str,
) -> None:
    """Ctrl-C is status 130, whatever it interrupts; the file that was there stays."""
    out.write_text("before\n", encoding="utf-8")

    ended = interrupt(call_gateway, served, operation, *job, "--out", str(out), *ONE_BY_ONE)

    assert (ended.status, ended.out) == (130, "")
    assert ended.err.startswith("\ngateway: stopped by Ctrl-C\n")
    there = f"at least 0 of {series} series, 0 failed\nThe same command continues.\n"
    assert there in ended.err
    assert out.read_text(encoding="utf-8") == "before\n"
    assert {path.name for path in out.parent.iterdir()} == {out.name, journal_of(out).name}
    assert not keys(out)
