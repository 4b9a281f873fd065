"""What a test asserts of the calls that arrived."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from gateway_sdk import GatewaySession, NotFoundError, ReplyLostError, UploadFailedError
from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Fault, ReceivedCall, Sandbox
from gateway_sdk.sandbox._received import MAX_RECEIVED

CANARY = "Ada Lovelace"
ADA = {"customerName": CANARY}


@pytest.fixture
async def received(gateway_sandbox: Sandbox, gateway_session: GatewaySession) -> Sandbox:
    """Provide a sandbox that received a customer twice, an order to cancel, and countries."""
    view = gateway_session.with_options(tenant_id=CANARY, token_header="seal")
    gateway_sandbox.faults.on("cancel_order", Fault.unavailable(), at=1)
    await view.customer.create_customer(ADA)
    await gateway_session.customer.create_customer({})
    await view.wallet.cancel_order("wallet-0004", "order-0056")
    await view.country_data.list_countries()
    return gateway_sandbox


@pytest.mark.gateway(keep_bodies=True)
def test_every_part_can_be_asserted(received: Sandbox) -> None:
    (ada,) = received.assert_received("create_customer", times=1, json=ADA)
    (again, _) = received.assert_received("create_customer", applied=True, status=200)

    assert ada is again
    assert ada.tenant == CANARY
    assert ada.json() == ADA
    assert ada.headers["content-type"] == "application/json"
    received.assert_received("create_customer", times=1, tenant="test-tenant", body=b"{}")
    received.assert_received("cancel_order", times=2)
    received.assert_received("cancel_order", times=1, applied=False, status=503)
    received.assert_received("cancel_order", times=2, headers={"TOKEN": "seal"}, body=b"")
    received.assert_received("cancel_order", times=2, parameters={"orderId": "order-0056"})
    received.assert_received("cancel_order", times=0, parameters={"orderId": "order-0001"})
    received.assert_received("cancel_order", times=0, headers={"token": "seal", "x": "y"})
    received.assert_received("cancel_order", times=0, json={})  # a body that is not JSON
    assert received.assert_received("list_countries")[0].tenant is None
    assert received.assert_received("send_webhook", times=0) == []


@pytest.mark.gateway(keep_bodies=True)
async def test_a_body_that_python_does_not_read_is_another(
    gateway_session: GatewaySession, gateway_sandbox: Sandbox
) -> None:
    """JSON may have an integer of more digits than Python makes a number of."""
    await gateway_session.kyc.send_webhook(b"9" * 5000)

    gateway_sandbox.assert_received("send_webhook", times=0, json={"a": 1})
    gateway_sandbox.assert_received("send_webhook", times=1, body=b"9" * 5000)


@pytest.mark.gateway(keep_bodies=True)
def test_a_failure_says_what_was_received_instead(received: Sandbox) -> None:
    with pytest.raises(AssertionError) as caught:
        received.assert_received(
            "create_customer", times=2, applied=True, tenant=CANARY, json={"a": 1}
        )

    assert str(caught.value) == (
        "expected calls of create_customer: 2, received: 0\n"
        "  applied is as expected in 2 of 2 calls\n"
        "  tenant is as expected in 1 of 2 calls\n"
        "  json is as expected in 0 of 2 calls\n"
        "received in all:\n"
        "  create_customer: 2, applied, status 200\n"
        "  cancel_order: 1, not applied, status 503\n"
        "  cancel_order: 1, applied, status 200\n"
        "  list_countries: 1, applied, status 200"
    )
    for secret in (CANARY, SANDBOX_ACCESS_TOKEN, "seal", "order-0056"):
        assert secret not in repr(list(received.received))


async def test_a_lost_reply_is_told(
    gateway_sandbox: Sandbox, gateway_session: GatewaySession
) -> None:
    gateway_sandbox.faults.anywhere(Fault.drop_after_read())
    with pytest.raises(ReplyLostError):
        await gateway_session.customer.create_customer({})

    with pytest.raises(AssertionError) as caught:
        gateway_sandbox.assert_received("send_webhook")

    assert str(caught.value) == (
        "expected calls of send_webhook: 1 or more, received: 0\n"
        "received in all:\n"
        "  create_customer: 1, applied, no reply"
    )
    with pytest.raises(AssertionError, match="expected calls of create_customer: 0, received: 1\n"):
        gateway_sandbox.assert_received("create_customer", times=0)


def test_a_body_that_was_not_kept_is_an_error(received: Sandbox) -> None:
    """A comparison with nothing would be wrong, so the error says how to keep bodies."""
    for wanted in ({"json": ADA}, {"body": b""}):
        with pytest.raises(ValueError, match="keep_bodies=True"):
            received.assert_received("create_customer", **wanted)
    with pytest.raises(ValueError, match="keep_bodies=True"):
        received.received[0].json()


def test_an_unknown_operation_is_an_error(received: Sandbox) -> None:
    with pytest.raises(ValueError, match="unknown operation 'createCustomer'; the operations are"):
        received.assert_received("createCustomer", times=0)
    with pytest.raises(ValueError, match="unknown operation"):
        received.allow("createCustomer")


def test_more_calls_than_are_kept_are_not_counted() -> None:
    """The oldest are forgotten, so any number would be wrong; ten thousand are still all."""
    sandbox = Sandbox()
    sandbox.received.extend([ReceivedCall("send_webhook", "POST", "/")] * MAX_RECEIVED)
    assert len(sandbox.assert_received("send_webhook", times=MAX_RECEIVED)) == MAX_RECEIVED

    for call in sandbox.received[:2]:
        sandbox.received.append(call)
    assert len(sandbox.received) == MAX_RECEIVED + 1
    with pytest.raises(ValueError, match="only the last 10000 calls are known"):
        sandbox.assert_received("create_customer", times=0)
    sandbox.received.clear()
    sandbox.assert_received("create_customer", times=0)


async def test_an_unknown_request_is_kept_without_showing_its_path(
    gateway_sandbox: Sandbox,
) -> None:
    """Its path may be a person's id that stands where the operation should."""
    async with gateway_sandbox.transport() as transport:
        await transport.handle_async_request(httpx.Request("PUT", "http://localhost/customers/ada"))

    (unknown,) = gateway_sandbox.unknown_requests
    assert (unknown.method, unknown.path) == ("PUT", "/customers/ada")
    assert "ada" not in repr(unknown)
    with pytest.raises(AssertionError, match="PUT of a path that is no operation"):
        gateway_sandbox.assert_as_expected()


