"""The spans of calls and attempts, with the stock instrumentors beside."""

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from gateway_sdk import GatewayError, GatewaySession, RetryPolicy
from tests.otel.telemetry import (
    CANCELLING,
    Collector,
    Gateway,
    attributes_of,
    calling,
    id_of,
    parent_of,
    reply,
    trace_of,
    traceparent_of,
)
from tests.support.calls import CALLS, Renewing, pass_deadlines


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    with made.instrumented():
        yield made


def ending_of(span: ReadableSpan) -> tuple[StatusCode, str | None, Any]:
    return span.status.status_code, span.status.description, attributes_of(span).get("error.type")


FINE = StatusCode.UNSET, None, None


def failed(error: str | None) -> tuple[StatusCode, str | None, Any]:
    return FINE if error is None else (StatusCode.ERROR, None, error)


async def test_a_call_and_its_attempt(collector: Collector) -> None:
    async with calling(collector.observer) as (gateway, sending):
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
    replies = reply(503), reply(401), reply(200)
    waiting: list[trace.Span] = []

    async def sleep(_: float) -> None:
        waiting.append(trace.get_current_span())

    options = {"access_token": Renewing(), "retry": RetryPolicy(jitter=0.0), "sleep": sleep}
    async with calling(collector.observer, *replies, **options) as (gateway, sending):
        await CALLS["order_history"](sending)

    (call,) = collector.calls
    assert [span.get_span_context() for span in waiting] == [call.context]
    assert [ending_of(span) for span in collector.attempts] == [failed("503"), failed("401"), FINE]
    told = [attributes_of(span) for span in collector.attempts]
    assert [each.get("http.request.resend_count") for each in told] == [None, 1, 2]
    assert [each["gateway.outcome"] for each in told] == ["UNKNOWN", "REFUSED", "APPLIED"]
    assert {parent_of(span) for span in collector.attempts} == {id_of(call)}
    assert [request["traceparent"] for request in gateway.requests] == [
        traceparent_of(span) for span in collector.attempts
    ]
    assert ending_of(call) == FINE
    assert attributes_of(call)["gateway.attempts"] == 3
    assert [(event.name, dict(event.attributes or {})) for event in call.events] == [
        ("gateway.retry", {"gateway.retry.delay": 0.5})
    ]


class Ending(NamedTuple):
    error: str | None  # of the call; None if its caller gave up
    attempts: list[str | None]  # their errors
    outcome: str
    replies: list[bytes] = []  # noqa: RUF012 - nobody writes to it; the gateway is silent without
    options: dict[str, Any] = {}  # noqa: RUF012
    way: str = ""


ENDINGS: dict[str, Ending] = {
    "400": Ending("InvalidRequestError", ["400"], "REFUSED", [reply(400)]),
    "500": Ending("ServerError", ["500"] * 3, "UNKNOWN", [reply(500)]),
    "401": Ending("TokenRejectedError", ["401"] * 2, "REFUSED", [reply(401)]),
    "no JSON": Ending(
        "UnexpectedReplyError", ["UnexpectedReplyError"], "APPLIED", [reply(200, b"[")]
    ),
    "no HTTP": Ending("ReplyLostError", ["ReplyLostError"] * 3, "UNKNOWN", [b"no HTTP\r\n\r\n"]),
    # A time-out of ours is an error, and no cancellation.
    "time-out": Ending(
        "ReplyTimeoutError",
        ["ReplyTimeoutError"],
        "UNKNOWN",
        options={"timeout": httpx.Timeout(60.0, read=0.1), "retry": None},
    ),
    "nobody there": Ending(
        "ConnectionFailedError",
        ["ConnectionFailedError"],
        "NOT_SENT",
        options={"retry": None, "base_url": "http://127.0.0.1:1"},
    ),
    "wrong argument": Ending("InvalidArgumentError", [], "NOT_SENT", way="argument"),
    # The caller gave up: status and error.type stay unset.
    "cancelled": Ending(None, [None], "UNKNOWN", way="cancel"),
    "cancelled in a wait": Ending(None, ["503"], "UNKNOWN", [reply(503)], way="wait"),
    # A deadline and the end of the session are errors, of the attempt too.
    "deadline": Ending("DeadlineExceededError", ["DeadlineExceededError"], "UNKNOWN", way="end"),
    "closed": Ending(
        "SessionStateError", ["SessionStateError"], "UNKNOWN", options={"drain": 0.0}, way="close"
    ),
}


async def interfere(
    way: str, gateway: Gateway, session: GatewaySession, call: asyncio.Task[Any]
) -> None:
    if way in ("cancel", "end", "close"):
        await gateway.taken.wait()
    if way in ("cancel", "wait"):
        call.cancel()
    elif way == "end":
        pass_deadlines(session)
    elif way == "close":
        await session.aclose()


@pytest.mark.parametrize("name", ENDINGS)
async def test_a_call_that_fails(collector: Collector, name: str) -> None:
    ending = ENDINGS[name]
    waiting = asyncio.Event()

    async def sleep(_: float) -> None:
        waiting.set()
        if ending.way == "wait":
            await asyncio.Event().wait()

    options = {"access_token": Renewing(), "sleep": sleep, **ending.options}
    async with calling(collector.observer, *ending.replies, **options) as (gateway, session):
        gateway.silent = not ending.replies
        customer_id = "" if ending.way == "argument" else "c-1"
        call = asyncio.create_task(session.wallet.trading_order_history(customer_id, into=dict))
        if ending.way == "wait":
            await waiting.wait()
        await interfere(ending.way, gateway, session, call)
        await asyncio.wait([call])

    (whole,) = collector.calls
    assert call.cancelled() is (ending.error is None)
    assert call.cancelled() or type(call.exception()).__name__ == ending.error
    assert ending_of(whole) == failed(ending.error)
    assert attributes_of(whole)["gateway.outcome"] == ending.outcome
    assert attributes_of(whole)["gateway.attempts"] == len(ending.attempts)
    assert [ending_of(span) for span in collector.attempts] == list(map(failed, ending.attempts))
    for span in collector.attempts:
        status = attributes_of(span).get("http.response.status_code")
        assert (status is not None) is bool(ending.replies and name != "no HTTP")
    assert "exception" not in {event.name for span in collector.spans for event in span.events}


async def test_two_tasks_share_a_session(collector: Collector) -> None:
    async def task(name: str) -> None:
        with collector.tracer.start_as_current_span(name) as mine:
            await CALLS["order_history"](sending)
            assert trace.get_current_span() is mine
            with pytest.raises(GatewayError):
                await sending.wallet.cancel_order("", "o")
            assert trace.get_current_span() is mine

    async with calling(collector.observer) as (_, sending):
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
