"""What Python itself lacks: late names, a repr of half-made objects, frozen ones made fast."""

import sys
from collections.abc import Callable, Mapping
from functools import wraps
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


def safe_repr(describe: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a `__repr__` that also works without some attributes.

    A traceback that shows local variables calls it, and an AttributeError in it would hide the
    original error.
    """

    @wraps(describe)
    def describe_or_say_so(half_built: Any) -> str:
        try:
            return describe(half_built)
        except AttributeError:
            return f"<{type(half_built).__name__}, not fully made>"

    return describe_or_say_so


def slot_setters(kind: type) -> tuple[Callable[[Any, Any], None], ...]:
    """Return what sets each slot of a class, in their order, also if its instances are frozen.

    The `__init__` that dataclass writes for a frozen class looks each of them up by its name.
    """
    slots: tuple[str, ...] = vars(kind)["__slots__"]
    return tuple(vars(kind)[name].__set__ for name in slots)
