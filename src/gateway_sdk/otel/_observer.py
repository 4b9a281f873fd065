"""The observer that makes spans and metrics of calls and bulk runs."""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from opentelemetry import context
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    Span,
    SpanContext,
    SpanKind,
    TracerProvider,
    get_current_span,
    get_tracer,
    set_span_in_context,
)

from gateway_sdk._version import __version__
from gateway_sdk.errors import ConfigurationError
from gateway_sdk.observer import CallInfo, Observer, RunInfo
from gateway_sdk.operations import Operation
from gateway_sdk.otel._metrics import Metrics
from gateway_sdk.otel._propagation import fields_of
from gateway_sdk.otel._spans import (
    SCHEMA,
    Current,
    end,
    error_of,
    error_of_attempt,
    without_instrumentors,
)
from gateway_sdk.outcome import Attempt, Outcome

MOST_CHILDREN: Final = 1000
"""Items of a run whose calls are children of its span: views of a trace fail at more."""

_GAVE_UP: Final = ("CancelledError", "GeneratorExit")
"""Errors of an attempt that was ended from outside; the end of its call says by what."""

_PLACEHOLDER: Final = re.compile(r"\{[^}]*\}")
"""Of a path; `url.full` has to be an address, and the values are identifiers."""

_RUN: Final = context.create_key("gateway_sdk.run")
"""The key of the span of a large run in the context of its items."""


