"""Names of a package that are loaded when they are first used (PEP 562)."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(
    package: str, modules: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package.

    A program that only makes calls does not pay for logins, stores and bulk runs.

    Args:
        package: The name of the package.
        modules: The modules that are loaded late, each with its names in the package; no names
            mean the module itself.
    """
    places = {name: module for module, names in modules.items() for name in names}
    themselves = {module.rpartition(".")[2]: module for module in modules if not modules[module]}

    def load(name: str) -> Any:
        if name in themselves:
            return import_module(themselves[name])
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(places[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places, *themselves})

    return load, names
