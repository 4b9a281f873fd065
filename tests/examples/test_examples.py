"""Each example does what it says, against the sandbox on a socket."""

import asyncio
import re
import sys
from pathlib import Path

import httpx

from examples import web_service, worker
from gateway_sdk.sandbox import Fault, Sandbox


async def test_the_web_service_cancels_and_creates(environment: dict[str, str]) -> None:
    """The service passes calls on for the tenant that its caller names."""
    async with web_service.app.router.lifespan_context(web_service.app), _client() as client:
        cancelled = await client.delete("/wallets/wallet-0004/orders/order-0056")
        created = await client.post("/customers", json={"customerName": "Ada"})

    assert cancelled.json()["status"] == "cancelled"
    assert created.json()["customerId"] == "customer-0005"


async def test_the_web_service_says_what_happened(
    environment: dict[str, str], sandbox: Sandbox
) -> None:
    """A customer that may have been created is a conflict to look into, not a failure to repeat."""
    sandbox.faults.on("create_customer", Fault.drop_after_read(), at=1)
    async with web_service.app.router.lifespan_context(web_service.app), _client() as client:
        lost = await client.post("/customers", json={"customerName": "Ada"})
        refused = await client.post("/customers", json={"customerNam": "Ada"})

    assert lost.status_code == 409
    assert lost.json()["outcome"] == "UNKNOWN"
    assert lost.json()["retryable"] is False
    assert refused.status_code == 502
    assert refused.json()["outcome"] == "NOT_SENT"
    assert "customerNam" in refused.json()["error"]
    assert [call.operation for call in sandbox.received] == ["create_customer"]


def _client() -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(web_service.app),
        base_url="http://service",
        headers={"tenant": "acme"},
    )


async def test_the_bulk_fetch_prints_one_line_per_series(environment: dict[str, str]) -> None:
    """The script ends with status 0 and says how many currencies have no series."""
    script = Path(__file__).parents[2] / "examples" / "bulk_fetch.py"

    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", script, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()

    lines = out.decode().splitlines()
    assert process.returncode == 0
    assert "USD: 63 days" in lines
    assert re.fullmatch(
        r"1\d\d currencies of 2\d\d countries, failed: \{'NotFoundError': \d+\}", lines[-1]
    )


async def test_the_web_service_says_what_to_try_again(
    environment: dict[str, str], sandbox: Sandbox
) -> None:
    """A gateway that is busy is 503: the caller may come again."""
    sandbox.faults.on("create_customer", Fault.too_many_requests(retry_after=3600))
    async with web_service.app.router.lifespan_context(web_service.app), _client() as client:
        busy = await client.post("/customers", json={"customerName": "Ada"})

    assert busy.status_code == 503
    assert busy.json()["retryable"] is True


async def test_the_worker_uploads_once(
    environment: dict[str, str], sandbox: Sandbox, tmp_path: Path
) -> None:
    """A lost reply is not tried again, and neither is a file that is missing."""
    document = tmp_path / "passport.pdf"
    document.write_bytes(b"scan")
    sandbox.faults.on("upload_document", Fault.drop_after_read(), at=1)
    await worker.broker.startup()
    try:
        lost = await (await worker.upload.kiq(str(document))).wait_result()
        stored = await (await worker.upload.kiq(str(document))).wait_result()
        missing = await (await worker.upload.kiq(str(tmp_path / "none"))).wait_result()
    finally:
        await worker.broker.shutdown()

    assert "it is unknown whether the gateway did it" in lost.return_value["needs_a_look"]
    assert stored.return_value["stored"]["size"] == 4
    assert not missing.is_err
    assert "unreadable file" in missing.return_value["needs_a_look"]
    assert len(sandbox.received) == 2