class _Call:
    exchange: Current | None = None  # the context of the attempt under way; None between attempts
    attempt: Span | None = None
    attempts = 0
    given_up: Attempt | None = None

    def __init__(self, span: Span, current: Current, *, is_measured: bool) -> None:
        self.span = span
        self.is_recorded = span.is_recording()
        self.is_noted = self.is_recorded or is_measured
        self.current = current  # the context that has it


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
            meter_provider: Takes the metrics; None for the global one, and only of calls that
                begin when it is set.
            propagate: Whether requests carry the trace context (`traceparent`, `tracestate`).

        Raises:
            ConfigurationError: an argument is wrong; the message names it.
        """
        _check("tracer_provider", tracer_provider, TracerProvider)
        _check("meter_provider", meter_provider, MeterProvider)
        if not isinstance(propagate, bool):
            raise ConfigurationError("must be True or False", setting="propagate")
        self._propagate = propagate
        self._tracer = get_tracer("gateway_sdk", __version__, tracer_provider, SCHEMA)
        self._metrics = Metrics(meter_provider)
        self._calls: dict[CallInfo, _Call] = {}
        self._runs: dict[RunInfo, Span] = {}
        self._attempts: dict[tuple[str, str], tuple[Operation[Any], str, dict[str, Any]]] = {}

    def call_started(self, call: CallInfo) -> None:
        """Start the span of the call."""
        outside = context.get_current()
        name = call.operation.name
        span = self._tracer.start_span(
            name,
            outside,
            attributes={"gateway.operation": name},
            links=_links(outside) if _RUN in outside else None,
        )
        current = Current(set_span_in_context(span, outside))
        self._calls[call] = _Call(span, current, is_measured=self._metrics.are_taken)

    def attempt_started(self, call: CallInfo, number: int) -> Mapping[str, str] | None:
        """Start the span of an attempt, and return the fields that carry the trace."""
        state = self._calls[call]
        span, inside = state.span, state.current.context
        if state.is_recorded:
            state.attempts = number
            span = state.attempt = self._attempt_span(call, number, inside)
            inside = set_span_in_context(span, inside)
        inside = without_instrumentors(inside)
        if inside is not state.current.context:
            state.exchange = Current(inside)
        return fields_of(span) if self._propagate else None

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        """End the span of an attempt; what ended a cancelled one is known later."""
        state = self._calls[call]
        if state.exchange is not None:
            state.exchange.leave()
            state.exchange = None
        if not state.is_noted:
            return
        if attempt.error is None:
            self._end_attempt(call, state, attempt, None)
        elif attempt.error in _GAVE_UP:
            state.given_up = attempt
        else:
            self._end_attempt(call, state, attempt, error_of_attempt(attempt))

    def retry_scheduled(self, call: CallInfo, attempt: Attempt, seconds: float) -> None:
        """Note the retry on the span of the call."""
        del attempt
        state = self._calls[call]
        if state.is_recorded:
            state.span.add_event("gateway.retry", {"gateway.retry.delay": seconds})

    def call_finished(
        self, call: CallInfo, outcome: Outcome, error: BaseException | None, elapsed: float
    ) -> None:
        """End the span of the call."""
        state = self._calls.pop(call)
        if state.exchange is not None:  # a hook of another observer raised: the end was not told
            state.exchange.leave()
        state.current.leave()  # first: a processor of spans may raise
        if not state.is_noted:
            return
        kind = None if error is None else error_of(error)
        try:
            if state.given_up is not None:
                self._end_attempt(call, state, state.given_up, kind)
            elif state.attempt is not None:
                state.attempt.end()
        finally:
            if state.is_recorded:
                done = {"gateway.outcome": outcome.name, "gateway.attempts": state.attempts}
                end(state.span, done, kind)
            self._metrics.call(call, outcome, kind, elapsed)

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
            inside = set_span_in_context(INVALID_SPAN)
            inside = context.set_value(_RUN, span.get_span_context(), inside)
        context.attach(inside)  # never detached: it ends with the item's task

    def run_finished(
        self, run: RunInfo, done: int, failed: int, error: BaseException | None, elapsed: float
    ) -> None:
        """End the span of a bulk run."""
        del elapsed
        attributes = {"gateway.items.done": done, "gateway.items.failed": failed}
        end(self._runs.pop(run), attributes, None if error is None else error_of(error))

    def _end_attempt(
        self, call: CallInfo, state: _Call, attempt: Attempt, error: str | None
    ) -> None:
        span, state.attempt = state.attempt, None
        if span is not None:
            attributes: dict[str, Any] = {"gateway.outcome": attempt.outcome.name}
            if attempt.status is not None:
                attributes["http.response.status_code"] = attempt.status
            end(span, attributes, error)
        self._metrics.attempt(call, attempt, error)

    def _attempt_span(self, call: CallInfo, number: int, outside: Context) -> Span:
        name, attributes = self._attempts_of(call)
        if number > 1:
            attributes = {**attributes, "http.request.resend_count": number - 1}
        return self._tracer.start_span(name, outside, SpanKind.CLIENT, attributes)

    def _attempts_of(self, call: CallInfo) -> tuple[str, dict[str, Any]]:
        """Return the name and attributes of every attempt: twelve operations for each gateway."""
        key = call.base_url, call.operation.name
        operation, name, attributes = self._attempts.get(key, (None, "", {}))
        if operation is not call.operation:  # `send` takes operations of the user, of any name
            operation = call.operation
            template = urlsplit(call.base_url).path + operation.path
            name = f"{operation.method} {template}"
            attributes = {
                "http.request.method": operation.method,
                "server.address": call.host,
                "server.port": call.port,
                "url.full": call.base_url + _PLACEHOLDER.sub("REDACTED", operation.path),
                "url.template": template,
            }
            self._attempts[key] = operation, name, attributes
        return name, attributes


def _links(outside: Context) -> list[Link] | None:
    """Return the link of a root span to the large run that it belongs to."""
    run = outside.get(_RUN)
    if not isinstance(run, SpanContext) or not run.is_valid:
        return None
    if get_current_span(outside).get_span_context().is_valid:
        return None  # the item's function has a span of its own
    return [Link(run)]


def _check(name: str, given: object, kind: type) -> None:
    if given is not None and not isinstance(given, kind):
        raise ConfigurationError(
            f"must be a {kind.__name__} of OpenTelemetry, or None", setting=name
        )
