"""Traces and metrics of calls and bulk runs, for OpenTelemetry; needs the extra [otel].

from gateway_sdk.otel import OpenTelemetry

gateway = GatewaySession.from_env(observers=[OpenTelemetry()])
"""

import re
import sys
from asyncio import CancelledError
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from gateway_sdk._version import __version__
from gateway_sdk.errors import ConfigurationError, needing_extra
from gateway_sdk.observer import CallInfo, Observer, RunInfo
from gateway_sdk.outcome import Attempt, Outcome

with needing_extra("otel", "gateway_sdk.otel"):
    from opentelemetry import context, trace
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider, get_meter
    from opentelemetry.trace import Link, Span, SpanContext, TracerProvider, set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ["OpenTelemetry", "extract", "inject"]

SCHEMA: Final = "https://opentelemetry.io/schemas/1.30.0"
"""The version of the semantic conventions that the names of attributes are from."""

_REQUEST: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""Seconds; the boundaries of the semantic conventions for HTTP (`http.client.request.duration`)."""

_HISTOGRAMS: Final = (
    ("http.client.request.duration", "Duration of HTTP client requests.", _REQUEST),
    (
        "gateway.client.call.duration",
        "Duration of calls, with their retries and waits.",
        (*_REQUEST, 30, 60, 300, 600),  # a call has retries, and a deadline of minutes
    ),
    (
        "gateway.client.slot.wait",
        "Time that requests waited for one of max_connections; only of those that waited.",
        _REQUEST,
    ),
)

MOST_CHILDREN: Final = 1000
"""Items of a run whose calls are children of its span: views of a trace fail at more."""

_GAVE_UP: Final = ("CancelledError", "GeneratorExit")
"""Errors of an attempt that was ended from outside; the end of its call says by what."""

_PLACEHOLDER: Final = re.compile(r"\{[^}]*\}")
"""Of a path; `url.full` has to be an address, and the values are identifiers."""

_RUN: Final = context.create_key("gateway_sdk.run")
"""The key of the span of a large run in the context of its items."""

# Private in opentelemetry, which has no public name for it; every stock instrumentor asks for it.
_SUPPRESS: Final[str | None] = getattr(context, "_SUPPRESS_HTTP_INSTRUMENTATION_KEY", None)

_INSTRUMENTORS: Final = "opentelemetry.instrumentation.utils"
"""Where every stock instrumentor asks whether it is to be silent."""

_FIRST_FAILURE: Final = 400

# W3C trace context alone: the global propagator may send baggage, which can hold personal data.
_PROPAGATOR: Final = TraceContextTextMapPropagator()


class _Current:
    """A context that is current from now on until `leave`."""

    # `start_as_current_span` would cost more than all the rest.

    def __init__(self, inside: Context) -> None:
        self.context = inside
        self._token = context.attach(inside)

    def leave(self) -> None:
        if context.get_current() is self.context:
            context.detach(self._token)


@dataclass(slots=True, eq=False)
class _Call:
    span: Span
    current: _Current  # the context that has it
    exchange: _Current | None = None  # that of the last attempt
    attempt: Span | None = None
    attempts: int = 0
    given_up: Attempt | None = None


class OpenTelemetry(Observer):
    """Makes spans and metrics of calls and bulk runs, and sends the trace context along.

    One object serves any number of sessions and runs. Give it to sessions for their calls, and to
    `bulk.run` for a span of the run. No attribute holds a tenant, an identifier, a header, content
    or the text of an error.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        propagate: bool = True,
    ) -> None:
        """Check the arguments.

        Args:
            tracer_provider: Makes the spans; None for the global one.
            meter_provider: Takes the metrics; None for the global one.
            propagate: Whether requests carry the trace context (`traceparent`, `tracestate`).

        Raises:
            ConfigurationError: an argument is wrong; the message names it.
        """
        for name, given, kind in (
            ("tracer_provider", tracer_provider, TracerProvider),
            ("meter_provider", meter_provider, MeterProvider),
        ):
            if not isinstance(given, kind | None):
                problem = f"must be a {kind.__name__} of OpenTelemetry, or None"
                raise ConfigurationError(problem, setting=name)
        if not isinstance(propagate, bool):
            raise ConfigurationError("must be True or False", setting="propagate")
        self._propagate = propagate
        self._tracer = trace.get_tracer("gateway_sdk", __version__, tracer_provider, SCHEMA)
        meter = get_meter("gateway_sdk", __version__, meter_provider, SCHEMA)
        self._attempt_times, self._call_times, self._slot_waits = (
            meter.create_histogram(
                name, "s", description, explicit_bucket_boundaries_advisory=boundaries
            )
            for name, description, boundaries in _HISTOGRAMS
        )
        self._calls: dict[CallInfo, _Call] = {}
        self._runs: dict[RunInfo, Span] = {}

    def call_started(self, call: CallInfo) -> None:
        """Start the span of the call."""
        outside = context.get_current()
        name = call.operation.name
        span = self._tracer.start_span(
            name, outside, attributes={"gateway.operation": name}, links=_links(outside)
        )
        self._calls[call] = _Call(span, _Current(set_span_in_context(span, outside)))

    def attempt_started(self, call: CallInfo, number: int) -> Mapping[str, str] | None:
        """Start the span of an attempt, and return the fields that carry the trace."""
        state = self._calls[call]
        span, inside = state.span, state.current.context
        state.attempts = number
        if span.is_recording():
            method, path = call.operation.method, call.operation.path
            name, attributes = _attempt_of(call.base_url, call.host, call.port, method, path)
            if number > 1:
                attributes = {**attributes, "http.request.resend_count": number - 1}
            span = self._tracer.start_span(name, inside, trace.SpanKind.CLIENT, attributes)
            state.attempt = span
            inside = set_span_in_context(span, inside)
        if _SUPPRESS is not None and _INSTRUMENTORS in sys.modules:
            # Instrumentors of HTTP clients make no spans of their own.
            inside = context.set_value(_SUPPRESS, value=True, context=inside)
        if inside is not state.current.context:
            state.exchange = _Current(inside)
        return fields_of(span) if self._propagate else None

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        """End the span of an attempt; what ended a cancelled one is known later."""
        state = self._calls[call]
        if state.exchange is not None:
            state.exchange.leave()
        if attempt.error in _GAVE_UP:
            state.given_up = attempt
            return
        error = attempt.error
        if attempt.status is not None and attempt.status >= _FIRST_FAILURE:
            error = str(attempt.status)
        self._end_attempt(call, state, attempt, error)

    def retry_scheduled(self, call: CallInfo, attempt: Attempt, seconds: float) -> None:
        """Note the retry on the span of the call."""
        del attempt
        self._calls[call].span.add_event("gateway.retry", {"gateway.retry.delay": seconds})

    def call_finished(
        self, call: CallInfo, outcome: Outcome, error: BaseException | None, elapsed: float
    ) -> None:
        """End the span of the call."""
        state = self._calls.pop(call)
        if state.exchange is not None:  # a hook of another observer may have raised before its end
            state.exchange.leave()
        state.current.leave()  # first: a processor of spans may raise
        told = {"gateway.outcome": outcome.name, **_error_of(error)}
        try:
            if state.given_up is not None:
                self._end_attempt(call, state, state.given_up, told.get("error.type"))
            elif state.attempt is not None:
                state.attempt.end()
        finally:
            _end(state.span, {"gateway.attempts": state.attempts, **told})
            self._call_times.record(elapsed, {"gateway.operation": call.operation.name, **told})

    def run_started(self, run: RunInfo) -> None:
        """Start the span of a bulk run."""
        attributes = {} if run.total is None else {"gateway.items": run.total}
        outside = context.get_current()
        self._runs[run] = self._tracer.start_span(
            "bulk.run", outside, attributes=attributes, links=_links(outside)
        )

    def item_started(self, run: RunInfo, number: int) -> None:
        """Make the calls of an item children of the run, or link them to it in a large run."""
        span = self._runs[run]
        if number <= MOST_CHILDREN:
            inside = set_span_in_context(span)
        else:
            inside = set_span_in_context(trace.INVALID_SPAN)
            inside = context.set_value(_RUN, span.get_span_context(), inside)
        context.attach(inside)  # never detached: it ends with the item's task

    def run_finished(
        self, run: RunInfo, done: int, failed: int, error: BaseException | None, elapsed: float
    ) -> None:
        """End the span of a bulk run."""
        del elapsed
        counts = {"gateway.items.done": done, "gateway.items.failed": failed}
        _end(self._runs.pop(run), {**counts, **_error_of(error)})

    def _end_attempt(
        self, call: CallInfo, state: _Call, attempt: Attempt, error: str | None
    ) -> None:
        told: dict[str, Any] = {}
        if attempt.status is not None:
            told["http.response.status_code"] = attempt.status
        if error is not None:
            told["error.type"] = error
        span, state.attempt = state.attempt, None
        if span is not None:
            _end(span, {"gateway.outcome": attempt.outcome.name, **told})
        server: dict[str, str | int] = {"server.address": call.host, "server.port": call.port}
        if attempt.slot_wait:
            self._slot_waits.record(attempt.slot_wait, server)
        if attempt.error in _GAVE_UP and error is None and attempt.outcome is Outcome.NOT_SENT:
            return  # its caller has cancelled it before there was a request
        told["gateway.operation"] = call.operation.name
        told["http.request.method"] = call.operation.method
        seconds = attempt.elapsed - attempt.slot_wait - attempt.rate_wait
        self._attempt_times.record(seconds if seconds > 0 else 0.0, {**told, **server})


