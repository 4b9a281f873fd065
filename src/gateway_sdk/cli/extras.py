"""The extras and their modules. This module imports none of them."""

from importlib.util import find_spec
from typing import Final

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


def how_to_install(module: str | None) -> str | None:
    """Say in one line which extra has a missing module; None if no extra has it."""
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    if extra is None:
        return None
    # Not by its name: no index has it, and another one's package may have that name there.
    advice = f"this needs the extra [{extra}]: pip install '.[{extra}]' in a clone of gateway_sdk"
    return advice if extra in APART else f"{advice} ('.[demo]' for every command)"


def require(module: str) -> None:
    """Check that a module is installed, without importing it.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    if find_spec(module) is None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)
