"""The sandbox as its users hold it: one gateway, or one server with a sandbox for each test."""

import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, MutableSequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx
from anyio.from_thread import start_blocking_portal
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway_sdk.sandbox._app import SandboxState, build_app
from gateway_sdk.sandbox._authorization import RedirectUris, TokenRegistry
from gateway_sdk.sandbox._faults import Faults, InProcessTransport
from gateway_sdk.sandbox._interface import check_operation
from gateway_sdk.sandbox._operations import Tenant, seeded_tenant
from gateway_sdk.sandbox._received import ReceivedCall, UnknownRequest, matching, summary

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
        keep_bodies: Keep the body of every call in memory, for `assert_received`.

    Raises:
        ValueError: if a redirect URI is not absolute, or has userinfo or a fragment.
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
        tenants: defaultdict[str, Tenant] = defaultdict(partial(seeded_tenant, seed))
        self._state = SandboxState(TokenRegistry(clock), tenants, faults or Faults(), keep_bodies)
        self._allowed: set[str] = set()
        self.app: Starlette = build_app(self._state, RedirectUris(redirect_uris))
        self.issue(access_token)

    @property
    def faults(self) -> Faults:
        """How it misbehaves."""
        return self._state.faults

    @property
    def received(self) -> MutableSequence[ReceivedCall]:
        """The last 10 000 calls, oldest first, including those that are still being served."""
        return self._state.calls

    @property
    def unknown_requests(self) -> MutableSequence[UnknownRequest]:
        """The last 10 000 requests that are no operation of the interface, oldest first."""
        return self._state.unknown

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
        if times != 0:
            self.allow(operation)
        return matching(
            self._state.calls,
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
        return _serve(self.app, host, port, log)

    def serve_in_thread(
        self, host: str = "127.0.0.1", port: int = 0
    ) -> AbstractContextManager[str]:
        """Serve as `serve` does, in another thread with its own event loop.

        For tests that run no event loop, or several.
        """
        return _serve_in_thread(self.app, host, port)


def _serve(
    app: ASGIApp, host: str, port: int, log: Callable[[str], object] | None = None
) -> AbstractAsyncContextManager[str]:
    # Imported here: a sandbox that is used in process does not load uvicorn.
    from gateway_sdk.sandbox._server import logged, serve  # noqa: PLC0415

    return serve(logged(app, log) if log else app, host, port)


@contextmanager
def _serve_in_thread(app: ASGIApp, host: str, port: int) -> Generator[str]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(_serve(app, host, port)) as base_url,
    ):
        yield base_url


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

    def __init__(self, base_url: str, router: "TenantRouter") -> None:
        self.base_url = base_url
        self.access_token = SANDBOX_ACCESS_TOKEN
        self.sandbox: Sandbox = router.default
        self._router = router
        self._number = 0

    @classmethod
    @contextmanager
    def start(cls, host: str = "127.0.0.1", port: int = 0) -> Generator["SandboxServer"]:
        """Serve as `Sandbox.serve_in_thread` does."""
        router = TenantRouter()
        with _serve_in_thread(router, host, port) as base_url:
            yield cls(base_url, router)

    def tenant(
        self, *, seed: int = 0, faults: Faults | None = None, keep_bodies: bool = False
    ) -> SandboxTenant:
        """Add a tenant; the arguments are those of its `Sandbox`."""
        self._number += 1
        name, token = f"tenant-{self._number}", f"{self.access_token}-{self._number}"
        sandbox = Sandbox(token, faults, seed, keep_bodies=keep_bodies)
        sandbox.issue(self.access_token)
        self._router.sandboxes |= {name: sandbox, token: sandbox}
        return SandboxTenant(sandbox, self.base_url, name, token)

    def remove(self, tenant: SandboxTenant) -> None:
        """Forget a tenant and its data; its requests belong to *sandbox* then."""
        for name in (tenant.tenant_id, tenant.access_token):
            self._router.sandboxes.pop(name, None)


class TenantRouter:
    """The ASGI app of a `SandboxServer`; *sandboxes* by tenant id and by access token."""

    def __init__(self) -> None:
        self.default: Sandbox = Sandbox()
        self.sandboxes: dict[str, Sandbox] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        tenant = headers.get("tenantId", "").strip()
        token = headers.get("Authorization", "").partition(" ")[2].strip()
        sandbox = self.sandboxes.get(tenant) or self.sandboxes.get(token) or self.default
        await sandbox.app(scope, receive, send)