@lru_cache
def _attempt_of(
    base_url: str, host: str, port: int, method: str, path: str
) -> tuple[str, dict[str, Any]]:
    template = urlsplit(base_url).path + path
    return f"{method} {template}", {
        "http.request.method": method,
        "server.address": host,
        "server.port": port,
        "url.full": base_url + _PLACEHOLDER.sub("REDACTED", path),
        "url.template": template,
    }


def _links(outside: Context) -> list[Link] | None:
    """Return the link of a root span to the large run that it belongs to."""
    run = outside.get(_RUN)
    if not isinstance(run, SpanContext) or not run.is_valid:
        return None
    if trace.get_current_span(outside).get_span_context().is_valid:
        return None  # the item's function has a span of its own
    return [Link(run)]


def _end(span: Span, attributes: dict[str, Any]) -> None:
    if "error.type" in attributes:
        span.set_status(trace.StatusCode.ERROR)
    span.set_attributes(attributes)
    span.end()


def _error_of(error: BaseException | None) -> dict[str, Any]:
    """Return the `error.type`: the class of an error; nothing for a caller that gave up."""
    gave_up = error is None or isinstance(error, CancelledError | GeneratorExit)
    return {} if gave_up else {"error.type": type(error).__name__}


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
    return dict(fields_of(trace.get_current_span()))


@contextmanager
def extract(carrier: Mapping[str, str]) -> Generator[None, None, None]:
    """Continue the trace that a message carries, for the time of the `with` block.

    Without `traceparent`, or with one that is invalid, the current context stays as it is. What
    is no string is passed over.
    """
    given: Mapping[Any, Any] = carrier  # of a message, which may hold anything
    texts = {name: text for name, text in given.items() if isinstance(text, str)}
    lowered = {name.lower(): text for name, text in texts.items() if isinstance(name, str)}
    token = context.attach(_PROPAGATOR.extract(lowered, context.get_current()))
    try:
        yield
    finally:
        context.detach(token)
