"""The trace context of requests and messages: W3C trace context and nothing else.

The global propagator may send baggage too, which can hold personal data.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import context
from opentelemetry.trace import Span, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_PROPAGATOR: Final = TraceContextTextMapPropagator()


def fields_of(span: Span) -> Mapping[str, str]:
    """Return the header fields that name a span as the parent; none if it belongs to no trace."""
    # They are those of the propagator, which takes three times as long.
    place = span.get_span_context()
    if not place.is_valid:
        return {}
    fields = {
        "traceparent": f"00-{place.trace_id:032x}-{place.span_id:016x}-{place.trace_flags:02x}"
    }
    if place.trace_state:
        fields["tracestate"] = place.trace_state.to_header()
    return fields


def inject() -> dict[str, str]:
    """Return what a message has to carry so that its receiver continues the current trace.

    The keys are `traceparent` and perhaps `tracestate`; {} if there is no current span.
    """
    return dict(fields_of(get_current_span()))


@contextmanager
def extract(carrier: Mapping[str, str]) -> Generator[None, None, None]:
    """Continue the trace that a message carries, for the time of the `with` block.

    Without `traceparent`, or with one that is invalid, the current context stays as it is. What
    is no string is passed over.
    """
    given: Mapping[Any, Any] = carrier  # of a message, which may hold anything
    lowered = {
        name.lower(): text
        for name, text in given.items()
        if isinstance(name, str) and isinstance(text, str)
    }
    token = context.attach(_PROPAGATOR.extract(lowered, context.get_current()))
    try:
        yield
    finally:
        context.detach(token)
