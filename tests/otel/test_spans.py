"""The spans of calls and attempts, with the stock instrumentors beside."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from gateway_sdk import GatewayError, GatewaySession, Outcome, RetryPolicy
from gateway_sdk.operations import SPOT_TRADING_AVAILABLE_BALANCE
from tests.otel.telemetry import (
    CANCELLING,
    Collector,
    Gateway,
    attributes_of,
    id_of,
    parent_of,
    reply,
    serving,
    trace_of,
    traceparent_of,
)
from tests.support.calls import CALLS

AT_ONCE = RetryPolicy(backoff=0.0)


class Renewing:
    async def token(self, rejected: object = None) -> str:
        return "first" if rejected is None else "second"


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Collect with both instrumentors installed."""
    made = Collector()
    with made.instrumented():
        yield made


def session(gateway: Gateway, collector: Collector, **options: Any) -> GatewaySession:
    given = {"access_token": "t", "tenant_id": "acme", "retry": AT_ONCE, **options}
    return GatewaySession(gateway.url, observers=[collector.observer], **given)


def ending_of(span: ReadableSpan) -> tuple[StatusCode, str | None, Any]:
    """Return how a span ended: its status with its text, and its error.type."""
    return span.status.status_code, span.status.description, attributes_of(span).get("error.type")


FINE = StatusCode.UNSET, None, None


async def test_a_call_and_its_attempt(collector: Collector) -> None:
    """One INTERNAL span with one CLIENT span in it, and nothing else, with no address filled in."""
    async with serving() as gateway, session(gateway, collector) as sending:
        await sending.wallet.cancel_order("w-1", "o-1")

    attempt, call = collector.spans
    port = int(gateway.url.rpartition(":")[2])
    assert (call.name, call.kind, parent_of(call)) == (
        "cancel_order",
        trace.SpanKind.INTERNAL,
        None,
    )
    assert attributes_of(call) == {
        "gateway.operation": "cancel_order",
        "gateway.outcome": "APPLIED",
        "gateway.attempts": 1,
    }
    assert (attempt.name, attempt.kind, parent_of(attempt)) == (
        CANCELLING,
        trace.SpanKind.CLIENT,
        id_of(call),
    )
    assert attributes_of(attempt) == {
        "http.request.method": "DELETE",
        "server.address": "127.0.0.1",
        "server.port": port,
        "url.full": f"{gateway.url}/wallet/1.0.0/REDACTED/orders/REDACTED",
        "url.template": "/wallet/1.0.0/{walletId}/orders/{orderId}",
        "http.response.status_code": 200,
        "gateway.outcome": "APPLIED",
    }
    assert ending_of(call) == ending_of(attempt) == FINE
    assert not call.events
    assert gateway.requests[0]["traceparent"] == traceparent_of(attempt)


async def test_errors_that_a_retry_mended_are_not_those_of_the_call(collector: Collector) -> None:
    """Each attempt has its own span and its own status; the call has an event for each retry."""
    replies = reply(503), reply(401), reply(200)
    async with (
        serving(*replies) as gateway,
        session(gateway, collector, access_token=Renewing()) as sending,
    ):
        await CALLS["order_history"](sending)

    (call,) = collector.calls
    assert [ending_of(span) for span in collector.attempts] == [
        (StatusCode.ERROR, None, "503"),
        (StatusCode.ERROR, None, "401"),
        FINE,
    ]
    assert [
        attributes_of(span).get("http.request.resend_count") for span in collector.attempts
    ] == [
        None,
        1,
        2,
    ]
    assert [attributes_of(span)["gateway.outcome"] for span in collector.attempts] == [
        "UNKNOWN",
        "REFUSED",
        "APPLIED",
    ]
    assert {parent_of(span) for span in collector.attempts} == {id_of(call)}
    assert [request["traceparent"] for request in gateway.requests] == [
        traceparent_of(span) for span in collector.attempts
    ]
    assert ending_of(call) == FINE
    assert attributes_of(call)["gateway.attempts"] == 3
    assert [event.name for event in call.events] == ["gateway.retry"]
    assert list(call.events[0].attributes or ()) == ["gateway.retry.delay"]


@pytest.mark.parametrize(
    ("replies", "error", "kinds", "outcome"),
    [
        ([reply(404)], "NotFoundError", ["404"], "REFUSED"),
        ([reply(500)], "ServerError", ["500"] * 3, "UNKNOWN"),
        ([reply(401)], "TokenRejectedError", ["401"] * 2, "REFUSED"),
        ([reply(200, b"[")], "UnexpectedReplyError", ["UnexpectedReplyError"], "APPLIED"),
        ([b"no HTTP\r\n\r\n"], "ReplyLostError", ["ReplyLostError"] * 3, "UNKNOWN"),
    ],
)
async def test_a_call_that_fails(
    collector: Collector,
    replies: list[bytes],
    error: str,
    kinds: list[str],
    outcome: str,
) -> None:
    """The class of the error and nothing of its text, and no event of an exception."""
    async with (
        serving(*replies) as gateway,
        session(gateway, collector, access_token=Renewing()) as sending,
    ):
        with pytest.raises(GatewayError) as caught:
            await sending.send(SPOT_TRADING_AVAILABLE_BALANCE, into=dict)

    (call,) = collector.calls
    assert type(caught.value).__name__ == error
    assert ending_of(call) == (StatusCode.ERROR, None, error)
    assert attributes_of(call)["gateway.outcome"] == outcome
    assert [attributes_of(span)["error.type"] for span in collector.attempts] == kinds
    assert {span.status.description for span in collector.spans} == {None}
    assert "exception" not in {event.name for span in collector.spans for event in span.events}


