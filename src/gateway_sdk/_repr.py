"""A repr that works if `__init__` raised before it had set every attribute."""

from collections.abc import Callable
from functools import wraps
from typing import Any


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
