"""Making the observer, and what goes wrong in a provider of the user's."""

import asyncio
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span as SdkSpan, SpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind

from gateway_sdk import ConfigurationError, GatewaySession, Observer, otel
from gateway_sdk.operations import SPOT_TRADING_AVAILABLE_BALANCE
from gateway_sdk.otel import OpenTelemetry
from tests.otel.telemetry import CANCELLING, Collector, attributes_of, calling
from tests.support.calls import CALLS
from tests.support.scripted import scripted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tracer_provider": 5}, "tracer_provider must be a TracerProvider"),
        ({"meter_provider": "global"}, "meter_provider must be a MeterProvider"),
        ({"propagate": 1}, "propagate"),
    ],
)
def test_what_is_no_provider(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        OpenTelemetry(**options)


class Breaking(SpanProcessor):
    def __init__(self, starting: SpanKind | None = None) -> None:
        self._starting = starting

    def on_start(self, span: SdkSpan, parent_context: Context | None = None) -> None:
        if span.kind is self._starting:
            raise ZeroDivisionError

    def on_end(self, span: ReadableSpan) -> None:
        if self._starting is None:
            raise ZeroDivisionError


@pytest.mark.parametrize(("kind", "spans"), [(SpanKind.INTERNAL, 0), (SpanKind.CLIENT, 1)])
async def test_a_provider_that_fails_changes_no_call(
    caplog: pytest.LogCaptureFixture, kind: SpanKind, spans: int
) -> None:
    collector = Collector()
    collector.traces.add_span_processor(Breaking(kind))
    async with calling(collector.observer) as (gateway, sending):
        await CALLS["cancel_order"](sending)

    assert "traceparent" not in gateway.requests[0]
    assert {record.getMessage() for record in caplog.records} == {"an observer failed"}
    assert len(collector.spans) == spans
    for span in collector.spans:
        assert attributes_of(span)["gateway.outcome"] == "APPLIED"
    assert collector.observer._calls == {}


@pytest.mark.parametrize(
    ("name", "value"), [("_SUPPRESS", None), ("_INSTRUMENTORS", "no.such.module")]
)
@pytest.mark.parametrize(
    ("sampler", "spans"), [(ALWAYS_ON, [CANCELLING, "cancel_order"]), (ALWAYS_OFF, [])]
)
async def test_without_instrumentors_nothing_is_suppressed(
    monkeypatch: pytest.MonkeyPatch, name: str, value: Any, sampler: Sampler, spans: list[str]
) -> None:
    """None is loaded, or this release has another name for it, which is private there."""
    monkeypatch.setattr(otel, name, value)
    collector = Collector(sampler)
    async with calling(collector.observer) as (gateway, sending):
        await CALLS["cancel_order"](sending)

    assert [span.name for span in collector.spans] == spans
    assert "traceparent" in gateway.requests[0]
    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_call_that_is_closed_in_another_context() -> None:
    collector = Collector()
    async with calling(collector.observer) as (gateway, sending):
        gateway.silent = True
        copied = copy_context()
        call = copied.run(CALLS["cancel_order"], sending)
        copied.run(call.send, None)
        call.close()

    assert [span.name for span in collector.spans] == [CANCELLING, "cancel_order"]
    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_processor_that_fails_leaves_no_span_current(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What the caller does after a call that it gave up is no part of that call."""
    collector = Collector()
    collector.traces.add_span_processor(Breaking())
    async with calling(collector.observer) as (gateway, sending):
        gateway.silent = True

        async def give_up() -> Span:
            with suppress(asyncio.CancelledError):
                await CALLS["cancel_order"](sending)
            return trace.get_current_span()

        caller = asyncio.create_task(give_up())
        await gateway.taken.wait()
        caller.cancel()
        assert await caller is INVALID_SPAN

    unknown = "it is unknown whether the gateway did it (ended by CancelledError; UNKNOWN)"
    unlearned = f"cancel_order #1: {unknown}"
    assert {record.getMessage() for record in caplog.records} == {"an observer failed", unlearned}
    assert [span.name for span in collector.spans] == [CANCELLING, "cancel_order"]


@pytest.mark.parametrize("hook", ["attempt_started", "attempt_finished"])
async def test_an_attempt_whose_end_is_not_told_ends_with_its_call(hook: str) -> None:
    """A hook of another observer may raise what is no Exception, as `pytest.fail` does."""

    def leave(*_: object) -> None:
        raise asyncio.CancelledError

    collector, leaving = Collector(), type("Leaving", (Observer,), {hook: leave})()
    observers = [collector.observer, leaving]
    async with calling(collector.observer, observers=observers) as (_, sending):
        with pytest.raises(asyncio.CancelledError):
            await CALLS["cancel_order"](sending)
        assert trace.get_current_span() is INVALID_SPAN

    assert [span.name for span in collector.spans] == [CANCELLING, "cancel_order"]


async def test_an_operation_of_the_user_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector()
    scripted(monkeypatch, httpx.Response(200, json={}))  # replaces the transport of every session
    url = "https://gateway.test/behind"
    gateway = GatewaySession(url, access_token="t", observers=[collector.observer])
    balance = SPOT_TRADING_AVAILABLE_BALANCE
    own = replace(balance, method="POST", path="/wallet/2.0.0/{walletId}/balance")

    await gateway.send(balance)
    await gateway.send(own, path={"walletId": "w-1"})
    await gateway.send(balance)

    usual = "/behind" + balance.path
    own_name = "POST /behind/wallet/2.0.0/{walletId}/balance"
    assert [span.name for span in collector.attempts] == [f"GET {usual}", own_name, f"GET {usual}"]
    told = [attributes_of(span) for span in collector.attempts]
    templates = [f"{each['http.request.method']} {each['url.template']}" for each in told]
    assert templates == [span.name for span in collector.attempts]
    addresses = [str(each["url.full"]).partition(".test")[2] for each in told]
    assert addresses == [usual, "/behind/wallet/2.0.0/REDACTED/balance", usual]


async def test_spans_and_metrics_name_their_conventions() -> None:
    """Those who convert old names to new ones need the version of both."""
    collector = Collector()
    async with calling(collector.observer) as (_, sending):
        await CALLS["cancel_order"](sending)

    reader = collector._reader
    data = reader.get_metrics_data()
    assert data is not None
    (scope,) = data.resource_metrics[0].scope_metrics
    scopes = [span.instrumentation_scope for span in collector.spans]
    named = {each.schema_url for each in scopes if each is not None}
    assert named == {scope.schema_url} == {scope.scope.schema_url} == {otel.SCHEMA}