async def test_received_calls_may_be_repeated_in_a_loop_over_them(gateway_sandbox: Sandbox) -> None:
    async with GatewaySession(
        "http://localhost",
        access_token=SANDBOX_ACCESS_TOKEN,
        transport=gateway_sandbox.transport(),
    ) as gateway:
        await gateway.kyc.send_webhook()
        for _ in gateway_sandbox.received:
            await gateway.kyc.send_webhook()

    gateway_sandbox.assert_received("send_webhook", times=2)


@pytest.mark.parametrize("customer_id", ["a/b", "a%2Fb", "a b", "\u00e9?"])
async def test_identifier_of_any_text_is_one_segment(sandbox: Sandbox, customer_id: str) -> None:
    async with (
        sandbox.serve() as base_url,
        GatewaySession(base_url, access_token=SANDBOX_ACCESS_TOKEN) as gateway,
    ):
        with pytest.raises(NotFoundError):
            await gateway.wallet.trading_order_history(customer_id)

    sandbox.assert_received("trading_order_history", parameters={"customerId": customer_id})
    sandbox.assert_as_expected()


@pytest.mark.parametrize("is_remote", [False, True], ids=["in memory", "over a socket"])
async def test_a_document_that_raises_is_no_failure_of_the_sandbox(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture, is_remote: bool
) -> None:
    async def document() -> AsyncIterator[bytes]:
        yield b"x" * 300_000
        raise LookupError

    async with sandbox.serve() as url:
        transport = None if is_remote else sandbox.transport()
        given: Any = {"access_token": SANDBOX_ACCESS_TOKEN, "transport": transport}
        async with GatewaySession(url, **given) as gateway:
            with pytest.raises(UploadFailedError):
                await gateway.aml.upload_document(document())

    assert "failed" not in caplog.text
