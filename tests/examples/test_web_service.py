"""The web service of the examples: what its callers are told."""

import httpx
import pytest

from examples import web_service
from gateway_sdk import (
    ConfigurationError,
    ConflictError,
    ForbiddenError,
    GatewayError,
    InvalidArgumentError,
    LoginRequiredError,
    ServerError,
    UnauthorizedError,
)
from gateway_sdk.sandbox import Sandbox


def client() -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(web_service.app),
        base_url="http://service",
        headers={"tenant": "acme"},
    )


async def post_customer(body: object, **headers: str) -> httpx.Response:
    async with web_service.app.router.lifespan_context(web_service.app), client() as caller:
        return await caller.post("/customers", json=body, headers=headers)


async def test_it_cancels_and_creates(gateway_env: dict[str, str]) -> None:
    """The service passes calls on for the tenant that its caller names."""
    async with web_service.app.router.lifespan_context(web_service.app), client() as caller:
        cancelled = await caller.delete("/wallets/wallet-0004/orders/order-0056")
        created = await caller.post("/customers", json={"customerName": "Ada"})

    assert cancelled.json()["status"] == "cancelled"
    assert created.json()["customerId"] == "customer-0005"


async def test_an_order_that_does_not_exist_is_404(gateway_env: dict[str, str]) -> None:
    async with web_service.app.router.lifespan_context(web_service.app), client() as caller:
        reply = await caller.delete("/wallets/wallet-0004/orders/none")

    assert reply.status_code == 404
    assert reply.json()["outcome"] == "REFUSED"


@pytest.mark.gateway_fault("create_customer", "drop_after_read", at=1)
async def test_a_lost_customer_is_409(gateway_env: dict[str, str]) -> None:
    lost = await post_customer({"customerName": "Ada"})

    assert lost.status_code == 409
    assert lost.json()["outcome"] == "UNKNOWN"
    assert lost.json()["advice"] == "check"


@pytest.mark.parametrize(
    ("body", "tenant"), [({"customerNam": "Ada"}, "acme"), ({}, ""), ([], "acme")]
)
async def test_what_the_caller_did_wrong_is_422(
    gateway_env: dict[str, str], gateway_sandbox: Sandbox, body: object, tenant: str
) -> None:
    """A wrong field, an empty tenant and a list for an object are refused; nothing is sent."""
    refused = await post_customer(body, tenant=tenant)

    assert refused.status_code == 422
    assert not gateway_sandbox.received


@pytest.mark.gateway_fault("create_customer", "too_many_requests", retry_after=3600)
async def test_a_busy_gateway_is_503(gateway_env: dict[str, str]) -> None:
    busy = await post_customer({"customerName": "Ada"})

    assert busy.status_code == 503
    assert busy.headers["Retry-After"] == "3600"
    assert busy.json()["advice"] == "repeat"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidArgumentError("wrong"), 422),
        (ConfigurationError("wrong"), 500),
        (LoginRequiredError("log in"), 503),
        (UnauthorizedError("no", status=401), 503),  # the token is the service's own
        (ConflictError("no", status=409), 409),
        (ForbiddenError("no", status=403), 502),
        (ServerError("no", status=501), 502),
        (ServerError("later", status=503), 503),
    ],
    ids=lambda value: value if isinstance(value, int) else type(value).__name__,
)
def test_each_error_has_its_status(error: GatewayError, status: int) -> None:
    """These errors say that nothing was done, so that their kind alone counts."""
    assert web_service.status_of(error) == status


async def probe(caller: httpx.AsyncClient) -> list[int]:
    return [(await caller.get(path)).status_code for path in ("/healthz", "/readyz")]


async def test_an_outage_makes_it_unready_at_the_start_only(
    monkeypatch: pytest.MonkeyPatch, gateway_env: dict[str, str], gateway_sandbox: Sandbox
) -> None:
    """No probe sends a request, and liveness never looks."""
    app = web_service.app
    monkeypatch.setenv("GATEWAY_BASE_URL", "http://127.0.0.1:1")
    async with app.router.lifespan_context(app), client() as caller:
        away = await probe(caller)
        reason = (await caller.get("/readyz")).json()
    monkeypatch.setenv("GATEWAY_BASE_URL", gateway_env["GATEWAY_BASE_URL"])
    async with app.router.lifespan_context(app), client() as caller:
        there = await probe(caller)
        there_gateway, app.state.gateway = app.state.gateway, None  # nobody asks it again
        later = await probe(caller)
        app.state.gateway = there_gateway

    assert (away, there, later) == ([200, 503], [200, 200], [200, 200])
    assert reason.startswith("repeat: connect: no connection to 127.0.0.1:1: connection refused")
    assert not gateway_sandbox.received
