"""The event loops that the engine runs on."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.support.failing_server import FailingServer
from tests.support.truth import check, make
from tests.transport.test_truth import STEPS

EAGER: Final[Any] = getattr(asyncio, "eager_task_factory", None)
"""Since Python 3.12."""


def debugging() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_debug(enabled=True)
    return loop


def eager() -> asyncio.AbstractEventLoop:
    """Make an event loop whose tasks begin at once."""
    loop = asyncio.new_event_loop()
    loop.set_task_factory(EAGER)
    return loop


def on_uvloop() -> asyncio.AbstractEventLoop:
    loop: asyncio.AbstractEventLoop = pytest.importorskip("uvloop").new_event_loop()
    return loop


LOOPS: Final = [debugging, on_uvloop, *([eager] if EAGER else [])]


@pytest.mark.parametrize("operation", ["create_customer", "order_history"])
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("loop", LOOPS)
def test_what_is_said_is_what_came_on_every_loop(
    loop: Callable[[], asyncio.AbstractEventLoop], name: str, operation: str
) -> None:
    """The table of failures holds whatever runs it."""
    step = STEPS[name]

    async def scenario() -> None:
        async with FailingServer(step.script) as server:
            record = await make(server.url, operation, retry=None, timeout=step.times)
        check(record, step, server.receipts, None)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())
