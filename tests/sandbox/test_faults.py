import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import httpx
import pytest

from gateway_sdk.sandbox import Fault, Faults, Sandbox

Connect = Callable[[Sandbox], AbstractAsyncContextManager[httpx.AsyncClient]]
SandboxWith = Callable[..., Sandbox]

CREATE = "/customer/1.0.0/create"
BALANCE = "/wallet/1.0.0/spot-trading/available-balance"
WEBHOOK = "/kyc/1.0.0/webhook"
ADA = {"externalCustomerId": "ext-1"}


async def test_latency_comes_before_the_reply(
    connect: Connect, sandbox_with: SandboxWith, naps: list[float]
) -> None:
    """A slow call sleeps once, for the given seconds, and is then served."""
    async with connect(sandbox_with(Fault.latency(0.2))) as client:
        reply = await client.get(BALANCE)

    assert naps == [0.2]
    assert reply.status_code == 200


async def test_status_refuses_and_applies_nothing(
    connect: Connect, sandbox_with: SandboxWith
) -> None:
    """A call refused by status gets an ErrorPayload, and nothing was applied."""
    sandbox = sandbox_with(Fault.status(500))
    async with connect(sandbox) as client:
        refused = await client.post(CREATE, json=ADA)
        created = await client.post(CREATE, json=ADA)

    assert refused.status_code == refused.json()["status"] == 500
    assert refused.json()["reason"] == "Internal Server Error"
    assert created.json()["customerId"] == "customer-0005"
    assert [(call.status, call.applied) for call in sandbox.received] == [(500, False), (200, True)]


async def test_status_may_be_one_without_a_name(
    connect: Connect, sandbox_with: SandboxWith
) -> None:
    """A status without a reason phrase is possible."""
    async with connect(sandbox_with(Fault.status(599))) as client:
        reply = await client.get(BALANCE)

    assert reply.status_code == 599
    assert reply.json()["reason"] == "Unknown Status"


@pytest.mark.parametrize(
    ("fault", "status", "retry_after"),
    [
        (Fault.too_many_requests(), 429, None),
        (Fault.too_many_requests(retry_after=0), 429, "0"),
        (Fault.too_many_requests(retry_after=2), 429, "2"),
        (Fault.unavailable(), 503, None),
        (
            Fault.unavailable(retry_after="Wed, 21 Oct 2026 07:28:00 GMT"),
            503,
            "Wed, 21 Oct 2026 07:28:00 GMT",
        ),
    ],
)
async def test_refusal_has_retry_after(
    connect: Connect, fault: Fault, status: int, retry_after: str | None, sandbox_with: SandboxWith
) -> None:
    async with connect(sandbox_with(fault)) as client:
        reply = await client.get(BALANCE)

    assert reply.status_code == status
    assert reply.headers.get("Retry-After") == retry_after


async def test_token_is_rejected_at_one_call(connect: Connect) -> None:
    """A token may be refused at the second call and be valid again at the third."""
    faults = Faults().on("send_webhook", Fault.unauthorized(), at=2)
    async with connect(Sandbox(faults=faults)) as client:
        replies = [await client.post(WEBHOOK) for _ in range(3)]

    assert [reply.status_code for reply in replies] == [202, 401, 202]
    assert replies[1].headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'


async def test_malformed_error_is_no_json(connect: Connect, sandbox_with: SandboxWith) -> None:
    """A malformed error has the media type JSON, and its body is not JSON."""
    async with connect(sandbox_with(Fault.malformed_error(502))) as client:
        reply = await client.get(BALANCE)

    assert reply.status_code == 502
    assert reply.headers["Content-Type"] == "application/json"
    with pytest.raises(ValueError, match="Unterminated string"):
        reply.json()


async def test_drip_sends_the_whole_body(
    connect: Connect, sandbox_with: SandboxWith, naps: list[float]
) -> None:
    """A dripping reply waits before each piece and is complete."""
    sandbox = sandbox_with(Fault.drip(0.05))
    async with connect(sandbox) as client:
        dripped = await client.get(BALANCE)
        at_once = await client.get(BALANCE)

    assert naps == [0.05] * 10
    assert dripped.json() == at_once.json()


async def test_drip_of_an_empty_body_takes_no_time(
    connect: Connect, sandbox_with: SandboxWith, naps: list[float]
) -> None:
    """A reply without a body is sent at once."""
    async with connect(sandbox_with(Fault.drip(0.05))) as client:
        reply = await client.post(WEBHOOK)

    assert naps == []
    assert reply.status_code == 202


async def test_faults_can_be_added_later(client: httpx.AsyncClient, sandbox: Sandbox) -> None:
    """A fault that is added during a test counts later calls only."""
    await client.post(WEBHOOK)
    sandbox.faults.on("send_webhook", Fault.status(500), at=1)

    assert (await client.post(WEBHOOK)).status_code == 500
    assert (await client.post(WEBHOOK)).status_code == 202


async def test_call_is_noted_while_it_is_held_up(connect: Connect) -> None:
    """A call that is still being served is recorded, and has no status yet."""
    held_up = asyncio.Event()

    async def sleep(_: float) -> None:
        held_up.set()
        await asyncio.Event().wait()

    sandbox = Sandbox(faults=Faults(sleep=sleep).anywhere(Fault.latency(1)))
    async with connect(sandbox) as client:
        call = asyncio.create_task(client.get(BALANCE))
        await held_up.wait()
        statuses = [call.status for call in sandbox.received]
        call.cancel()
        await asyncio.wait([call])

    assert statuses == [None]
    assert call.cancelled()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Fault.status(200), "status is out of range: 200"),
        (lambda: Fault.status(600), "status is out of range: 600"),
        (lambda: Fault.of_kind("status", 450.5), "status must be a whole number: 450.5"),
        (lambda: Fault.of_kind("status", 429.0), "status must be a whole number: 429.0"),
        (lambda: Fault.of_kind("malformed_error", 500.0), "status must be a whole number: 500.0"),
        (lambda: Fault.of_kind("drip", 0, pieces=2.5), "pieces must be a whole number: 2.5"),
        (lambda: Fault.malformed_error(302), "status is out of range: 302"),
        (lambda: Fault.latency(-1), "seconds is out of range: -1"),
        (lambda: Fault.drip(-0.1), "delay is out of range: -0.1"),
        (lambda: Fault.latency(float("nan")), "seconds is out of range: nan"),
        (lambda: Fault.drip(0, pieces=0), "pieces is out of range: 0"),
        (lambda: Fault.of_kind("status", "500"), "status must be a whole number: '500'"),
        (lambda: Fault.of_kind("drip", 0, pieces=True), "pieces must be a whole number: True"),
        (lambda: Fault.of_kind("latency", "1"), "seconds must be a number: '1'"),
        (lambda: Fault.of_kind("drip", "x"), "delay must be a number: 'x'"),
    ],
)
def test_impossible_fault_is_refused(make: Callable[[], Fault], message: str) -> None:
    """What is no number, or out of its range, is refused by its name."""
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_fault_has_a_readable_repr() -> None:
    assert repr(Fault.latency(0.2)) == "Fault(name='latency of 0.2 s')"
