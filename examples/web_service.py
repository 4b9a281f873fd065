"""A web service that awaits the gateway: one session for all requests, closed with the service.

Run it against the sandbox (`gateway sandbox` prints the variables to set):

    fastapi run examples/web_service.py
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, Request
from fastapi.responses import JSONResponse

from gateway_sdk import GatewayError, GatewaySession, Outcome


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open one session for the life of the service: it holds the connections."""
    async with GatewaySession.from_env() as gateway:
        app.state.gateway = gateway
        yield


app = FastAPI(lifespan=lifespan)


def tenants_gateway(request: Request, tenant: Annotated[str, Header()]) -> GatewaySession:
    """Return a view with the caller's tenant: same connections, no tenant in another's call."""
    gateway: GatewaySession = request.app.state.gateway
    return gateway.with_options(tenant_id=tenant, deadline=10)


Gateway = Annotated[GatewaySession, Depends(tenants_gateway)]


@app.delete("/wallets/{wallet_id}/orders/{order_id}")
async def cancel_order(wallet_id: str, order_id: str, gateway: Gateway) -> Any:
    """Cancel an order; a caller that hangs up cancels the call, and nothing leaks."""
    return await gateway.wallet.cancel_order(wallet_id, order_id)


@app.post("/customers")
async def create_customer(customer: dict[str, Any], gateway: Gateway) -> Any:
    """Create a customer, once."""
    return await gateway.customer.create_customer(customer)


@app.exception_handler(GatewayError)
async def say_what_happened(_: Request, error: GatewayError) -> JSONResponse:
    """Tell the caller whether anything was changed; the text holds no secret and no body."""
    status = 503 if error.retryable else 502
    if error.outcome is Outcome.UNKNOWN and not error.safe_to_repeat:
        status = 409
    return JSONResponse(
        {
            "error": str(error),
            "outcome": error.outcome.name,
            "retryable": error.retryable,
        },
        status,
    )
