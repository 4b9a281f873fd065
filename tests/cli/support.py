"""How commands are run and end here, Ctrl-C at a moment that a test chooses, and series to draw."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import NamedTuple

import pytest

from gateway_sdk.cli.series import Series
from gateway_sdk.sandbox import Fault, Sandbox
from tests.cli.terminal import Terminal, wait_until_asleep


class Ended(NamedTuple):
    """The exit status, what was written to standard output, and to standard error."""

    status: int
    out: str
    err: str


Call = Callable[..., Ended]
Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[str]]
StartInTerminal = Callable[..., Terminal]
Settings = Mapping[str, str]


def interrupt(call: Call, served: Sandbox, operation: str, *arguments: str) -> Ended:
    """Press Ctrl-C as soon as the gateway has got a call, which it takes an hour to serve."""
    if os.name == "nt":
        pytest.skip("needs what Windows lacks")
    served.faults.on(operation, Fault.latency(3600), at=1)
    ended = threading.Event()

    def press() -> None:
        while not served.received:
            if ended.wait(0.01):
                return  # the command failed before it sent anything
        wait_until_asleep(os.getpid())
        os.kill(os.getpid(), signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    try:
        return call(*arguments)
    finally:
        ended.set()
        pressing.join()


FIRST = date(2026, 1, 1)


def series_of(rates: Mapping[str, list[str | None]]) -> Series:
    """Make a series of days from the first one on; None is a day without a rate."""
    return Series(
        "EUR",
        {
            symbol: {
                FIRST + timedelta(days=number): Decimal(text)
                for number, text in enumerate(found)
                if text
            }
            for symbol, found in rates.items()
        },
    )
