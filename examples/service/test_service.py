"""The service, one request at a time. All fixtures named gateway_* come with the SDK."""

from collections.abc import AsyncIterator
from unittest.mock import create_autospec

import httpx
import pytest
from examples.service.app import from_environment, make_app

from gateway_sdk import GatewaySession
from gateway_sdk.sandbox import Sandbox

# A call that no test names fails the test; so does a fault that does not happen.
pytestmark = pytest.mark.gateway(strict=True, keep_bodies=True)


def client_of(session: GatewaySession) -> httpx.AsyncClient:
    """Make a client of the service, without a socket."""
    transport = httpx.ASGITransport(make_app(session))
    return httpx.AsyncClient(
        transport=transport, base_url="http://service", headers={"tenant": "acme"}
    )


@pytest.fixture
async def client(gateway_session: GatewaySession) -> AsyncIterator[httpx.AsyncClient]:
    """Provide a client of the service on a gateway in memory."""
    async with client_of(gateway_session) as client:
        yield client


async def test_a_customer_is_created_for_the_tenant_of_the_caller(
    client: httpx.AsyncClient, gateway_sandbox: Sandbox
) -> None:
    """The gateway gets the reference and the tenant."""
    reply = await client.put("/customers/c-1")

    assert reply.json() == {"state": "created", "customerId": "customer-0005"}
    gateway_sandbox.assert_received(
        "create_customer", times=1, applied=True, tenant="acme", json={"externalCustomerId": "c-1"}
    )


@pytest.mark.gateway_fault("create_customer", "drop_after_read", at=1)
async def test_a_lost_reply_is_for_a_person_to_check(
    client: httpx.AsyncClient, gateway_sandbox: Sandbox
) -> None:
    """The customer may exist, so the service does not create it again."""
    reply = await client.put("/customers/c-1")

    assert reply.status_code == 202
    assert (await client.get("/to-check")).json() == ["c-1"]
    gateway_sandbox.assert_received("create_customer", times=1, applied=True)


@pytest.mark.gateway_fault("create_customer", "too_many_requests", retry_after=4, times=2)
async def test_a_busy_gateway_is_waited_for(
    client: httpx.AsyncClient, gateway_sandbox: Sandbox
) -> None:
    """A refused call was not applied, so it is sent again; the test does not wait."""
    reply = await client.put("/customers/c-1")

    assert reply.status_code == 200
    gateway_sandbox.assert_received("create_customer", times=3)
    gateway_sandbox.assert_received("create_customer", times=1, applied=True)


@pytest.mark.gateway_fault("create_customer", "too_many_requests", retry_after=60)
async def test_a_gateway_that_stays_busy_is_503(client: httpx.AsyncClient) -> None:
    """The minute is more than the deadline of the service, so it answers at once."""
    reply = await client.put("/customers/c-1")

    assert reply.status_code == 503
    assert (await client.get("/to-check")).json() == []


async def test_a_customer_that_exists_is_409(
    client: httpx.AsyncClient, gateway_sandbox: Sandbox
) -> None:
    """The gateway refuses the second one."""
    await client.put("/customers/c-1")
    reply = await client.put("/customers/c-1")

    assert reply.status_code == 409
    gateway_sandbox.assert_received("create_customer", times=1, applied=False, status=409)


@pytest.mark.gateway_fault("cancel_order", "drop_after_read", at=1)
async def test_a_lost_cancellation_is_repeated(
    client: httpx.AsyncClient, gateway_sandbox: Sandbox
) -> None:
    """To cancel an order twice does no harm."""
    reply = await client.delete("/wallets/wallet-0004/orders/order-0056")

    assert reply.json() == {"state": "cancelled"}
    gateway_sandbox.assert_received(
        "cancel_order", times=2, parameters={"walletId": "wallet-0004", "orderId": "order-0056"}
    )


@pytest.mark.gateway(allow=["cancel_order"])
async def test_an_unknown_order_is_404(client: httpx.AsyncClient) -> None:
    """The caller named it."""
    assert (await client.delete("/wallets/wallet-0004/orders/none")).status_code == 404


async def test_it_starts_with_the_settings_of_the_environment(
    gateway_env: dict[str, str], gateway_sandbox: Sandbox
) -> None:
    """As in production, over a socket."""
    app = from_environment()
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://service") as client,
    ):
        reply = await client.put("/customers/c-1", headers={"tenant": "acme"})

    assert reply.status_code == 200
    token = gateway_env["GATEWAY_ACCESS_TOKEN"]
    gateway_sandbox.assert_received("create_customer", headers={"Authorization": f"Bearer {token}"})


async def test_it_can_be_tested_without_any_gateway() -> None:
    """A mock knows the methods of the session, and their arguments."""
    gateway = create_autospec(GatewaySession, instance=True)
    gateway.with_options.return_value = gateway
    gateway.customer.create_customer.return_value = {"customerId": "1"}

    async with client_of(gateway) as client:
        reply = await client.put("/customers/c-1")

    assert reply.json()["customerId"] == "1"
    gateway.customer.create_customer.assert_awaited_once_with({"externalCustomerId": "c-1"})
