"""A web service that awaits the gateway: one session for all requests, closed with the service.

It needs `pip install fastapi uvicorn`. Run it in the root of the project, against the sandbox
(`gateway sandbox` prints the variables to set):

    uvicorn examples.web_service:app --port 8000
    curl -X DELETE -H 'tenant: demo' localhost:8000/wallets/wallet-0004/orders/order-0056
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, Request, Response
from fastapi.responses import JSONResponse

from gateway_sdk import (
    Advice,
    AuthError,
    ConfigurationError,
    ConflictError,
    GatewayError,
    GatewaySession,
    InvalidArgumentError,
    InvalidRequestError,
    NotFoundError,
    StatusError,
    UnauthorizedError,
)

CONFLICT, UNPROCESSABLE, BAD_GATEWAY, UNAVAILABLE = 409, 422, 502, 503


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
    """Open one session for the life of the service: it holds the connections."""
    async with GatewaySession.from_env() as gateway:
        app.state.gateway, app.state.is_ready = gateway, False
        yield


app = FastAPI(lifespan=lifespan)


def tenants_gateway(request: Request, tenant: Annotated[str, Header()]) -> GatewaySession:
    """Return a view with the caller's tenant: it shares the connections, and nothing else."""
    gateway: GatewaySession = request.app.state.gateway
    try:
        return gateway.with_options(tenant_id=tenant, deadline=10)
    except ConfigurationError as error:  # the caller's header, not our settings
        raise InvalidArgumentError(str(error)) from None


Gateway = Annotated[GatewaySession, Depends(tenants_gateway)]


@app.get("/healthz")
async def healthz() -> str:
    """Tell that the process answers; it never asks the gateway, whose outage restarts nobody."""
    return "ok"


@app.get("/readyz")
async def readyz(request: Request, response: Response) -> str:
    """Tell whether the service can begin: there is a token, and a connection; not asked later."""
    state = request.app.state
    if not state.is_ready:
        try:
            await state.gateway.with_options(deadline=2, retry=None).connect()
        except GatewayError as error:
            response.status_code = UNAVAILABLE
            return f"{error.advice}: {error}"
        state.is_ready = True
    return "ok"


@app.delete("/wallets/{wallet_id}/orders/{order_id}")
async def cancel_order(wallet_id: str, order_id: str, gateway: Gateway) -> Any:
    """Cancel an order."""
    return await gateway.wallet.cancel_order(wallet_id, order_id)


@app.post("/customers")
async def create_customer(customer: dict[str, Any], gateway: Gateway) -> Any:
    """Create a customer, once."""
    return await gateway.customer.create_customer(customer)


@app.exception_handler(GatewayError)
async def answer(_: Request, error: GatewayError) -> JSONResponse:
    """Tell the caller what happened; the text holds no secret, no body and no personal data."""
    content = {"error": str(error), "outcome": error.outcome.name, "advice": error.advice}
    wait = error.retry_after if isinstance(error, StatusError) else None
    headers = {} if wait is None else {"Retry-After": str(round(wait))}
    return JSONResponse(content, status_of(error), headers)


def status_of(error: GatewayError) -> int:
    """Return the status of our reply.

    The first rule comes first because many clients and proxies repeat a request after 502, 503
    or 504: a write that may have been done needs a status that they do not repeat.
    """
    if error.advice is Advice.CHECK:
        return CONFLICT
    for kind, status in STATUSES.items():
        if isinstance(error, kind):
            return status
    return BAD_GATEWAY if error.advice is Advice.FIX else UNAVAILABLE


STATUSES: dict[type[GatewayError], int] = {
    # What the caller sent, refused by the SDK or by the gateway.
    InvalidArgumentError: UNPROCESSABLE,
    InvalidRequestError: UNPROCESSABLE,
    NotFoundError: 404,
    ConflictError: CONFLICT,
    # Our settings. The caller can change nothing.
    ConfigurationError: 500,
    # Our access token, not the caller's: 401 would ask the caller to log in. It works again
    # after `gateway login`, without a restart.
    AuthError: UNAVAILABLE,
    UnauthorizedError: UNAVAILABLE,
}
"""A limit of the gateway (429) is one for this service, not for its caller: it is not listed here,
and becomes 503 because its advice is to repeat it."""
