"""The options of a test run: the long sweeps, and uvloop.

`pytest --full` adds the tests marked `full`, which are long sweeps whose short form runs always,
and the tests of the benchmarks. Hypothesis then tries 100 examples where a test names no number,
not 30.

`pytest --uvloop` runs coroutine tests on uvloop, without those marked `asyncio_loop`.

On Windows the tests marked `posix` are skipped.
"""

import gc
import os
import signal
import sys
from asyncio import AbstractEventLoop
from collections.abc import Callable, Generator, Mapping
from typing import Final

import hypothesis
import pytest

pytest_plugins = ("pytester",)  # for the tests of our own plugin
LEFT_OUT: Final = pytest.StashKey[int]()

# The duration of an example depends on the machine's load more than on the code.
hypothesis.settings.register_profile("any machine", deadline=None, max_examples=30)
hypothesis.settings.register_profile("full", deadline=None)

# Their modules import what Windows, or wine, lacks.
collect_ignore = ["cli/test_chart.py", "bulk/journal/test_killed.py"] if os.name == "nt" else []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", help="add long sweeps and the tests of the benchmarks"
    )
    parser.addoption("--uvloop", action="store_true", help="run coroutine tests on uvloop's loop")


class _OnUvloop:
    def pytest_asyncio_loop_factories(self) -> Mapping[str, Callable[[], AbstractEventLoop]]:
        uvloop = pytest.importorskip("uvloop")
        return {"uvloop": uvloop.new_event_loop}


def pytest_configure(config: pytest.Config) -> None:
    """Restore the handler of SIGINT, and load our own plugin."""
    hypothesis.settings.load_profile("full" if config.option.full else "any machine")
    if config.option.uvloop:
        config.pluginmanager.register(_OnUvloop())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell ignores SIGINT in its background processes, and their children inherit this.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.name == "posix":  # a shell ignores SIGQUIT there too, and nohup SIGHUP
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if not config.pluginmanager.has_plugin("gateway_sdk"):  # the SDK was installed without it
        config.pluginmanager.import_plugin("_gateway_sdk_pytest")
    config.stash[LEFT_OUT] = 0


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while the tests are collected: almost all that is made then stays.

    What has been made is not looked at later either; a test that unfreezes makes all others slow.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Free the ports that a login keeps: a later command in this process would wait for them."""
    if ports := sys.modules.get("gateway_sdk.auth._login.server"):
        for place in list(ports.kept_ports):
            for listener in ports.take_port(place):
                listener.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the long sweeps without --full, and with --uvloop what needs asyncio's loop."""
    if config.option.uvloop:
        _leave_out(config, items, lambda item: item.get_closest_marker("asyncio_loop"))
    if os.name == "nt":
        # Windows' loop leaves what its servers accepted as they ended.
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")
        for item in items:
            if item.get_closest_marker("posix"):
                item.add_marker(pytest.mark.skip(reason="needs what Windows lacks"))
    if not config.option.full:
        config.stash[LEFT_OUT] = _leave_out(config, items, _is_long)


def _leave_out(
    config: pytest.Config, items: list[pytest.Item], unwanted: Callable[[pytest.Item], object]
) -> int:
    left_out = set(filter(unwanted, items))
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
    return len(left_out)


def _is_long(item: pytest.Item) -> bool:
    return bool(item.get_closest_marker("full")) or item.nodeid.startswith("tests/benchmarks/")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Report what was left out; with several processes (`-n`) nothing is reported."""
    if number := config.stash[LEFT_OUT]:
        terminalreporter.write_line(f"left out: {number} tests that run with --full only")
