from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager

import httpx
import pytest
from starlette.types import Message

from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Fault, Sandbox

Connect = Callable[[Sandbox], AbstractAsyncContextManager[httpx.AsyncClient]]
SandboxWith = Callable[..., Sandbox]

CREATE = "/customer/1.0.0/create"
BALANCE = "/wallet/1.0.0/spot-trading/available-balance"
UPLOAD = "/aml/1.0.0/document/upload"
WEBHOOK = "/kyc/1.0.0/webhook"
ADA = {"externalCustomerId": "ext-1"}


async def test_drop_before_read_applies_nothing(
    connect: Connect, sandbox_with: SandboxWith
) -> None:
    """If the connection is closed before the request is read, nothing is applied."""
    sandbox = sandbox_with(Fault.drop_before_read())
    async with connect(sandbox) as client:
        with pytest.raises(httpx.TransportError):
            await client.post(CREATE, json=ADA)
        created = await client.post(CREATE, json=ADA)

    assert created.json()["customerId"] == "customer-0005"
    assert [(call.status, call.applied) for call in sandbox.received] == [
        (None, False),
        (200, True),
    ]


async def test_drop_before_read_cuts_an_upload(connect: Connect, sandbox_with: SandboxWith) -> None:
    """The connection may be closed while a long body is still being sent."""
    sandbox = sandbox_with(Fault.drop_before_read())
    async with connect(sandbox) as client:
        with pytest.raises(httpx.TransportError):
            await client.post(UPLOAD, content=bytes(8 * 1024 * 1024))
        uploaded = await client.post(UPLOAD, content=b"abc")

    assert uploaded.json()["documentId"] == "document-0001"


async def test_drop_after_read_loses_the_reply_only(
    connect: Connect, sandbox_with: SandboxWith
) -> None:
    """If the connection is closed instead of the reply, the operation has been applied."""
    sandbox = sandbox_with(Fault.drop_after_read())
    async with connect(sandbox) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post(CREATE, json=ADA)
        again = await client.post(CREATE, json=ADA)

    assert again.status_code == 409
    assert [(call.status, call.applied) for call in sandbox.received] == [
        (None, True),
        (409, False),
    ]


async def test_cut_body_comes_after_the_status(connect: Connect, sandbox_with: SandboxWith) -> None:
    """The client gets the status, then half of the body, then the error."""
    sandbox = sandbox_with(Fault.cut_body())
    received = bytearray()

    async def receive(reply: httpx.Response) -> None:
        async for chunk in reply.aiter_raw():
            received.extend(chunk)

    async with connect(sandbox) as client, client.stream("GET", BALANCE) as reply:
        with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message"):
            await receive(reply)

    assert reply.status_code == 200
    assert len(received) == 133
    assert reply.headers["Content-Length"] == "267"
    assert sandbox.received[0].status == 200
    assert sandbox.received[0].applied


async def test_empty_body_is_cut_as_well(connect: Connect, sandbox_with: SandboxWith) -> None:
    """A reply without a body announces one byte and does not send it."""
    async with connect(sandbox_with(Fault.cut_body())) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post(WEBHOOK)


async def test_dripping_body_may_be_cut(
    connect: Connect, sandbox_with: SandboxWith, naps: list[float]
) -> None:
    """A fault may wrap another one: the pieces of the body are collected and cut."""
    sandbox = sandbox_with(Fault.cut_body(), Fault.drip(0.05, pieces=3))
    async with connect(sandbox) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(BALANCE)

    assert naps == [0.05] * 3


@pytest.mark.parametrize("outer", [Fault.cut_body(), Fault.drop_after_read(), Fault.drip(1)])
async def test_dropped_reply_cannot_be_spoilt_further(
    connect: Connect, outer: Fault, sandbox_with: SandboxWith
) -> None:
    """After the connection was closed, other faults have no reply to change."""
    sandbox = sandbox_with(outer, Fault.drop_before_read())
    async with connect(sandbox) as client:
        with pytest.raises(httpx.TransportError):
            await client.get(BALANCE)

    assert sandbox.received[0].status is None


@pytest.mark.parametrize("faults", [[], [Fault.cut_body()]])
async def test_client_that_leaves_in_mid_upload_uploads_nothing(
    faults: list[Fault], sandbox_with: SandboxWith
) -> None:
    """A body that breaks off is not stored, and no reply is sent."""
    sandbox = sandbox_with(*faults)
    parts: Iterator[Message] = iter(
        [
            {"type": "http.request", "body": b"half", "more_body": True},
            {"type": "http.disconnect"},
        ]
    )
    sent: list[Message] = []

    async def receive() -> Message:
        return next(parts)

    async def send(message: Message) -> None:
        sent.append(message)

    authorization = (b"authorization", f"Bearer {SANDBOX_ACCESS_TOKEN}".encode())
    scope = {"type": "http", "method": "POST", "path": UPLOAD, "headers": [authorization]}
    await sandbox.app(scope, receive, send)

    assert sent == []
    assert [(call.status, call.applied) for call in sandbox.received] == [(None, False)]
    assert sandbox._state.tenants["default"].documents == {}
