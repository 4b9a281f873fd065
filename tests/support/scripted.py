"""A session whose engine does what a script says, attempt by attempt, without a network."""

from collections.abc import Callable, Iterable
from typing import Any

import httpx
import pytest

from gateway_sdk import GatewaySession, RetryPolicy
from gateway_sdk._transport import gateway_transport
from gateway_sdk._transport.through_httpx import CustomTransport
from gateway_sdk._transport.transmission import EXTENSION

Step = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


def status(code: int, **headers: str) -> Step:
    return lambda _: httpx.Response(code, json={}, headers=headers)


class ScriptedEngine(httpx.AsyncBaseTransport):
    """Takes one step per request; the last one is repeated."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.steps = list(steps)
        self.requests: list[httpx.Request] = []
        self.bodies: list[bytes] = []
        self.closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if not isinstance(step, httpx.ConnectError | httpx.PoolTimeout | httpx.ProxyError):
            request.extensions[EXTENSION].sent = True
            self.bodies.append(b"".join([piece async for piece in request.stream]))  # type: ignore[union-attr]
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, httpx.Response) else step(request)

    async def aclose(self) -> None:
        self.closed = True


def scripted(
    monkeypatch: pytest.MonkeyPatch, *steps: Step, **options: Any
) -> tuple[GatewaySession, ScriptedEngine, list[float]]:
    """Make a session on a scripted engine; it waits without waiting, and notes how long."""
    engine = ScriptedEngine(steps)
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(
        gateway_transport, "make_transport", lambda *_: CustomTransport(engine, None)
    )
    # Attempts that are not sent are counted here: `connect_wait` has its own tests.
    retry = RetryPolicy(connect_wait=0.0)
    given = {"access_token": "token-1", "tenant_id": "acme", "retry": retry, "sleep": sleep}
    return GatewaySession("https://gateway.test", **{**given, **options}), engine, waits
