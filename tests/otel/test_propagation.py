"""The trace context of messages, and what the header fields say."""

from contextlib import suppress
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway_sdk.otel import extract, fields_of, inject
from tests.otel.telemetry import Collector, id_of, parent_of, trace_of


@pytest.mark.parametrize("flags", [0, 1, 3])
@pytest.mark.parametrize(
    "state", [TraceState(), TraceState([("vendor", "1")]), TraceState([("a", "1"), ("b", "2")])]
)
def test_the_fields_are_those_of_the_propagator(flags: int, state: TraceState) -> None:
    place = SpanContext(
        0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(flags), trace_state=state
    )
    span = NonRecordingSpan(place)
    expected: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(expected, trace.set_span_in_context(span))

    fields = fields_of(span)
    assert dict(fields) == expected
    assert expected
    assert len(fields) == len(expected)
    with pytest.raises(KeyError):
        _ = fields["baggage"]


def test_a_message_continues_the_trace_of_its_sender() -> None:
    collector = Collector()
    with collector.tracer.start_as_current_span("sender"):
        token = context.attach(baggage.set_baggage("person", "Ada"))
        message = inject()
        context.detach(token)
    assert list(message) == ["traceparent"]

    with suppress(ZeroDivisionError), extract({"Traceparent": message["traceparent"], "o": "-"}):
        assert inject() == message
        collector.tracer.start_span("receiver").end()
        raise ZeroDivisionError
    assert inject() == {}
    collector.tracer.start_span("after").end()

    sender = collector.named("sender")
    receiver = collector.named("receiver")
    assert trace_of(receiver) == trace_of(sender)
    assert parent_of(receiver) == id_of(sender)
    assert parent_of(collector.named("after")) is None


FIELD = f"00-{'a' * 32}-{'b' * 16}-01"


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"traceparent": ""},
        {"traceparent": "00-none"},
        {"traceparent": FIELD.encode()},
        {b"traceparent": FIELD},
        {"traceparent": 5, "tracestate": b"a=1"},
        {"traceparent": None},
        {7: FIELD},
    ],
)
def test_a_message_without_a_trace_changes_nothing(message: Any) -> None:
    collector = Collector()

    with collector.tracer.start_as_current_span("mine") as mine, extract(message):
        assert trace.get_current_span() is mine
    assert inject() == {}
