"""The sandbox as its users hold it: one gateway, or one server with a sandbox for each test."""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

import httpx
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway_sdk.sandbox import _operations
from gateway_sdk.sandbox._authorization import AUTHORIZE_PATH, AuthorizationEndpoint, Tokens
from gateway_sdk.sandbox._faults import Faults, InProcessTransport, with_fault
from gateway_sdk.sandbox._operations import OPERATIONS, OperationRoute, check_operation, error_reply
from gateway_sdk.sandbox._received import Log, ReceivedCall, UnknownRequest, matching, summary

# Not a secret: only a sandbox accepts it.
SANDBOX_ACCESS_TOKEN = "sandbox-access-token"  # noqa: S105
DEFAULT_TENANT = "default"

_logger = logging.getLogger("gateway_sdk.sandbox")


class _ExactRoute(Route):
    """Takes its one method, without HEAD, and the path as it was sent: "%2F" ends no segment."""

    __repr__ = object.__repr__  # Starlette's fails before __init__ has run

    def __init__(self, operation: OperationRoute, app: ASGIApp) -> None:
        super().__init__(operation.path, app)
        self.app = app
        self.methods = {operation.method}  # Starlette would add HEAD to GET

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        raw_path = scope.get("raw_path") or quote(scope["path"]).encode()  # ASGI: it is optional
        match, found = super().matches({**scope, "path": raw_path.decode("latin-1")})
        sent = found.get("path_params", {})
        return match, {**found, "path_params": {name: unquote(sent[name]) for name in sent}}


