"""No tenant, identifier, content, token, file name or text of an error leaves the process."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from gateway_sdk import GatewaySession, Multipart, OutageError, RetryPolicy, bulk
from tests.otel.telemetry import Collector, calling, reply

CANARY: Final = "canary"
PAYLOAD: Final = json.dumps({"code": "canary-code", "message": "canary-message"}).encode()
ANSWERS: Final = {
    "success": reply(200, b'{"x": "canary-value"}', X_Canary="canary-field"),
    "refusal": reply(422, PAYLOAD, X_Canary="canary-field"),
    "failure": reply(500, PAYLOAD),
    "limit": reply(429, PAYLOAD, Retry_After="0"),
    "401": reply(401, PAYLOAD, WWW_Authenticate="canary-realm"),
    "redirect": reply(302, b"", Location="https://canary.test/canary"),
    "garbage": b"canary no HTTP\r\n\r\n",
    "no JSON": reply(200, b"canary ["),
}


class Source:
    async def token(self, rejected: object = None) -> str:
        return "canary-token-1" if rejected is None else "canary-token-2"


async def stream() -> AsyncIterator[bytes]:
    yield b"canary-piece"
    raise LookupError("canary-text")


async def everything(gateway: GatewaySession, folder: Path) -> None:
    path = folder / "canary-file.pdf"
    path.write_bytes(b"canary-scan")
    form = Multipart(fields={"canary-name": "canary-value"}, files={"canary-part": path})
    calls: list[Any] = [
        gateway.customer.create_customer({"customerName": "canary-Ada"}),
        gateway.customer.revise_customer("canary-id", {"email": "canary@canary.test"}),
        gateway.wallet.cancel_order("canary-wallet", "canary-order"),
        gateway.wallet.trading_order_history("canary-customer"),
        gateway.wallet.cancel_order("", "canary-order"),
        gateway.aml.change_document_status("canary-document", "canary-status"),
        gateway.aml.upload_document(path),
        gateway.aml.upload_document(folder / "canary-missing"),
        gateway.aml.upload_document(form),
        gateway.aml.upload_document(stream()),
        gateway.kyc.send_webhook({"canary-key": "canary-value"}),
    ]
    await asyncio.gather(*calls, return_exceptions=True)


def exported(collector: Collector) -> str:
    spans = [span.to_json() for span in collector.spans]
    reader = collector._reader
    assert isinstance(reader, InMemoryMetricReader)
    data = reader.get_metrics_data()
    assert data is not None
    return "\n".join([*spans, data.to_json()])


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_nothing_personal_is_exported(tmp_path: Path, answer: bytes) -> None:
    collector = Collector()
    options = {
        "access_token": Source(),
        "tenant_id": "canary-tenant",
        "token_header": "canary-token-header",
        "headers": {"X-Canary": "canary-header"},
        "retry": RetryPolicy(attempts=2, backoff=0.0),
    }
    async with calling(collector.observer, answer, **options) as (gateway, sending):
        with collector.instrumented():
            await everything(sending, tmp_path)

            async def call(item: str) -> Any:
                return await sending.wallet.trading_order_history(item)

            run = bulk.run(
                call,
                ["canary-1", "canary-2"],
                patience=0,
                key=str,
                journal=tmp_path / "canary-journal",
                job="canary-job",
                observers=[collector.observer],
            )
            with suppress(OutageError):  # after a 401
                assert len([result async for result in run]) == 2

    text = exported(collector)
    assert CANARY in json.dumps(gateway.requests[0])
    assert CANARY not in text
    assert len(collector.calls) >= 13  # items that failed are tried again
    assert {"bulk.run", "create_customer", "upload_document"} <= {
        span.name for span in collector.spans
    }
