"""What Python itself lacks: late names, calls that cannot fail."""

import logging
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NoReturn

_logger = logging.getLogger("gateway_sdk")


def lazy(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, the `__dir__` and the `__all__` of a package."""
    # A program that only makes calls does not pay for logins, stores and bulk runs.
    # A module with names gives those; a module without names is itself one.
    places = {name: module for module, names in modules.items() for name in names.split()}
    themselves = {module.rpartition(".")[2]: module for module in modules if not modules[module]}

    def load(name: str) -> Any:
        if name in themselves:
            return import_module(themselves[name])
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(places[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    public = sorted({*places, *themselves})
    return load, lambda: sorted({*vars(sys.modules[package]), *public}), public


def tell_progress(on_progress: Callable[..., object], *how_far: object) -> None:
    """Call the user's progress function; its errors are logged and change nothing."""
    try:
        on_progress(*how_far)
    except Exception:
        _logger.exception("on_progress failed")


class NotPickled:
    """Base of what holds secrets."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} may hold a secret: it cannot be pickled")
