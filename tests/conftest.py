"""Which engine the sessions of tests have that name none: `pytest --engine aiohttp` for the other.

Such a run leaves out what it would only repeat, and says how much that is: tests that name their
engine, because they are for all, and tests that need httpx itself.
"""

import os
from typing import Final

import httpx
import pytest

from gateway_sdk import GatewaySession
from gateway_sdk._engine.factory import ENGINES

USUAL: Final = ENGINES[0]
LEFT_OUT: Final = pytest.StashKey[dict[str, int]]()
SENDING: Final = pytest.StashKey[set[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--engine", choices=ENGINES, default=USUAL, help="engine of sessions that name none"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the engine the one of sessions that name none."""
    defaults = GatewaySession.__init__.__kwdefaults__
    assert defaults is not None
    defaults["engine"] = config.option.engine
    config.stash[LEFT_OUT] = {}
    config.stash[SENDING] = set()
    if config.option.engine != USUAL:
        _note_who_sends(config.stash[SENDING])


def _note_who_sends(tests: set[str]) -> None:
    """Note the tests that send a request with the other engine."""
    from gateway_sdk._engine.aiohttp_engine import AiohttpEngine  # noqa: PLC0415 - an extra

    send = AiohttpEngine.handle_async_request

    async def note(engine: AiohttpEngine, request: httpx.Request) -> httpx.Response:
        tests.add(os.environ["PYTEST_CURRENT_TEST"].partition(" (")[0])
        return await send(engine, request)

    pytest.MonkeyPatch().setattr(AiohttpEngine, "handle_async_request", note)


@pytest.fixture(scope="session")
def usual_engine(pytestconfig: pytest.Config) -> str:
    """Provide the engine of sessions that name none."""
    return str(pytestconfig.option.engine)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has nothing to do with the engine that was asked for."""
    if config.option.engine == USUAL:
        return
    reasons = {item: _why_not(item) for item in items}
    left_out = config.stash[LEFT_OUT]
    for reason in filter(None, reasons.values()):
        left_out[reason] = left_out.get(reason, 0) + 1
    config.hook.pytest_deselected(items=[item for item in items if reasons[item]])
    items[:] = [item for item in items if not reasons[item]]


def _why_not(item: pytest.Item) -> str | None:
    if "engine" in getattr(item, "fixturenames", ()):
        return "name their engine"
    return "need httpx itself" if item.get_closest_marker("httpx") else None


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say how much of the run was on the engine, and what was left out."""
    if config.option.engine == USUAL:
        return
    terminalreporter.write_line(
        f"engine {config.option.engine}: {len(config.stash[SENDING])} tests sent requests with it"
    )
    for reason, number in config.stash[LEFT_OUT].items():
        terminalreporter.write_line(f"left out: {number} tests that {reason}")
