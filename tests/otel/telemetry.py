"""What the tests of traces and metrics share: a collector in memory, and a gateway by a script."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import DEFAULT_ON, Sampler
from opentelemetry.trace import SpanContext, SpanKind

from gateway_sdk import GatewaySession, Observer, RetryPolicy
from gateway_sdk.otel import OpenTelemetry
from tests.support.raw_server import raw_server, read_request

CANCELLING = "DELETE /wallet/1.0.0/{walletId}/orders/{orderId}"
"""The name of the span of an attempt to cancel an order."""


class Collector:
    def __init__(self, sampler: Sampler = DEFAULT_ON, *, propagate: bool = True) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.traces = TracerProvider(sampler=sampler)
        self.traces.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader])
        self.observer = OpenTelemetry(self.traces, self.meters, propagate=propagate)
        self.tracer = self.traces.get_tracer("the user's own")

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def of_kind(self, kind: SpanKind) -> list[ReadableSpan]:
        return [
            span
            for span in self.spans
            if span.kind is kind
            and span.instrumentation_scope is not None
            and span.instrumentation_scope.name == "gateway_sdk"
        ]

    @property
    def calls(self) -> list[ReadableSpan]:
        return [span for span in self.of_kind(SpanKind.INTERNAL) if span.name != "bulk.run"]

    @property
    def attempts(self) -> list[ReadableSpan]:
        return self.of_kind(SpanKind.CLIENT)

    def named(self, name: str) -> ReadableSpan:
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def metrics(self) -> dict[str, list[HistogramDataPoint]]:
        data = self._reader.get_metrics_data()
        return {
            metric.name: [
                point for point in metric.data.data_points if isinstance(point, HistogramDataPoint)
            ]
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    @contextmanager
    def instrumented(self) -> Iterator[None]:
        http, aio = HTTPXClientInstrumentor(), AioHttpClientInstrumentor()
        http.instrument(tracer_provider=self.traces)
        aio.instrument(tracer_provider=self.traces)
        try:
            yield
        finally:
            http.uninstrument()
            aio.uninstrument()


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def id_of(span: ReadableSpan) -> int:
    return _place_of(span).span_id


def trace_of(span: ReadableSpan) -> int:
    return _place_of(span).trace_id


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def traceparent_of(span: ReadableSpan) -> str:
    return f"00-{trace_of(span):032x}-{id_of(span):016x}-{_place_of(span).trace_flags:02x}"


def _place_of(span: ReadableSpan) -> SpanContext:
    place: SpanContext | None = span.context
    assert place is not None
    return place


def reply(status: int, body: bytes = b"{}", **fields: str) -> bytes:
    more = "".join(f"{name.replace('_', '-')}: {text}\r\n" for name, text in fields.items())
    head = f"HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Gateway:
    """Answers with one reply after the other; the last one is repeated.

    Attributes:
        url: Where it is.
        requests: The header fields of each request, by their names in lower case.
        silent: Whether it takes requests and does not answer.
        taken: Set when a request was taken while it was silent.
    """

    def __init__(self, *replies: bytes) -> None:
        self.url = ""
        self.requests: list[Mapping[str, str]] = []
        self.silent = False
        self.taken = asyncio.Event()
        self._replies = list(replies or [reply(200)])

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await read_request(reader)
            lines = request.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
            fields = (line.partition(": ") for line in lines)
            self.requests.append({name.lower(): text for name, _, text in fields})
            if self.silent:
                self.taken.set()
                await asyncio.Event().wait()
            writer.write(self._replies.pop(0) if len(self._replies) > 1 else self._replies[0])


@asynccontextmanager
async def serving(*replies: bytes) -> AsyncIterator[Gateway]:
    gateway = Gateway(*replies)
    async with raw_server(gateway.handle) as gateway.url:
        yield gateway


@asynccontextmanager
async def calling(
    observer: Observer, *replies: bytes, **options: Any
) -> AsyncIterator[tuple[Gateway, GatewaySession]]:
    async with serving(*replies) as gateway:
        given = {"base_url": gateway.url, "access_token": "t", "observers": [observer]}
        retry = RetryPolicy(backoff=0.0)
        async with GatewaySession(**{**given, "retry": retry, **options}) as session:
            yield gateway, session
