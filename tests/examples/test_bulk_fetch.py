"""The bulk fetch of the examples does what it says, against the sandbox on a socket."""

import sys
from pathlib import Path

from tests.support.documents import ROOT, run


async def test_the_bulk_fetch_prints_one_line_per_series(
    gateway_env: dict[str, str], tmp_path: Path
) -> None:
    """It asks for what is quoted only, and a second run has nothing to fetch."""
    program = str(ROOT / "examples" / "bulk_fetch.py")

    for _ in range(2):
        ended = await run(sys.executable, "-W", "error", program, folder=tmp_path)

        assert ended.status == 0, ended.err
        *lines, last = ended.out.splitlines()
        assert len(lines) == 29
        assert any(line.startswith("USD: 63 days; ") for line in lines)
        assert last == "1827 rates in quarter.csv; 0 of 29 currencies failed"
