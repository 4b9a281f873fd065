"""`opentelemetry-instrument` alone: the web service, which knows nothing of telemetry."""

import json
import re
import signal
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_sdk.sandbox import Sandbox
from tests.support.documents import ROOT

INSTRUMENT = Path(sys.executable).with_name("opentelemetry-instrument")
QUIET = ("--metrics_exporter", "none", "--logs_exporter", "none")


def spans_of(output: str) -> Iterator[dict[str, Any]]:
    decoder, at = json.JSONDecoder(), output.find("{")
    while at >= 0:
        span, end = decoder.raw_decode(output, at)
        yield span
        at = output.find("{", end)


def tree_of(spans: list[dict[str, Any]], parent: str | None = None) -> list[Any]:
    """Return the names of spans, each with those of its children, in the order of their start."""
    of_it = [span for span in spans if span["parent_id"] == parent]
    of_it.sort(key=lambda span: str(span["start_time"]))
    return [(span["name"], tree_of(spans, span["context"]["span_id"])) for span in of_it]


@pytest.mark.gateway_fault("cancel_order", "too_many_requests", retry_after=0, at=1)
async def test_a_service_is_traced_through(
    gateway_env: dict[str, str], gateway_sandbox: Sandbox
) -> None:
    """One span per call and per attempt below that of the request; the stock ones add none."""
    service = await create_subprocess_exec(
        INSTRUMENT, "--traces_exporter", "console", *QUIET,
        sys.executable, "-m", "uvicorn", "examples.web_service:app", "--port", "0",
        cwd=ROOT, stdout=PIPE, stderr=PIPE,
    )  # fmt: skip
    assert service.stderr
    address = None
    while address is None:
        line = await service.stderr.readline()
        assert line, "it did not start"
        address = re.search(rb"http://127\.0\.0\.1:\d+", line)
    order = "/wallets/wallet-0004/orders/order-0056"
    async with httpx.AsyncClient(base_url=address[0].decode(), timeout=60) as caller:
        assert (await caller.delete(order, headers={"tenant": "demo"})).is_success
    service.send_signal(signal.SIGINT)
    output, told = await service.communicate()

    assert b"Application shutdown complete." in told
    spans = [span for span in spans_of(output.decode()) if not span["name"].endswith("http send")]
    attempt: Any = ("DELETE /wallet/1.0.0/{walletId}/orders/{orderId}", [])
    assert tree_of(spans) == [
        ("DELETE /wallets/{wallet_id}/orders/{order_id}", [("cancel_order", [attempt, attempt])])
    ]
    assert {span["kind"] for span in spans} == {
        "SpanKind.SERVER", "SpanKind.INTERNAL", "SpanKind.CLIENT",
    }  # fmt: skip
    first, second = (call.headers["traceparent"] for call in gateway_sandbox.received)
    assert first != second
