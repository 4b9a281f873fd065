"""Ctrl-C in this process, at a moment that a test chooses."""

import os
import signal
import threading

import pytest

from gateway_sdk.sandbox import Fault, Sandbox
from tests.cli.ended import Call, Ended
from tests.cli.terminal import wait_until_asleep


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
