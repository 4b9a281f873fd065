"""The bulk fetch of the examples does what it says, against the sandbox on a socket."""

import re
import sys

from tests.support.documents import ROOT, run


async def test_the_bulk_fetch_prints_one_line_per_series(gateway_env: dict[str, str]) -> None:
    """The script ends with status 0 and says how many currencies have no series."""
    ended = await run(sys.executable, "-W", "error", "examples/bulk_fetch.py", folder=ROOT)

    lines = ended.out.splitlines()
    assert ended.status == 0, ended.err
    assert "USD: 63 days" in lines
    assert re.fullmatch(
        r"1\d\d currencies of 2\d\d countries, failed: \{'NotFoundError': \d+\}", lines[-1]
    )
