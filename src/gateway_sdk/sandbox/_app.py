"""The ASGI app: one route per operation, and the steps of serving a call."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import quote, unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway_sdk.sandbox import _handlers as handlers
from gateway_sdk.sandbox._authorization import AuthorizationEndpoint, RedirectUris
from gateway_sdk.sandbox._faults import Fault, Faults, FaultyCall
from gateway_sdk.sandbox._http import error_reply, http_exception_reply
from gateway_sdk.sandbox._interface import OPERATIONS, OperationRoute
from gateway_sdk.sandbox._received import Received, ReceivedCall, UnknownRequest
from gateway_sdk.sandbox._store import Tenant, TokenRegistry

DEFAULT_TENANT = "default"

Handler = Callable[[Request, Tenant], Awaitable[Response]]

_logger = logging.getLogger("gateway_sdk.sandbox")


@dataclass
class SandboxState:
    tokens: TokenRegistry
    tenants: dict[str, Tenant]
    faults: Faults
    keep_bodies: bool = False
    received: Received = field(default_factory=Received)


class Endpoint:
    def __init__(self, operation: OperationRoute, handler: Handler, state: SandboxState) -> None:
        self._operation = operation
        self._handler = handler
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = self._received(Request(scope))
        self._state.received.calls.append(call)
        if self._state.keep_bodies:
            receive = _keeping_body(call, receive)
        app: ASGIApp = partial(self._answer, call)
        # The fault added first is the outermost.
        for fault in reversed(self._state.faults.due(self._operation.name)):
            app = self._with_fault(app, fault)
        await app(scope, receive, _recording_status(call, send))

    def _received(self, request: Request) -> ReceivedCall:
        return ReceivedCall(
            *self._operation,
            tenant=request.headers.get("tenantId"),
            parameters=request.path_params,
            raw_headers=request.headers.raw,
        )

    def _with_fault(self, app: ASGIApp, fault: Fault) -> ASGIApp:
        async def faulty_app(scope: Scope, receive: Receive, send: Send) -> None:
            await fault.apply(FaultyCall(app, scope, receive, send, self._state.faults.sleep))

        return faulty_app

    async def _answer(self, call: ReceivedCall, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._respond(Request(scope, receive))
        except ClientDisconnect:
            return  # the client has disconnected, and nothing was applied
        call.applied = response.status_code < 400  # noqa: PLR2004 - errors start there
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        try:
            self._check_bearer(request)
            return await self._handler(request, self._tenant(request))
        except HTTPException as error:
            return await http_exception_reply(request, error)
        except ClientDisconnect:
            raise
        except Exception:
            _logger.exception("%s failed", self._operation.name)
            return error_reply(request.scope, 500, "the sandbox failed; its log says why")

    def _check_bearer(self, request: Request) -> None:
        # Interface: Authentication 1. The challenges are those of RFC 6750, section 3.
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            challenge = {"WWW-Authenticate": "Bearer"}
            raise HTTPException(401, "the header Authorization: Bearer is required", challenge)
        problem = self._state.tokens.check(token.strip())
        if problem is not None:
            described = (
                f'Bearer error="invalid_token", error_description="The access token {problem}"'
            )
            challenge = {"WWW-Authenticate": described}
            raise HTTPException(401, f"the access token {problem}", challenge)

    def _tenant(self, request: Request) -> Tenant:
        name = request.headers.get("tenantId", "").strip()
        return self._state.tenants[name or DEFAULT_TENANT]


def _keeping_body(call: ReceivedCall, receive: Receive) -> Receive:
    call.pieces = pieces = list[bytes]()

    async def receive_and_keep() -> Message:
        message = await receive()
        pieces.append(message.get("body", b""))
        return message

    return receive_and_keep


def _recording_status(call: ReceivedCall, send: Send) -> Send:
    async def record_and_send(message: Message) -> None:
        call.status = message.get("status", call.status)
        await send(message)

    return record_and_send


HANDLERS: Mapping[str, Handler] = {
    "create_customer": handlers.create_customer,
    "revise_customer": handlers.revise_customer,
    "exchange_rate_series": handlers.exchange_rate_series,
    "order_history": handlers.order_history,
    "trading_order_history": handlers.trading_order_history,
    "spot_trading_available_balance": handlers.spot_trading_available_balance,
    "cancel_order": handlers.cancel_order,
    "change_document_status": handlers.change_document_status,
    "update_document": handlers.update_document,
    "upload_document": handlers.upload_document,
    "send_webhook": handlers.send_webhook,
    "list_countries": handlers.list_countries,
}


def build_app(state: SandboxState, redirect_uris: RedirectUris) -> Starlette:
    """Build the app; only the operations check the bearer token."""
    authorization = AuthorizationEndpoint(state.tokens, redirect_uris)
    routes = [*gateway_routes(state), authorization.route()]
    app = Starlette(routes=routes, exception_handlers={HTTPException: partial(_refuse, state)})
    # A path with an extra slash is 404 and not a redirect: a redirect would pass credentials on.
    app.router.redirect_slashes = False
    return app


async def _refuse(state: SandboxState, request: Request, error: Exception) -> Response:
    """Reply to a request that no route takes: its path or its method is not of the interface."""
    state.received.unknown.append(UnknownRequest(request.method, request.url.path))
    return await http_exception_reply(request, error)


class _ExactRoute(Route):
    """Takes its one method, without HEAD, and the path as it was sent: "%2F" ends no segment."""

    __repr__ = object.__repr__  # Starlette's fails before __init__ has run

    def __init__(self, operation: OperationRoute, endpoint: Endpoint) -> None:
        super().__init__(operation.path, endpoint)
        self.methods = {operation.method}  # Starlette would add HEAD to GET

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        raw_path = scope.get("raw_path") or quote(scope["path"]).encode()  # ASGI: it is optional
        match, found = super().matches({**scope, "path": raw_path.decode("latin-1")})
        sent = found.get("path_params", {})
        return match, {**found, "path_params": {name: unquote(sent[name]) for name in sent}}


def gateway_routes(state: SandboxState) -> list[Route]:
    return [
        _ExactRoute(operation, Endpoint(operation, HANDLERS[operation.name], state))
        for operation in OPERATIONS
    ]
