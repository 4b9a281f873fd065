from collections.abc import Callable
from typing import Final

import pytest

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
def run_apart(pytester: pytest.Pytester) -> Run:
    def run(tests: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(f"import asyncio, pytest\n{tests}")
        return pytester.runpytest_subprocess(*USUAL, *arguments, timeout=100)

    return run
