"""Which extra brings which module. Imports nothing that an extra brings."""

from collections.abc import Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Final

EXTRA_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        "asyncpg": "fleet",
        "babel": "sandbox",
        "countryinfo": "sandbox",
        "currency_converter": "sandbox",
        "fsspec": "fleet",
        "keyring": "keyring",
        "matplotlib": "plot",
        "pyarrow": "parquet",
        "pyrate_limiter": "fleet",
        "redis": "redis",
        "rich": "cli",
        "simplejson": "cli",
        "starlette": "sandbox",
        "taskiq": "fleet",
        "typer": "cli",
        "uvicorn": "sandbox",
    }
)
"""Top-level modules only: `rich.tabel` missing is our misspelling, and no extra cures it."""

APART: Final = frozenset({"fleet", "keyring", "parquet", "redis"})
"""The extras that [demo] does not bring: stores of tokens, a fleet's needs, a large library."""


def how_to_install(module: str | None) -> str | None:
    """Say in one line which extra brings a missing module; None if none does."""
    extra = EXTRA_OF.get(module or "")
    if extra is None:
        return None
    advice = f"this needs the extra [{extra}]: pip install 'gateway-sdk[{extra}]'"
    return advice if extra in APART else f"{advice} ('gateway-sdk[demo]' for every command)"


def require(module: str) -> None:
    """Make sure that a module is installed, without the time that importing it takes.

    Raises:
        ModuleNotFoundError: it is not.
    """
    if find_spec(module) is None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)
