"""A service that brings customers to the gateway, and its tests beside it.

It needs `pip install fastapi uvicorn`. Run it in the root of the project, against the sandbox
(`gateway sandbox` prints the variables to set):

    uvicorn --factory examples.service.app:from_environment --port 8000
    curl -H 'tenant: demo' localhost:8000/customers/c-1 -X PUT

The tests need no running gateway, but `pip install pytest pytest-asyncio`:

    pytest examples/service
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Header, Request, Response
from fastapi.responses import JSONResponse

from gateway_sdk import (
    Advice,
    ConfigurationError,
    GatewayError,
    GatewaySession,
    InvalidArgumentError,
    NotFoundError,
)

ACCEPTED, NOT_FOUND, CONFLICT, UNPROCESSABLE, UNAVAILABLE = 202, 404, 409, 422, 503

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
    app.add_exception_handler(GatewayError, answer)
    return app


def from_environment() -> FastAPI:
    """Return the service for the gateway of the environment variables."""
    return make_app(GatewaySession.from_env())


def tenants_gateway(request: Request, tenant: Annotated[str, Header()]) -> GatewaySession:
    """Return a view for the tenant of the caller."""
    session: GatewaySession = request.app.state.gateway
    try:
        return session.with_options(tenant_id=tenant, deadline=10)
    except ConfigurationError as error:  # the caller's header, not our settings
        raise InvalidArgumentError(str(error)) from None


Gateway = Annotated[GatewaySession, Depends(tenants_gateway)]


async def answer(_: Request, error: Exception) -> JSONResponse:
    """Tell the caller what is wrong; the text holds no secret and no personal data."""
    if isinstance(error, InvalidArgumentError):
        status = UNPROCESSABLE
    elif isinstance(error, NotFoundError):
        status = NOT_FOUND
    else:
        is_final = isinstance(error, GatewayError) and error.advice is Advice.FIX
        status = CONFLICT if is_final else UNAVAILABLE
    return JSONResponse({"error": str(error)}, status)


@router.put("/customers/{reference}")
async def create_customer(
    request: Request, response: Response, reference: str, gateway: Gateway
) -> dict[str, str]:
    """Create a customer, once. If this may have happened already, a person has to check it."""
    try:
        created = await gateway.customer.create_customer({"externalCustomerId": reference})
    except GatewayError as error:
        if error.advice is not Advice.CHECK:
            raise
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
    await gateway.wallet.cancel_order(wallet_id, order_id)
    return {"state": "cancelled"}
