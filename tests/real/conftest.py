"""What all tests with real servers need."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.load import TALLY


@pytest.fixture
def folder() -> Iterator[Path]:
    """Provide a folder that servers can reach that give up being root, as tmp_path is not."""
    path = Path(tempfile.mkdtemp(prefix="gateway-real-"))
    path.chmod(0o755)
    if os.geteuid() == 0:
        path.chmod(0o777)
    yield path
    shutil.rmtree(path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for what, number in sorted(TALLY.items()):
        terminalreporter.write_line(f"real servers: {what}: {number}")
