"""Observers of all sessions and bulk runs of a program, which nobody passes as an argument."""

from collections.abc import Callable
from typing import Any, Final

# An instrumentor adds one in every program on a machine, most of which never make a session: so
# what it needs for that stands here, where nothing else is loaded, and not in `observer`.
makers: Final[dict[str, Callable[[], Any]]] = {}
"""What makes them, by a name."""


def with_added(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the observers that were given, and those added that are of no class of theirs."""
    # A program that gives an `OpenTelemetry` has chosen its providers: two would trace twice.
    kinds = {type(observer) for observer in given}
    made = [make() for make in makers.values()]
    return (*given, *(observer for observer in made if type(observer) not in kinds))
