from pathlib import Path

import pytest


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Provide the place of a file that is not there yet."""
    return tmp_path / "rates.csv"
