"""The service of the examples: its own tests pass, as its developers run them."""

import sys

from tests.support.documents import ROOT, run


async def test_the_tests_of_the_service_pass() -> None:
    ended = await run(
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "examples/service", folder=ROOT
    )

    assert ended.status == 0, ended.out
    assert "12 passed" in ended.out
