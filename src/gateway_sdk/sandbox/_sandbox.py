"""The sandbox as its users hold it."""

import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, MutableSequence
from contextlib import asynccontextmanager
from functools import partial

import httpx

from gateway_sdk.sandbox._access_tokens import TokenRegistry
from gateway_sdk.sandbox._app import ReceivedCall, SandboxState, build_app
from gateway_sdk.sandbox._authorization_request import RedirectUris
from gateway_sdk.sandbox._faults import Faults
from gateway_sdk.sandbox._http import InProcessTransport
from gateway_sdk.sandbox._tenants import Tenant, seeded_tenant

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
