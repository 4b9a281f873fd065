"""The sandbox as its users hold it."""

import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, MutableSequence
from contextlib import asynccontextmanager
from functools import partial

import httpx

from gateway_sdk.sandbox.app import build_app
from gateway_sdk.sandbox.authorization.client import RedirectUris
from gateway_sdk.sandbox.connection import InProcessTransport
from gateway_sdk.sandbox.endpoint import Received, State
from gateway_sdk.sandbox.schedule import Faults
from gateway_sdk.sandbox.seeds import seeded_tenant
from gateway_sdk.sandbox.store import Tenant
from gateway_sdk.sandbox.tokens import TokenRegistry

# No secret: it opens nothing but a sandbox.
SANDBOX_ACCESS_TOKEN = "sandbox-access-token"  # noqa: S105


class Sandbox:
    """A gateway in memory, on real rates and countries, which forgets all when it goes.

    Args:
        access_token: A bearer token that is valid from the start.
        faults: How it misbehaves; more can be added at any time through the attribute.
        seed: Repeats the same customers, orders and balances, which every tenant starts with.
        redirect_uris: Where its authorization server may send answers, besides to any http address
            of 127.0.0.1, [::1] and localhost.
        clock: Gives the seconds by which access tokens expire.

    Raises:
        ValueError: For a redirect URI that is not absolute, or has userinfo or a fragment.
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
        self._state = State(TokenRegistry(clock), tenants, faults or Faults())
        self.app = build_app(self._state, RedirectUris(redirect_uris))
        self.issue(access_token)

    @property
    def faults(self) -> Faults:
        """How it misbehaves."""
        return self._state.faults

    @property
    def received(self) -> MutableSequence[Received]:
        """The last 10 000 calls in the order they came in, those still being served included."""
        return self._state.received

    def issue(self, access_token: str, lifetime: float | None = None) -> None:
        """Accept this bearer token from now on, for so many seconds; None is without end."""
        self._state.tokens.issue(access_token, lifetime)

    def revoke(self, access_token: str) -> None:
        """Refuse this bearer token from now on, whether or not it was issued."""
        self._state.tokens.revoke(access_token)

    def revoke_all(self) -> None:
        """Refuse from now on every bearer token that was issued until now, by a login or here."""
        self._state.tokens.revoke_all()

    def transport(self) -> httpx.ASGITransport:
        """Make a transport that calls the app directly, without a socket."""
        return InProcessTransport(self.app)

    @asynccontextmanager
    async def serve(self, host: str = "127.0.0.1", port: int = 0) -> AsyncGenerator[str]:
        """Serve on a socket in the running loop and give the base URL; port 0 takes a free one.

        Raises:
            OSError: If the address cannot be had, for instance because its port is taken.
        """
        # Imported here so that a sandbox used in process does not load uvicorn.
        from gateway_sdk.sandbox import server  # noqa: PLC0415

        async with server.serve(self.app, host, port) as base_url:
            yield base_url

    async def run(self, host: str, port: int, on_ready: Callable[[str], object]) -> None:
        """Serve until SIGINT or SIGTERM and then return; for the main thread only.

        *on_ready* is called with the base URL as soon as connections are accepted.

        Raises:
            OSError: If the address cannot be had, for instance because its port is taken.
        """
        from gateway_sdk.sandbox import server  # noqa: PLC0415 - as in serve

        with server.stop_signals() as stop:
            async with self.serve(host, port) as base_url:
                on_ready(base_url)
                await stop.wait()
