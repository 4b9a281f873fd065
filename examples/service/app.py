"""A service that brings customers to the gateway, and its tests beside it.

It needs `pip install fastapi uvicorn`. Run it in the root of the project, against the sandbox
(`gateway sandbox` prints the variables to set):

    uvicorn --factory examples.service.app:from_environment --port 8000
    curl -H 'tenant: demo' localhost:8000/customers/c-1 -X PUT

The tests need no running gateway: `pytest examples/service`.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Request, Response

from gateway_sdk import Advice, GatewayError, GatewaySession, NotFoundError

ACCEPTED, NOT_FOUND, CONFLICT, UNAVAILABLE = 202, 404, 409, 503

router = APIRouter()


def make_app(session: GatewaySession) -> FastAPI:
    """Return the service on a session; it opens and closes the session."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        async with session:
            yield

    app = FastAPI(lifespan=lifespan)
    app.state.gateway = session
    app.state.to_check = []
    app.include_router(router)
    return app


def from_environment() -> FastAPI:
    """Return the service for the gateway of the environment variables."""
    return make_app(GatewaySession.from_env())


def tenants_gateway(request: Request, tenant: Annotated[str, Header()]) -> GatewaySession:
    """Return a view for the tenant of the caller."""
    session: GatewaySession = request.app.state.gateway
    return session.with_options(tenant_id=tenant, deadline=10)


Gateway = Annotated[GatewaySession, Depends(tenants_gateway)]


@router.put("/customers/{reference}")
async def create_customer(
    request: Request, response: Response, reference: str, gateway: Gateway
) -> dict[str, str]:
    """Create a customer, once. If this may have happened already, a person has to check it."""
    try:
        created = await gateway.customer.create_customer({"externalCustomerId": reference})
    except GatewayError as error:
        if error.advice is not Advice.CHECK:
            status = CONFLICT if error.advice is Advice.FIX else UNAVAILABLE
            raise HTTPException(status) from error
        request.app.state.to_check.append(reference)
        response.status_code = ACCEPTED
        return {"state": "to be checked"}
    return {"state": "created", "customerId": created["customerId"]}


@router.get("/to-check")
async def to_check(request: Request) -> list[str]:
    """Return the customers that a person has to check, oldest first."""
    found: list[str] = request.app.state.to_check
    return found


@router.delete("/wallets/{wallet_id}/orders/{order_id}")
async def cancel_order(wallet_id: str, order_id: str, gateway: Gateway) -> dict[str, str]:
    """Cancel an order; to cancel it again does no harm."""
    try:
        await gateway.wallet.cancel_order(wallet_id, order_id)
    except NotFoundError as error:
        raise HTTPException(NOT_FOUND) from error
    return {"state": "cancelled"}
