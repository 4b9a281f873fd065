"""Checks of what users give: each takes a name and a value, and returns the value to use."""

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, TypeAlias, get_type_hints

import httpx

from gateway_sdk.errors import ConfigurationError

Declared: TypeAlias = dict[str, tuple[Any, Callable[[str, Any], Any]]]
"""Settings by name: the default, and the check."""

_LONGEST: Final = 10 * 365 * 86400.0
"""Seconds: ten years. Larger numbers overflow in event loops and sockets."""


def declared(settings: type) -> Declared:
    """Return the settings that a TypedDict annotates with their type, default and check."""
    hints = get_type_hints(settings, include_extras=True)
    return {name: hint.__metadata__ for name, hint in hints.items()}


def checked(declared: Declared, given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: check(name, given.get(name, default)) for name, (default, check) in declared.items()
    }


def check_names(where: str, given: Iterable[str], known: Collection[str]) -> None:
    """Refuse an argument that does not exist, and suggest the name that is meant."""
    for name in given:
        if name not in known:
            from difflib import get_close_matches  # noqa: PLC0415 - after a mistake only

            # A part of a name goes before a similar name: `connections` for `max_connections`.
            close = sorted(other for other in known if name in other)
            close = close or get_close_matches(name, sorted(known), 1)
            hint = f": did you mean {' or '.join(close)}?" if close else ""
            raise ConfigurationError(f"{where} has no argument {name!r}{hint}")


def check_timeout(name: str, timeout: object) -> httpx.Timeout:
    if not isinstance(timeout, httpx.Timeout):
        return httpx.Timeout(check_seconds(name, timeout))
    for phase, seconds in timeout.as_dict().items():
        check_seconds(f"{name}.{phase}", seconds)
    return timeout


def check_seconds(name: str, seconds: object) -> float | None:
    """Return a positive, finite number of seconds, or None for no limit."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise ConfigurationError("must be a number of seconds or None", setting=name)
    if not 0 < seconds <= _LONGEST:  # False for NaN too
        raise ConfigurationError(
            "must be more than 0 seconds and finite", setting=name, hint="; None is no limit"
        )
    return float(seconds)


def check_wait(name: str, seconds: object) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise ConfigurationError("must be a number of seconds", setting=name)
    if not 0 <= seconds <= _LONGEST:  # False for NaN too
        raise ConfigurationError("must be at least 0 seconds and finite", setting=name)
    return float(seconds)


def check_amount(name: str, amount: object) -> float:
    if (
        isinstance(amount, bool)
        or not isinstance(amount, int | float)
        or not 0 <= amount <= sys.float_info.max  # False for NaN too
    ):
        raise ConfigurationError("must be a number of at least 0", setting=name)
    return float(amount)


def check_switch(name: str, value: object) -> bool:
    """Return True or False; refuse other types: the text "false" counts as true in Python."""
    if not isinstance(value, bool):
        raise ConfigurationError("must be True or False", setting=name)
    return value


def is_async(function: object) -> bool:
    """Tell whether the result of a function must be awaited, or is an asynchronous iterator."""
    called = (function, function.__call__) if callable(function) else ()
    return any(
        inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in called
    )


def check_count(name: str, count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ConfigurationError("must be a whole number of at least 1", setting=name)
    return count
