"""Contexts that are current for a time, and what is written on spans at their end."""

import sys
from asyncio import CancelledError
from typing import Any, Final

from opentelemetry import context
from opentelemetry.context import Context
from opentelemetry.trace import Span, StatusCode

from gateway_sdk.outcome import Attempt

# Private in opentelemetry, which has no public name for it; every stock instrumentor asks for it.
_SUPPRESS: Final[str | None] = getattr(context, "_SUPPRESS_HTTP_INSTRUMENTATION_KEY", None)

_INSTRUMENTORS: Final = "opentelemetry.instrumentation.utils"
"""Where every stock instrumentor asks whether it is to be silent."""

_FIRST_FAILURE: Final = 400

SCHEMA: Final = "https://opentelemetry.io/schemas/1.30.0"
"""The version of the semantic conventions that the names of attributes are from."""


class Current:
    """A context that is current from now on until `leave`."""

    # `start_as_current_span` would cost more than all the rest.

    __slots__ = ("_token", "context")

    def __init__(self, inside: Context) -> None:
        self.context = inside
        self._token = context.attach(inside)

    def leave(self) -> None:
        if context.get_current() is self.context:
            context.detach(self._token)


def without_instrumentors(inside: Context) -> Context:
    """Return a context in which instrumentors of HTTP clients make no spans of their own."""
    # The same one if no instrumentor is loaded.
    if _SUPPRESS is None or _INSTRUMENTORS not in sys.modules:
        return inside
    return context.set_value(_SUPPRESS, value=True, context=inside)


def end(span: Span, attributes: dict[str, Any], error: str | None) -> None:
    """End a span; *error* is its `error.type`, or None if it did not fail."""
    if error is not None:
        attributes["error.type"] = error
        span.set_status(StatusCode.ERROR)
    span.set_attributes(attributes)
    span.end()


def error_of_attempt(attempt: Attempt) -> str | None:
    """Return the `error.type` of an attempt: its status, or the class of its error."""
    if attempt.status is not None and attempt.status >= _FIRST_FAILURE:
        return str(attempt.status)
    return attempt.error


def error_of(error: BaseException) -> str | None:
    """Return the `error.type`: the class of an error; None for a caller that gave up."""
    if isinstance(error, CancelledError | GeneratorExit):
        return None
    return type(error).__name__
