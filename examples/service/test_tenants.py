"""The service, started once for all tests of this file; each test is another tenant of it."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from examples.service.app import make_app

from gateway_sdk import GatewaySession
from gateway_sdk.sandbox import SandboxServer, SandboxTenant

# The tests and the service run in one event loop: that of this file.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(gateway_server: SandboxServer) -> AsyncIterator[httpx.AsyncClient]:
    """Start the service, with the access token that is valid for all tenants."""
    app = make_app(
        GatewaySession(gateway_server.base_url, access_token=gateway_server.access_token)
    )
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://service") as client,
    ):
        yield client


@pytest.mark.parametrize("attempt", [1, 2])
async def test_tenants_share_no_customers(
    client: httpx.AsyncClient, gateway_tenant: SandboxTenant, attempt: int
) -> None:
    """Both tests create the same customer, each for its tenant."""
    reply = await client.put("/customers/c-1", headers={"tenant": gateway_tenant.tenant_id})

    assert reply.json() == {"state": "created", "customerId": "customer-0005"}
    gateway_tenant.sandbox.assert_received("create_customer", times=1)


@pytest.mark.gateway_fault("create_customer", "unauthorized")
async def test_a_fault_is_that_of_one_tenant(
    client: httpx.AsyncClient, gateway_tenant: SandboxTenant, gateway_server: SandboxServer
) -> None:
    """Other tenants are served meanwhile."""
    another = gateway_server.tenant()

    refused = await client.put("/customers/c-1", headers={"tenant": gateway_tenant.tenant_id})
    served = await client.put("/customers/c-1", headers={"tenant": another.tenant_id})

    assert (refused.status_code, served.status_code) == (503, 200)