class Sandbox:
    """A gateway in memory, with real rates and countries; nothing is stored.

    Args:
        access_token: A bearer token that is valid from the start.
        faults: How it misbehaves; more can be added at any time through the attribute.
        seed: The same seed gives every tenant the same customers, orders and balances.
        redirect_uris: Redirect URIs that its authorization server allows, in addition to any http
            address of 127.0.0.1, [::1] and localhost.
        clock: Returns seconds; access tokens expire by it.
        keep_bodies: Keep the body of every call in memory, for `assert_received`.

    Attributes:
        received: The last 10 000 calls, oldest first, including those that are being served.
        unknown_requests: The last 10 000 requests that are no operation of the interface.

    Raises:
        ValueError: if a redirect URI is not absolute, or has a fragment.
    """

    def __init__(
        self,
        access_token: str = SANDBOX_ACCESS_TOKEN,
        faults: Faults | None = None,
        seed: int = 0,
        redirect_uris: Iterable[str] = (),
        clock: Callable[[], float] = time.time,
        *,
        keep_bodies: bool = False,
    ) -> None:
        if not isinstance(faults, Faults | None):
            raise TypeError("faults must be a Faults, such as Faults().anywhere(Fault.cut_body())")
        self.faults = faults or Faults()
        self.received: list[ReceivedCall] = Log()
        self.unknown_requests: list[UnknownRequest] = Log()
        self._keep_bodies = keep_bodies
        self._allowed: set[str] = set()
        self._tokens = Tokens(clock)
        self._tokens.issue(access_token)
        self._tenants = defaultdict[str, _operations.Tenant](
            partial(_operations.seeded_tenant, seed)
        )
        login = AuthorizationEndpoint(self._tokens, redirect_uris)
        self.app: Starlette = Starlette(
            routes=[
                *(_ExactRoute(each, partial(self._serve_call, each)) for each in OPERATIONS),
                Route(AUTHORIZE_PATH, login.respond, methods=["GET", "POST"]),
            ],
            exception_handlers={HTTPException: self._refuse},
        )
        # A path with an extra slash is 404 and not a redirect: that would pass credentials on.
        self.app.router.redirect_slashes = False

    def assert_received(
        self,
        operation: str,
        *,
        times: int | None = None,
        applied: bool | None = None,
        status: int | None = None,
        tenant: str | None = None,
        parameters: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        body: bytes | None = None,
    ) -> list[ReceivedCall]:
        """Assert that calls of an operation were received, and return them, oldest first.

        What is None, or not given, is not compared. A message of a failure shows names and counts,
        no values of a request.

        Args:
            operation: The name of the operation, such as "create_customer".
            times: How many calls, 0 or more; by default one or more.
            applied: Whether they succeeded, even if the client never received the reply.
            status: The status that was sent.
            tenant: The header tenantId.
            parameters: Values of placeholders in the path, such as {"orderId": "order-0056"}.
            headers: Headers that they have among others; names in upper or lower case.
            json: The body as JSON; this and *body* need `keep_bodies=True`.
            body: The bytes of the body.

        Raises:
            AssertionError: it was another number of calls.
            ValueError: the operation is unknown, bodies are not kept, or more than 10 000 calls
                were received.
        """
        __tracebackhide__ = True
        check_operation(operation)
        if times != 0:
            self._allowed.add(operation)
        return matching(
            self.received,
            operation,
            times,
            applied=applied,
            status=status,
            tenant=tenant,
            parameters=parameters,
            headers=headers,
            json=json,
            body=body,
        )

    def allow(self, *operations: str) -> None:
        """Let `assert_as_expected` accept calls of these operations.

        Raises:
            ValueError: an operation is unknown.
        """
        for operation in operations:
            check_operation(operation)
        self._allowed.update(operations)

    def assert_as_expected(self) -> None:
        """Assert that only allowed operations were called, and that every fault happened.

        Allowed are the operations given to `allow` and `assert_received`, and those with a fault of
        their own. A fault with a probability below 1 need not happen.

        Raises:
            AssertionError: an operation was not allowed, a request was none of the interface's
                operations, or a fault never happened; the message names all of them.
        """
        __tracebackhide__ = True
        called = {call.operation for call in self.received}
        wrong = [
            *(
                f"{name} was received and is not allowed here"
                for name in sorted(called - self._allowed - self.faults.operations)
            ),
            *(f"{each.method} of a path that is no operation" for each in self.unknown_requests),
            *(f"this fault never happened: {fault}" for fault in self.faults.unfired()),
        ]
        if wrong:
            raise AssertionError("\n".join([*wrong, summary(self.received)]))

    def issue(self, access_token: str, lifetime: float | None = None) -> None:
        """Accept this bearer token from now on, for *lifetime* seconds; None means without end."""
        self._tokens.issue(access_token, lifetime)

    def revoke(self, access_token: str) -> None:
        """Refuse this bearer token from now on; it need not have been issued."""
        self._tokens.revoke(access_token)

    def revoke_all(self) -> None:
        """Refuse from now on all bearer tokens issued so far, by logins and by `issue`."""
        self._tokens.revoke_all()

    def transport(self) -> httpx.ASGITransport:
        """Return a transport that calls the app directly, without a socket."""
        return InProcessTransport(self.app)

    def serve(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        log: Callable[[str], object] | None = None,
    ) -> AbstractAsyncContextManager[str]:
        """Serve on a socket in the running loop and yield the base URL; port 0 takes a free one.

        *log* is called with a line for each request: method, path with the values in it, status and
        duration.

        Raises:
            OSError: if the address cannot be bound, for instance because its port is in use.
        """
        # Imported here: a sandbox that is used in process does not load uvicorn.
        from gateway_sdk.sandbox._server import serve  # noqa: PLC0415

        return serve(self.app, host, port, log)

    def serve_in_thread(
        self, host: str = "127.0.0.1", port: int = 0
    ) -> AbstractContextManager[str]:
        """Serve as `serve` does, in another thread with its own event loop.

        For tests that run no event loop, or several.
        """
        from gateway_sdk.sandbox._server import serve_in_thread  # noqa: PLC0415

        return serve_in_thread(self.app, host, port)

    async def _serve_call(
        self, operation: OperationRoute, scope: Scope, receive: Receive, send: Send
    ) -> None:
        request = Request(scope)
        call = ReceivedCall(
            *operation,
            tenant=request.headers.get("tenantId"),
            parameters=request.path_params,
            raw_headers=request.headers.raw,
            pieces=[] if self._keep_bodies else None,
        )
        self.received.append(call)

        async def receive_and_keep() -> Message:
            message = await receive()
            if call.pieces is not None:
                call.pieces.append(message.get("body", b""))
            return message

        async def send_and_note(message: Message) -> None:
            call.status = message.get("status", call.status)
            await send(message)

        app: ASGIApp = partial(self._answer, call)
        # The fault added first is the outermost.
        for fault in reversed(self.faults.due(operation.name)):
            app = with_fault(app, fault, self.faults.sleep)
        await app(scope, receive_and_keep, send_and_note)

    async def _answer(self, call: ReceivedCall, scope: Scope, receive: Receive, send: Send) -> None:
        of_sender: list[Exception] = []

        async def received() -> Message:
            try:
                return await receive()
            except Exception as error:  # in memory, where a document is read here
                of_sender.append(error)
                raise

        request = Request(scope, received)
        try:
            self._tokens.check_bearer(request)
            tenant = self._tenants[request.headers.get("tenantId", "").strip() or DEFAULT_TENANT]
            response: Response = await getattr(_operations, call.operation)(request, tenant)
        except ClientDisconnect:
            return  # nothing was applied
        except HTTPException as error:
            response = error_reply(scope, error.status_code, error.detail, error.headers)
        except Exception as error:
            if error in of_sender:
                raise
            _logger.exception("%s failed", call.operation)
            response = error_reply(scope, 500, "the sandbox failed; its log says why")
        call.applied = response.status_code < 400  # noqa: PLR2004 - errors start there
        await response(scope, receive, send)

    async def _refuse(self, request: Request, error: Exception) -> Response:
        """Reply to a request whose path or method is not of the interface."""
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class only
        self.unknown_requests.append(UnknownRequest(request.method, request.url.path))
        return error_reply(request.scope, error.status_code, error.detail, error.headers)


