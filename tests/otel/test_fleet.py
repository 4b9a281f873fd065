"""A fleet: each chunk is a run, in the trace of the one who submitted the plan."""

import sys
from typing import Any

import pytest
from opentelemetry import trace
from taskiq import InMemoryBroker, TaskiqMessage, TaskiqMiddleware

from gateway_sdk.fleet import Job, on_taskiq
from gateway_sdk.fleet._sender import continued, trace_fields
from gateway_sdk.otel import inject
from tests.fleet.gateways import ADDRESS, CountingGateway, either, series, session, states
from tests.otel.telemetry import Collector, attributes_of, id_of, parent_of, trace_of
from tests.support.memory_store import MemoryStore


@pytest.fixture
def collector() -> Collector:
    return Collector()


def make_job(collector: Collector, store: MemoryStore) -> Job:
    options: Any = {
        "base_url": ADDRESS,
        "access_token": "t",
        "tenant_id": "acme",
        "transport": CountingGateway(),
        "observers": [collector.observer],
    }
    return Job("traced", function=either, store=store, session=options)


class Labels(TaskiqMiddleware):
    """Notes what messages carry.

    Attributes:
        seen: The labels of each.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[dict[str, Any]] = []

    def pre_send(self, message: TaskiqMessage) -> TaskiqMessage:
        self.seen.append(message.labels)
        return message


async def test_a_chunk_is_in_the_trace_of_the_one_who_submitted_it(collector: Collector) -> None:
    """Its calls are children of its span, whose parent is the span of the submission."""
    store, labels = MemoryStore(), Labels()
    job = make_job(collector, store)
    broker = InMemoryBroker().with_middlewares(labels)
    on_taskiq(broker, job)
    broker.is_worker_process = True  # so that this process opens the session
    await broker.startup()
    plan = await job.plan([series(number) for number in range(4)], chunk=2)

    with collector.tracer.start_as_current_span("submission"):
        await plan.submit(broker)
    await broker.wait_all()
    await broker.shutdown()

    assert states(store) == dict.fromkeys(range(4), "done")
    submission = collector.named("submission")
    runs = [span for span in collector.spans if span.name == "bulk.run"]
    assert [parent_of(span) for span in runs] == [id_of(submission)] * 2
    assert {attributes_of(span)["gateway.items"] for span in runs} == {2}
    assert sorted(parent_of(span) or 0 for span in collector.calls) == sorted(
        2 * [id_of(span) for span in runs]
    )
    assert {trace_of(span) for span in collector.spans} == {trace_of(submission)}
    assert all("traceparent" in each and "baggage" not in each for each in labels.seen)
    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_chunk_without_a_message_is_a_run_too(collector: Collector) -> None:
    """Other engines call the step themselves; a failed item counts."""
    store = MemoryStore()
    job = make_job(collector, store)
    plan = await job.plan([series(1), {"no": "series"}], chunk=2)

    async with session(CountingGateway(), observers=[collector.observer]) as gateway:
        assert gateway.observers == (collector.observer,)
        assert gateway.with_options(tenant_id="b").observers == gateway.observers
        with collector.tracer.start_as_current_span("mine"):
            await plan.run(0, gateway)

    run = collector.named("bulk.run")
    assert parent_of(run) == id_of(collector.named("mine"))
    assert attributes_of(run) == {
        "gateway.items": 2,
        "gateway.items.done": 2,
        "gateway.items.failed": 1,
    }


def test_what_a_middleware_has_continued_is_kept(collector: Collector) -> None:
    """The labels of the message are the user's affair then."""
    labels = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "timeout": 5}

    with collector.tracer.start_as_current_span("theirs") as theirs, continued(labels):
        assert trace.get_current_span() is theirs
    with continued(labels):
        assert inject() == {"traceparent": labels["traceparent"]} == trace_fields()


def test_without_opentelemetry_messages_carry_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is loaded for it."""
    monkeypatch.delitem(sys.modules, "gateway_sdk.otel")

    with continued({"traceparent": "-"}):
        assert trace_fields() == {}