async def test_a_gateway_that_is_silent(collector: Collector) -> None:
    """A time-out of ours is an error, and no cancellation."""
    timeout = httpx.Timeout(60.0, read=0.1)
    async with serving() as gateway:
        gateway.silent = True
        async with session(gateway, collector, timeout=timeout, retry=None) as sending:
            with pytest.raises(GatewayError):
                await CALLS["order_history"](sending)

    failed = StatusCode.ERROR, None, "ReplyTimeoutError"
    assert [ending_of(span) for span in collector.spans] == [failed, failed]


async def test_a_gateway_that_is_not_there(collector: Collector) -> None:
    """No status came, and nothing was sent."""
    async with serving() as gateway:
        pass  # it is closed again
    async with session(gateway, collector, retry=None) as sending:
        with pytest.raises(GatewayError):
            await CALLS["create_customer"](sending)

    (attempt,) = collector.attempts
    attributes = attributes_of(attempt)
    assert attributes["error.type"] == "ConnectionFailedError"
    assert attributes["gateway.outcome"] == "NOT_SENT"
    assert "http.response.status_code" not in attributes


async def test_arguments_that_are_refused(collector: Collector) -> None:
    """The call has a span, and no attempt."""
    async with serving() as gateway, session(gateway, collector) as sending:
        with pytest.raises(GatewayError):
            await sending.wallet.cancel_order("", "o")

    (call,) = collector.spans
    assert ending_of(call) == (StatusCode.ERROR, None, "InvalidArgumentError")
    assert attributes_of(call)["gateway.attempts"] == 0


async def test_a_cancellation_is_no_error(collector: Collector) -> None:
    """The caller gave up: status and error.type stay unset, and its own span is current again."""
    async with serving() as gateway, session(gateway, collector) as sending:
        gateway.silent = True
        call = asyncio.create_task(CALLS["create_customer"](sending))
        await gateway.taken.wait()
        call.cancel()
        await asyncio.wait([call])

    assert call.cancelled()
    assert [ending_of(span) for span in collector.spans] == [FINE, FINE]
    assert {attributes_of(span)["gateway.outcome"] for span in collector.spans} == {"UNKNOWN"}


@pytest.mark.parametrize(
    ("way", "error"), [("deadline", "DeadlineExceededError"), ("close", "SessionStateError")]
)
async def test_a_call_that_is_cut_off_has_failed(
    collector: Collector, way: str, error: str
) -> None:
    """A deadline and the end of the session are errors, of the attempt too."""
    options: dict[str, Any] = {"deadline": 1.0} if way == "deadline" else {"drain": 0.0}
    async with serving() as gateway:
        gateway.silent = True
        sending = session(gateway, collector, **options)
        call = asyncio.create_task(CALLS["create_customer"](sending))
        if way == "close":
            await gateway.taken.wait()
            await sending.aclose()
        await asyncio.wait([call])
        await sending.aclose()

    assert type(call.exception()).__name__ == error
    assert [ending_of(span) for span in collector.spans] == [(StatusCode.ERROR, None, error)] * 2


async def test_two_tasks_share_a_session(collector: Collector) -> None:
    """Each call belongs to the span of its own task, which is current again afterwards."""

    async def task(name: str) -> None:
        with collector.tracer.start_as_current_span(name) as mine:
            await CALLS["order_history"](sending)
            assert trace.get_current_span() is mine
            with pytest.raises(GatewayError):
                await sending.wallet.cancel_order("", "o")
            assert trace.get_current_span() is mine

    async with serving() as gateway, session(gateway, collector) as sending:
        await asyncio.gather(task("one"), task("two"))

    for name in ("one", "two"):
        outer = collector.named(name)
        mine = [span for span in collector.spans if trace_of(span) == trace_of(outer)]
        calls = [span for span in mine if parent_of(span) == id_of(outer)]
        assert sorted(span.name for span in calls) == ["cancel_order", "order_history"]
        attempt = "POST /wallet/1.0.0/orders"
        assert {span.name for span in mine} == {attempt, "cancel_order", name, "order_history"}
        assert len(mine) == 4
    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_call_that_is_given_up_between_attempts(collector: Collector) -> None:
    """A cancellation during the wait for a retry leaves the call alone without an error."""
    patient = RetryPolicy(backoff=100.0, backoff_max=100.0, jitter=0.0)
    async with (
        serving(reply(503)) as gateway,
        session(gateway, collector, retry=patient) as sending,
    ):
        waiting = asyncio.Event()

        async def sleep(_: float) -> None:
            waiting.set()
            await asyncio.Event().wait()

        sending._caller.client.sleep = sleep
        call = asyncio.create_task(CALLS["order_history"](sending))
        await waiting.wait()
        call.cancel()
        await asyncio.wait([call])

    attempt, whole = collector.spans
    assert ending_of(attempt) == (StatusCode.ERROR, None, "503")
    assert ending_of(whole) == FINE
    assert [dict(event.attributes or {}) for event in whole.events] == [
        {"gateway.retry.delay": 100.0}
    ]
    assert attributes_of(whole)["gateway.outcome"] == Outcome.UNKNOWN.name
