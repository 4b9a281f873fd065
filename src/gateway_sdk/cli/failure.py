"""Why a command ends: the exit statuses, its error, and extras that are missing.

It imports no extra.
"""

from importlib.util import find_spec
from typing import Final

FAILED: Final = 1
"""Any other failure, such as a login that was not finished."""
MISUSED: Final = 2
"""The command line, a file or a setting is wrong."""
REFUSED: Final = 3
"""The gateway refused: nothing was changed."""
UNCHANGED: Final = 4
"""Nothing was sent, or a read got no usable reply. Running it again does no harm."""
UNKNOWN: Final = 5
"""It may have been done."""
APPLIED: Final = 6
"""It was done, but its reply could not be used or printed."""
STOPPED: Final = 130
"""Stopped by Ctrl-C: 128 and the number of the signal, as in shells."""
READER_LEFT: Final = 141
"""The reader of the output has closed it, as `head` does: 128 and the number of SIGPIPE."""

EXTRAS: Final = {
    "cli": ("rich", "simplejson", "typer"),
    "fast": ("httptools",),
    "keyring": ("keyring",),
    "parquet": ("pyarrow",),
    "plot": ("matplotlib",),
    "redis": ("redis",),
    "sandbox": ("babel", "countryinfo", "currency_converter", "starlette", "uvicorn"),
}
"""Top-level modules only: if `rich.tabel` is missing, that is a mistake of ours."""

APART: Final = frozenset({"fast", "fleet", "keyring", "parquet", "redis"})
"""The extras that [demo] does not bring: an engine, stores of tokens, a fleet's
needs, a large library."""


class CommandError(Exception):
    """The reason why a command ends with an exit status; its message is for the user."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def how_to_install(module: str | None) -> str | None:
    """Say in one line which extra has a missing module; None if no extra has it."""
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    if extra is None:
        return None
    # Not by its name: no index has it, and another one's package may have that name there.
    advice = f"this needs the extra [{extra}]: pip install '.[{extra}]' in a clone of gateway_sdk"
    return advice if extra in APART else f"{advice} ('.[demo]' for every command)"


def require(module: str) -> None:
    """Raise ModuleNotFoundError if a module is not installed, without importing it."""
    if find_spec(module) is None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)
