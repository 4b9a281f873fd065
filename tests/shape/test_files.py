"""Files are worth a door and can be read in one go."""

from pathlib import Path

import pytest

import gateway_sdk

ROOT = Path(gateway_sdk.__file__).parent
FILES = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))}
LONGEST, SHORTEST = 500, 30  # lines

DATA = {
    "_everywhere.py",
    "_extras.py",
    "_pyinstaller/hook-gateway_sdk.py",  # their names are PyInstaller's
    "_pyinstaller/hook-gateway_sdk.sandbox.py",
    "_version.py",
    "areas/country_data.py",  # each area has a file
    "areas/kyc.py",
    "cli/__main__.py",  # what `python -m gateway_sdk.cli` runs
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_neither_long_nor_tiny(name: str) -> None:
    """Packages' faces and data may be short."""
    lines = len(FILES[name].read_text().splitlines())

    assert lines <= LONGEST
    assert lines >= SHORTEST or name in DATA or name.endswith("__init__.py")
