from collections.abc import Callable
from typing import Final

import pytest

import gateway_sdk.session  # noqa: F401 - a run inside forgets what it is the first to load

Run = Callable[..., pytest.RunResult]

# What any project may have set: warnings are errors, and unknown markers too.
USUAL: Final = ("--strict-markers", "--strict-config", "-W", "error", "-p", "no:cacheprovider")

ALONE: Final = tuple(
    word for name in ("asyncio", "anyio", "xdist") for word in ("-p", f"no:{name}")
)


@pytest.fixture
def run_inside(pytester: pytest.Pytester) -> Run:
    def run(tests: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(f"import asyncio, pytest\n{tests}")
        return pytester.runpytest_inprocess(*USUAL, *ALONE, *arguments)

    return run


@pytest.fixture
def run_apart(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Provide a function that runs tests in a process with the named plugins, and no others.

    All that are installed take twice as long to load as a test takes.
    """
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(tests: str, *arguments: str, plugins: tuple[str, ...] = ()) -> pytest.RunResult:
        pytester.makepyfile(f"import asyncio, pytest\n{tests}")
        named = [word for name in ("gateway_sdk", *plugins) for word in ("-p", name)]
        return pytester.runpytest_subprocess(*USUAL, *named, *arguments, timeout=100)

    return run
