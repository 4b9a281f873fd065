"""The sandbox as its users hold it, and its ASGI app: one route per operation."""

import logging
import time
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, MutableSequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import httpx
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway_sdk.sandbox import _handlers as handlers
from gateway_sdk.sandbox._authorization import AuthorizationEndpoint, RedirectUris
from gateway_sdk.sandbox._faults import Fault, Faults, FaultyCall
from gateway_sdk.sandbox._http import InProcessTransport, error_reply, http_exception_reply
from gateway_sdk.sandbox._interface import OPERATIONS, OperationRoute
from gateway_sdk.sandbox._store import Tenant, TokenRegistry, seeded_tenant

DEFAULT_TENANT = "default"
MAX_RECEIVED = 10_000

Handler = Callable[[Request, Tenant], Awaitable[Response]]

_logger = logging.getLogger("gateway_sdk.sandbox")


@dataclass
class ReceivedCall:
    """A call that the sandbox received; it holds no personal data.

    Attributes:
        path: The interface's template, such as "/wallet/1.0.0/orders", without the caller's values.
        status: The status that was sent; None if no reply was sent (yet).
        applied: The operation succeeded, even if the client never received the reply.
    """

    operation: str
    method: str
    path: str
    status: int | None = None
    applied: bool = False


@dataclass
class SandboxState:
    """What all endpoints share; *tenants* creates a missing one, *received* is oldest first."""

    tokens: TokenRegistry
    tenants: dict[str, Tenant]
    faults: Faults
    received: MutableSequence[ReceivedCall] = field(
        default_factory=lambda: deque[ReceivedCall](maxlen=MAX_RECEIVED)
    )


class Endpoint:
    """The ASGI app of one operation."""

    def __init__(self, operation: OperationRoute, handler: Handler, state: SandboxState) -> None:
        self._operation = operation
        self._handler = handler
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one call with its faults; the fault added first is the outermost."""
        call = ReceivedCall(*self._operation)
        self._state.received.append(call)
        app: ASGIApp = partial(self._answer, call)
        for fault in reversed(self._state.faults.due(self._operation.name)):
            app = self._with_fault(app, fault)
        await app(scope, receive, _recording_status(call, send))

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
    app = Starlette(
        routes=[*gateway_routes(state), authorization.route()],
        exception_handlers={HTTPException: http_exception_reply},
    )
    # A path with an extra slash is 404 and not a redirect: a redirect would pass credentials on.
    app.router.redirect_slashes = False
    return app


def gateway_routes(state: SandboxState) -> list[Route]:
    """Return the route of each operation, in the interface's order."""
    return [
        Route(
            operation.path,
            Endpoint(operation, HANDLERS[operation.name], state),
            methods=[operation.method],
        )
        for operation in OPERATIONS
    ]


# Not a secret: only a sandbox accepts it.
SANDBOX_ACCESS_TOKEN = "sandbox-access-token"  # noqa: S105


class Sandbox:
    """A gateway in memory, with real rates and countries; nothing is stored.

    Args:
        access_token: A bearer token that is valid from the start.
        faults: How it misbehaves; more can be added at any time through the attribute.
        seed: The same seed gives every tenant the same customers, orders and balances.
        redirect_uris: Redirect URIs that its authorization server allows, in addition to any http
            address of 127.0.0.1, [::1] and localhost.
        clock: Returns seconds; access tokens expire by it.

    Raises:
        ValueError: If a redirect URI is not absolute, or has userinfo or a fragment.
    """

    def __init__(
        self,
        access_token: str = SANDBOX_ACCESS_TOKEN,
        faults: Faults | None = None,
        seed: int = 0,
        redirect_uris: Iterable[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        tenants: defaultdict[str, Tenant] = defaultdict(partial(seeded_tenant, seed))
        self._state = SandboxState(TokenRegistry(clock), tenants, faults or Faults())
        self.app = build_app(self._state, RedirectUris(redirect_uris))
        self.issue(access_token)

    @property
    def faults(self) -> Faults:
        """How it misbehaves."""
        return self._state.faults

    @property
    def received(self) -> MutableSequence[ReceivedCall]:
        """The last 10 000 calls, oldest first, including those that are still being served."""
        return self._state.received

    def issue(self, access_token: str, lifetime: float | None = None) -> None:
        """Accept this bearer token from now on, for *lifetime* seconds; None means without end."""
        self._state.tokens.issue(access_token, lifetime)

    def revoke(self, access_token: str) -> None:
        """Refuse this bearer token from now on; it need not have been issued."""
        self._state.tokens.revoke(access_token)

    def revoke_all(self) -> None:
        """Refuse from now on all bearer tokens issued so far, by logins and by `issue`."""
        self._state.tokens.revoke_all()

    def transport(self) -> httpx.ASGITransport:
        """Return a transport that calls the app directly, without a socket."""
        return InProcessTransport(self.app)

    @asynccontextmanager
    async def serve(self, host: str = "127.0.0.1", port: int = 0) -> AsyncGenerator[str]:
        """Serve on a socket in the running loop and yield the base URL; port 0 takes a free one.

        Raises:
            OSError: If the address cannot be bound, for instance because its port is in use.
        """
        # Imported here: a sandbox that is used in process does not load uvicorn.
        from gateway_sdk.sandbox import _server as server  # noqa: PLC0415

        async with server.serve(self.app, host, port) as base_url:
            yield base_url

    async def run(self, host: str, port: int, on_ready: Callable[[str], object]) -> None:
        """Serve until SIGINT or SIGTERM and then return; for the main thread only.

        *on_ready* is called with the base URL as soon as connections are accepted.

        Raises:
            OSError: If the address cannot be bound, for instance because its port is in use.
        """
        from gateway_sdk.sandbox import _server as server  # noqa: PLC0415 - as in serve

        with server.stop_signals() as stop:
            async with self.serve(host, port) as base_url:
                on_ready(base_url)
                await stop.wait()