@dataclass(frozen=True)
class SandboxTenant:
    """A tenant of a `SandboxServer`; it shares the address with the other tenants, and no state.

    Attributes:
        sandbox: Its own sandbox: data, faults, received calls.
        base_url: The address of the server.
        tenant_id: Its header tenantId.
        access_token: Its own token; the token of the server is valid too.
    """

    sandbox: Sandbox
    base_url: str
    tenant_id: str
    access_token: str = field(repr=False)


class SandboxServer:
    """Serves each request by the sandbox of its tenant.

    A request belongs to the tenant of its header tenantId, or else to that of its access token:
    rates, webhooks and countries have no tenantId. Any other request belongs to *sandbox*.

    Attributes:
        base_url: Its address.
        access_token: A token that is valid for all tenants: for a service that calls for all.
        sandbox: Serves the requests that belong to no tenant.
    """

    def __init__(self) -> None:
        self.base_url = ""
        self.access_token = SANDBOX_ACCESS_TOKEN
        self.sandbox = Sandbox()
        self._sandboxes: dict[str, Sandbox] = {}  # by tenant id, and by access token
        self._number = 0

    @classmethod
    @contextmanager
    def start(cls, host: str = "127.0.0.1", port: int = 0) -> Generator["SandboxServer"]:
        """Serve as `Sandbox.serve_in_thread` does."""
        from gateway_sdk.sandbox._server import serve_in_thread  # noqa: PLC0415

        server = cls()
        with serve_in_thread(server._serve_tenant, host, port) as server.base_url:
            yield server

    def tenant(
        self, *, seed: int = 0, faults: Faults | None = None, keep_bodies: bool = False
    ) -> SandboxTenant:
        """Add a tenant; the arguments are those of its `Sandbox`."""
        self._number += 1
        name, token = f"tenant-{self._number}", f"{self.access_token}-{self._number}"
        sandbox = Sandbox(token, faults, seed, keep_bodies=keep_bodies)
        sandbox.issue(self.access_token)
        self._sandboxes |= {name: sandbox, token: sandbox}
        return SandboxTenant(sandbox, self.base_url, name, token)

    def remove(self, tenant: SandboxTenant) -> None:
        """Forget a tenant and its data; its requests belong to *sandbox* then."""
        for name in (tenant.tenant_id, tenant.access_token):
            self._sandboxes.pop(name, None)

    async def _serve_tenant(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        tenant = headers.get("tenantId", "").strip()
        token = headers.get("Authorization", "").partition(" ")[2].strip()
        sandbox = self._sandboxes.get(tenant) or self._sandboxes.get(token) or self.sandbox
        await sandbox.app(scope, receive, send)
