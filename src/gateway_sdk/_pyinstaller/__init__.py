"""The hooks for PyInstaller, which finds them by an entry point."""

from pathlib import Path


def hook_dirs() -> list[str]:
    return [str(Path(__file__).parent)]
