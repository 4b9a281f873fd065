"""The options of a test run: the engine of sessions that name none, and the long sweeps.

`pytest --engine asyncio` uses the other engine. It leaves out tests that it would only repeat, and
reports their number: tests that name their engine, which run on all, and tests that need httpx.

`pytest --full` adds the tests marked `full`: long sweeps whose short form runs always, and the
tests of the benchmarks. Hypothesis then tries 100 examples where a test names no number, not 30,
and every program of the command line and of the documents is a new interpreter.
"""

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import hypothesis
import pytest

from gateway_sdk._transport.factory import DEFAULTS, ENGINES
from gateway_sdk._transport.httpx_engine import HttpxEngine, load_module
from gateway_sdk._transport.transmission import DirectRequest, DirectResponse
from tests.support import warm_start

USUAL: Final = ENGINES[0]
pytest_plugins = ("pytester",)  # for the tests of our own plugin
LEFT_OUT: Final = pytest.StashKey[dict[str, int]]()
SENDING: Final = pytest.StashKey[set[str]]()
BENCHMARKS: Final = Path(__file__).parent / "benchmarks"

# The duration of an example depends on the machine's load more than on the code.
hypothesis.settings.register_profile("any machine", deadline=None, max_examples=30)
hypothesis.settings.register_profile("full", deadline=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options."""
    parser.addoption(
        "--engine", choices=ENGINES, default=USUAL, help="engine of sessions that name none"
    )
    parser.addoption(
        "--full", action="store_true", help="add long sweeps and the tests of the benchmarks"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Set the engine of sessions that name none, and restore the handler of SIGINT."""
    hypothesis.settings.load_profile("full" if config.option.full else "any machine")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell ignores SIGINT in its background processes, and their children inherit this.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    DEFAULTS["engine"] = config.option.engine
    # Otherwise the first call loads them in a thread, which virtual time cannot wait for.
    HttpxEngine.module = load_module()
    if not config.pluginmanager.has_plugin("gateway_sdk"):  # the SDK was installed without it
        config.pluginmanager.import_plugin("_gateway_sdk_pytest")
    config.stash[LEFT_OUT] = {}
    config.stash[SENDING] = set()
    if config.option.engine != USUAL:
        _note_who_sends(config.stash[SENDING])


def _note_who_sends(tests: set[str]) -> None:
    """Note the tests that send a request with the other engine."""
    from gateway_sdk._transport.asyncio_engine import AsyncioEngine  # noqa: PLC0415 - an extra

    send = AsyncioEngine.exchange

    async def note(engine: AsyncioEngine, request: DirectRequest) -> DirectResponse:
        tests.add(os.environ["PYTEST_CURRENT_TEST"].partition(" (")[0])
        return await send(engine, request)

    pytest.MonkeyPatch().setattr(AsyncioEngine, "exchange", note)


@pytest.fixture(scope="session")
def python(pytestconfig: pytest.Config) -> Iterator[list[str]]:
    """Provide the command of Python for a program that asks little of its interpreter.

    With --full it is a new interpreter; else a fork of a process that has the imports behind it.
    """
    if pytestconfig.option.full:
        yield [sys.executable]
        return
    with warm_start.serve() as command:
        yield command


@pytest.fixture
def collectable() -> Iterator[None]:
    """Give back to the collector what a fleet's worker kept out of its sight, and its pace."""
    pace = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*pace)


@pytest.fixture(scope="session")
def usual_engine(pytestconfig: pytest.Config) -> str:
    """Provide the engine of sessions that name none."""
    return str(pytestconfig.option.engine)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while the tests are collected: almost all that is made then stays.

    What has been made is not looked at later either.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that do not use the engine, and the long sweeps without --full."""
    reasons = {item: _why_not(item, config) for item in items}
    left_out = config.stash[LEFT_OUT]
    for reason in filter(None, reasons.values()):
        left_out[reason] = left_out.get(reason, 0) + 1
    config.hook.pytest_deselected(items=[item for item in items if reasons[item]])
    items[:] = [item for item in items if not reasons[item]]


def _why_not(item: pytest.Item, config: pytest.Config) -> str | None:
    is_long = item.get_closest_marker("full") or BENCHMARKS in item.path.parents
    if is_long and not config.option.full:
        return "run with --full only"
    if config.option.engine == USUAL:
        return None
    if "engine" in getattr(item, "fixturenames", ()):
        return "name their engine"
    return "need httpx itself" if item.get_closest_marker("httpx") else None


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Report what was left out, and how many tests used the other engine.

    With several processes (`-n`) each counts its own tests, and nothing is reported.
    """
    for reason, number in config.stash[LEFT_OUT].items():
        terminalreporter.write_line(f"left out: {number} tests that {reason}")
    if config.option.engine != USUAL:
        terminalreporter.write_line(
            f"engine {config.option.engine}: {len(config.stash[SENDING])} tests sent requests"
        )
