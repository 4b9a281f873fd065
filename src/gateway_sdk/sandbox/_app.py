"""The ASGI app: one route per operation, and the steps of serving a call."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import quote, unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway_sdk.sandbox import _operations as operations
from gateway_sdk.sandbox._authorization import AuthorizationEndpoint, RedirectUris, TokenRegistry
from gateway_sdk.sandbox._faults import Fault, Faults, FaultyCall
from gateway_sdk.sandbox._http import error_reply
from gateway_sdk.sandbox._interface import OPERATIONS, OperationRoute
from gateway_sdk.sandbox._received import Log, ReceivedCall, UnknownRequest

DEFAULT_TENANT = "default"

_logger = logging.getLogger("gateway_sdk.sandbox")


@dataclass
class SandboxState:
    tokens: TokenRegistry
    tenants: dict[str, operations.Tenant]
    faults: Faults
    keep_bodies: bool = False
    calls: Log[ReceivedCall] = field(default_factory=Log[ReceivedCall])
    unknown: Log[UnknownRequest] = field(default_factory=Log[UnknownRequest])


class Endpoint:
    def __init__(self, operation: OperationRoute, state: SandboxState) -> None:
        self._operation = operation
        self._handler: Callable[[Request, operations.Tenant], Awaitable[Response]] = getattr(
            operations, operation.name
        )
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        call = ReceivedCall(
            *self._operation,
            tenant=request.headers.get("tenantId"),
            parameters=request.path_params,
            raw_headers=request.headers.raw,
        )
        self._state.calls.append(call)
        if self._state.keep_bodies:
            receive = _keeping_body(call, receive)
        app: ASGIApp = partial(self._answer, call)
        # The fault added first is the outermost.
        for fault in reversed(self._state.faults.due(self._operation.name)):
            app = self._with_fault(app, fault)
        await app(scope, receive, _recording_status(call, send))

    def _with_fault(self, app: ASGIApp, fault: Fault) -> ASGIApp:
        async def faulty_app(scope: Scope, receive: Receive, send: Send) -> None:
            await fault.apply(FaultyCall(app, scope, receive, send, self._state.faults.sleep))

        return faulty_app

    async def _answer(self, call: ReceivedCall, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            self._check_bearer(request)
            name = request.headers.get("tenantId", "").strip() or DEFAULT_TENANT
            response = await self._handler(request, self._state.tenants[name])
        except ClientDisconnect:
            return  # nothing was applied
        except HTTPException as error:
            response = error_reply(scope, error.status_code, error.detail, error.headers)
        except Exception:
            _logger.exception("%s failed", self._operation.name)
            response = error_reply(scope, 500, "the sandbox failed; its log says why")
        call.applied = response.status_code < 400  # noqa: PLR2004 - errors start there
        await response(scope, receive, send)

    def _check_bearer(self, request: Request) -> None:
        # Interface: Authentication 1. The challenges are those of RFC 6750, section 3.
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            challenge = {"WWW-Authenticate": "Bearer"}
            raise HTTPException(401, "the header Authorization: Bearer is required", challenge)
        problem = self._state.tokens.check(token.strip())
        if problem is not None:
            error = f'error="invalid_token", error_description="The access token {problem}"'
            challenge = {"WWW-Authenticate": f"Bearer {error}"}
            raise HTTPException(401, f"the access token {problem}", challenge)


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


class _ExactRoute(Route):
    """Takes its one method, without HEAD, and the path as it was sent: "%2F" ends no segment."""

    __repr__ = object.__repr__  # Starlette's fails before __init__ has run

    def __init__(self, operation: OperationRoute, state: SandboxState) -> None:
        super().__init__(operation.path, Endpoint(operation, state))
        self.methods = {operation.method}  # Starlette would add HEAD to GET

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        raw_path = scope.get("raw_path") or quote(scope["path"]).encode()  # ASGI: it is optional
        match, found = super().matches({**scope, "path": raw_path.decode("latin-1")})
        sent = found.get("path_params", {})
        return match, {**found, "path_params": {name: unquote(sent[name]) for name in sent}}


def build_app(state: SandboxState, redirect_uris: RedirectUris) -> Starlette:
    """Build the app; only the operations check the bearer token."""

    async def refuse(request: Request, error: Exception) -> Response:
        """Reply to a request whose path or method is not of the interface."""
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class only
        state.unknown.append(UnknownRequest(request.method, request.url.path))
        return error_reply(request.scope, error.status_code, error.detail, error.headers)

    routes = [
        *(_ExactRoute(operation, state) for operation in OPERATIONS),
        AuthorizationEndpoint(state.tokens, redirect_uris).route(),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: refuse})
    # A path with an extra slash is 404 and not a redirect: a redirect would pass credentials on.
    app.router.redirect_slashes = False
    return app
