"""Bulk runs: one span for the run, whose items belong to it or are linked to it."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, nullcontext

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from gateway_sdk import GatewaySession, bulk
from gateway_sdk.otel import MOST_CHILDREN, OpenTelemetry
from tests.otel.telemetry import Collector, attributes_of, id_of, parent_of, trace_of
from tests.support.calls import CALLS
from tests.support.scripted import scripted


@pytest.fixture
def collector() -> Collector:
    return Collector()


def session(monkeypatch: pytest.MonkeyPatch, collector: Collector) -> GatewaySession:
    gateway, _, _ = scripted(
        monkeypatch, lambda _: httpx.Response(200, json={}), observers=[collector.observer]
    )
    return gateway


def run_of(collector: Collector) -> ReadableSpan:
    return collector.named("bulk.run")


async def test_the_calls_of_a_small_run_are_its_children(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    gateway = session(monkeypatch, collector)

    async def call(item: int) -> None:
        await CALLS["order_history"](gateway)
        if item == 3:
            raise ZeroDivisionError

    with collector.tracer.start_as_current_span("mine") as mine:
        async for _ in bulk.run(call, range(5), observers=[collector.observer]):
            assert trace.get_current_span() is mine

    run = run_of(collector)
    assert parent_of(run) == id_of(collector.named("mine"))
    assert attributes_of(run) == {
        "gateway.items": 5,
        "gateway.items.done": 5,
        "gateway.items.failed": 1,
    }
    assert run.status.status_code is StatusCode.UNSET
    assert run.kind is trace.SpanKind.INTERNAL
    assert [parent_of(span) for span in collector.calls] == [id_of(run)] * 5
    assert not any(span.links for span in collector.spans)


async def test_the_calls_of_a_large_run_are_traces_of_their_own(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    gateway = session(monkeypatch, collector)

    async def call(_: int) -> None:
        await CALLS["order_history"](gateway)

    items = iter(range(MOST_CHILDREN + 3))
    with collector.tracer.start_as_current_span("mine"):
        async for _ in bulk.run(call, items, concurrency=1, observers=[collector.observer]):
            pass

    run = run_of(collector)
    assert "gateway.items" not in attributes_of(run)
    children, roots = collector.calls[:MOST_CHILDREN], collector.calls[MOST_CHILDREN:]
    assert {parent_of(span) for span in children} == {id_of(run)}
    assert not any(span.links for span in children)
    assert len(roots) == 3
    assert {parent_of(span) for span in roots} == {None}
    assert len({trace_of(span) for span in (run, *roots)}) == 4
    for span in roots:
        (link,) = span.links
        assert (link.context.span_id, link.context.trace_id) == (id_of(run), trace_of(run))


@pytest.mark.parametrize("has_own", [True, False])
async def test_a_call_of_a_large_run_may_have_no_link(
    monkeypatch: pytest.MonkeyPatch, collector: Collector, has_own: bool
) -> None:
    """The function has a span of its own, which it keeps; or the run's observer has no SDK."""
    monkeypatch.setattr("gateway_sdk.otel.MOST_CHILDREN", 0)
    gateway = session(monkeypatch, collector)

    async def call(_: int) -> None:
        own = collector.tracer.start_as_current_span("own")
        with own if has_own else nullcontext():
            await CALLS["order_history"](gateway)

    observer = collector.observer if has_own else OpenTelemetry()
    async for _ in bulk.run(call, [1], observers=[observer]):
        pass

    (made,) = collector.calls
    assert parent_of(made) == (id_of(collector.named("own")) if has_own else None)
    assert not made.links


@pytest.mark.parametrize("way", ["left early", "cancelled", "failed"])
async def test_a_run_has_failed_if_it_raises(collector: Collector, way: str) -> None:
    """With the class of its error, and no text; the caller may stop when it has enough."""
    begun = asyncio.Event()

    def items() -> Iterator[int]:
        yield 1
        if way == "failed":
            raise LookupError("personal")

    async def call(_: int) -> None:
        begun.set()
        if way == "cancelled":
            await asyncio.Event().wait()

    async def consume() -> None:
        async with aclosing(bulk.run(call, items(), observers=[collector.observer])) as results:
            async for _ in results:
                if way == "left early":
                    break

    task = asyncio.create_task(consume())
    await begun.wait()
    if way == "cancelled":
        task.cancel()
    await asyncio.wait([task])

    run = run_of(collector)
    error = attributes_of(run).get("error.type")
    assert run.status.description is None
    assert attributes_of(run)["gateway.items.done"] == (way != "cancelled")
    if way == "failed":
        assert isinstance(task.exception(), LookupError)
        assert (run.status.status_code, error) == (StatusCode.ERROR, "LookupError")
    else:
        assert (run.status.status_code, error) == (StatusCode.UNSET, None)


async def test_a_run_within_an_item_of_a_large_run_is_linked_to_it(collector: Collector) -> None:
    async def nothing(_: int) -> None:
        pass

    async def run(number: int) -> None:
        async for _ in bulk.run(nothing, range(number), observers=[collector.observer]):
            pass

    async for _ in bulk.run(run, [0] * (MOST_CHILDREN + 1), observers=[collector.observer]):
        pass

    *inner, outer = collector.spans
    assert [parent_of(span) for span in inner].count(id_of(outer)) == MOST_CHILDREN
    (apart,) = (span for span in inner if span.parent is None)
    assert [link.context.span_id for link in apart.links] == [id_of(outer)]
