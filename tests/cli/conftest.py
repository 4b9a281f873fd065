import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path

import pytest

from gateway_sdk.cli.demo.findings import Finding, Findings, Plan, State
from gateway_sdk.errors import GatewayError

GATEWAY = (sys.executable, "-m", "gateway_sdk.cli")

# What a developer's own shell may have set, and what would change what is printed.
MOODS = ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TERM", "CI")


def environment(**more: str) -> dict[str, str]:
    """Give the environment of a plain terminal, and more."""
    plain = {name: value for name, value in os.environ.items() if name not in MOODS}
    return {**plain, "PYTHONIOENCODING": "utf-8", "TERM": "xterm-256color", **more}


@pytest.fixture
def run_gateway() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Provide the command line as a process whose output is piped."""

    def run(*arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*GATEWAY, *arguments],
            capture_output=True,
            check=False,
            encoding="utf-8",
            env=environment(**more),
        )

    return run


@pytest.fixture
def run_in_terminal() -> Callable[..., tuple[int, str]]:
    """Provide the command line as a process in a terminal of 80 columns."""

    def run(*arguments: str | Path, **more: str) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        process = subprocess.Popen(
            [*GATEWAY, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(**more),
        )
        os.close(theirs)
        shown = b"".join(_read_all(ours))
        os.close(ours)
        return process.wait(), shown.decode()

    return run


def _read_all(terminal: int) -> Iterator[bytes]:
    # Linux reports the end of a terminal as an input/output error.
    with suppress(OSError):
        while piece := os.read(terminal, 65536):
            yield piece


@pytest.fixture
def start_gateway() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Provide the command line as a process that runs on; none outlives its test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str | Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*GATEWAY, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            # Python holds back what it pipes until there is much of it.
            env=environment(PYTHONUNBUFFERED="1"),
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def plan() -> Plan:
    """Provide a plan of ten days."""
    return Plan(
        countries={"AED": ("Emirates",), "BGN": ("Bulgaria",), "EUR": ("Austria", "Spain")},
        base="EUR",
        first_day=date(2026, 1, 1),
        last_day=date(2026, 1, 10),
    )


@pytest.fixture
def finding() -> Callable[..., Finding]:
    """Provide the maker of a finding from days of January 2026 and rates."""

    def make(
        currency: str,
        rates: Mapping[int, float] | None = None,
        *,
        state: State = State.CURRENT,
        error: GatewayError | None = None,
    ) -> Finding:
        days = {date(2026, 1, day): rate for day, rate in (rates or {}).items()}
        return Finding(
            currency=currency, countries=("Somewhere",), state=state, rates=days, error=error
        )

    return make


@pytest.fixture
def findings(plan: Plan) -> Callable[..., Findings]:
    """Provide the maker of the findings of a job from those of its currencies."""

    def make(*items: Finding) -> Findings:
        return Findings(plan=plan, items=items, calls=len(items) + 2, seconds=1.25)

    return make
