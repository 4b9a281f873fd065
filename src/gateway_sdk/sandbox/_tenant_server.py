"""One server for many tests: each test has a tenant with its own sandbox, at one address."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from gateway_sdk.sandbox._faults import Faults
from gateway_sdk.sandbox._sandbox import SANDBOX_ACCESS_TOKEN, Sandbox


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
        self.sandbox = router.default
        self._router = router
        self._number = 0

    @classmethod
    @contextmanager
    def start(cls, host: str = "127.0.0.1", port: int = 0) -> Generator["SandboxServer"]:
        """Serve in another thread with its own event loop; port 0 takes a free port.

        Raises:
            OSError: If the address cannot be bound, for instance because its port is in use.
        """
        # Imported here: a sandbox that is used in process does not load uvicorn.
        from gateway_sdk.sandbox import _server as server  # noqa: PLC0415

        router = TenantRouter()
        with server.serve_in_thread(router, host, port) as base_url:
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
        self.default = Sandbox()
        self.sandboxes: dict[str, Sandbox] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the sandbox of the request serve it."""
        headers = Headers(scope=scope)
        tenant = headers.get("tenantId", "").strip()
        token = headers.get("Authorization", "").partition(" ")[2].strip()
        sandbox = self.sandboxes.get(tenant) or self.sandboxes.get(token) or self.default
        await sandbox.app(scope, receive, send)
