"""What the asyncio engine is made of: its parser, and the event loops that it runs on."""

import asyncio
import builtins
import sys
from collections.abc import Callable
from typing import Any, Final

import httpx
import pytest

from gateway_sdk import ConfigurationError, GatewaySession
from tests.support.failing_server import FailingServer
from tests.support.truth import check, make
from tests.transport.test_truth import STEPS

OURS: Final = tuple(
    f"gateway_sdk._transport.{name}"
    for name in ("asyncio_engine", "exchange", "reply_reader", "route")
)


def test_without_its_parser_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is refused when the session is made, before anything is sent."""
    for name in OURS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "httptools", None)

    with pytest.raises(ConfigurationError, match=r"pip install '\.\[fast\]'"):
        GatewaySession("https://gateway.test", access_token="t", engine="asyncio")


def test_the_engine_that_left_is_refused_with_the_one_in_its_place() -> None:
    """The message names what there is."""
    engine: Any = "aiohttp"
    with pytest.raises(ConfigurationError, match="engine must be 'httpx' or 'asyncio'"):
        GatewaySession("https://gateway.test", access_token="t", engine=engine)


@pytest.mark.parametrize(
    "options",
    [{"engine": "httpx"}, {"transport": httpx.AsyncHTTPTransport()}],
    ids=["httpx", "a transport"],
)
def test_the_parser_is_loaded_for_its_engine_only(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """It is an extra."""
    real = builtins.__import__

    def importing(name: str, *given: Any) -> Any:
        assert "httptools" not in name
        return real(name, *given)

    monkeypatch.setattr(builtins, "__import__", importing)
    GatewaySession("https://gateway.test", access_token="t", **options)


EAGER: Final[Any] = getattr(asyncio, "eager_task_factory", None)
"""Since Python 3.12."""


def debugging() -> asyncio.AbstractEventLoop:
    """Make an event loop that looks for mistakes."""
    loop = asyncio.new_event_loop()
    loop.set_debug(enabled=True)
    return loop


def eager() -> asyncio.AbstractEventLoop:
    """Make an event loop whose tasks begin at once."""
    loop = asyncio.new_event_loop()
    loop.set_task_factory(EAGER)
    return loop


def on_uvloop() -> asyncio.AbstractEventLoop:
    """Make an event loop of uvloop."""
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
            record = await make(server.url, "asyncio", operation, retry=None, timeout=step.times)
        check(record, step, server.receipts, None)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())
