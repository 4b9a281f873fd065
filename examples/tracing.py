"""Print the spans and the metrics of a few calls to a sandbox that misbehaves; needs no server.

It needs `pip install '.[otel,sandbox]' opentelemetry-sdk`:

    python examples/tracing.py

In a service, give the providers the exporters of your backend in place of those of the console.
"""

import asyncio
from collections.abc import Iterator

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    HistogramDataPoint,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.trace import INVALID_SPAN_CONTEXT, format_span_id, format_trace_id
from opentelemetry.util.types import Attributes

from gateway_sdk import GatewaySession, NotFoundError, bulk
from gateway_sdk.otel import OpenTelemetry
from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Fault, Faults, Sandbox

CURRENCIES = ["USD", "CHF", "XXX"]  # the last one has no rates


def span_line(span: ReadableSpan) -> str:
    """Return a span on one line: its trace, its parent, its number, its name and what it has."""
    place = span.get_span_context() or INVALID_SPAN_CONTEXT
    parent = format_span_id(span.parent.span_id)[:6] if span.parent else "------"
    trace, number = format_trace_id(place.trace_id)[:6], format_span_id(place.span_id)[:6]
    events = "".join(f" [{event.name}]" for event in span.events)
    return f"span {trace} {parent} > {number} {span.name}: {text_of(span.attributes)}{events}\n"


def text_of(attributes: Attributes) -> str:
    """Return attributes on one line."""
    return " ".join(f"{name}={value!r}" for name, value in (attributes or {}).items())


def metric_lines(data: MetricsData) -> str:
    """Return the count and the mean of each histogram, by its attributes."""
    lines: list[str] = []
    for name, point in points(data):
        mean = point.sum / point.count
        lines.append(f"metric {name}: {point.count} x {mean:.4f} s, {text_of(point.attributes)}\n")
    return "".join(lines)


def points(data: MetricsData) -> Iterator[tuple[str, HistogramDataPoint]]:
    """Yield the points of all histograms, with their names."""
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    if isinstance(point, HistogramDataPoint):
                        yield metric.name, point


async def main() -> None:
    """Make a call that is repeated, a call that fails, and a bulk run."""
    traces = TracerProvider()
    traces.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=span_line)))
    exporter = ConsoleMetricExporter(formatter=metric_lines)
    meters = MeterProvider([PeriodicExportingMetricReader(exporter)])
    telemetry = OpenTelemetry(traces, meters)

    sandbox = Sandbox(faults=Faults().on("list_countries", Fault.unavailable(), at=1))
    async with (
        sandbox.serve() as base_url,
        GatewaySession(
            base_url, access_token=SANDBOX_ACCESS_TOKEN, tenant_id="demo", observers=[telemetry]
        ) as gateway,
    ):
        await gateway.country_data.list_countries()
        try:
            await gateway.wallet.cancel_order("no-such-wallet", "no-such-order")
        except NotFoundError as error:
            print(type(error).__name__)

        async def rates(currency: str) -> object:
            return await gateway.currency.exchange_rate_series(
                base="EUR", symbols=currency, start_date="2026-01-01", end_date="2026-01-31"
            )

        async for result in bulk.run(rates, CURRENCIES, observers=[telemetry]):
            print(result.item, "failed" if result.error else "has rates")

    traces.shutdown()
    meters.shutdown()  # exports what was collected


if __name__ == "__main__":
    asyncio.run(main())
