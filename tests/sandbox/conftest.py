import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx
import pytest
from starlette.types import Message, Scope

from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Fault, Faults, Sandbox

Connect = Callable[[Sandbox], AbstractAsyncContextManager[httpx.AsyncClient]]

HEADERS = {"Authorization": f"Bearer {SANDBOX_ACCESS_TOKEN}", "tenantId": "acme"}


@asynccontextmanager
async def in_process(sandbox: Sandbox) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        transport=sandbox.transport(), base_url="http://sandbox", headers=HEADERS
    ) as client:
        yield client


@asynccontextmanager
async def on_a_socket(sandbox: Sandbox) -> AsyncGenerator[httpx.AsyncClient]:
    async with (
        sandbox.serve() as base_url,
        httpx.AsyncClient(
            base_url=base_url, headers=HEADERS, trust_env=False, timeout=60
        ) as client,
    ):
        yield client


async def run_app(sandbox: Sandbox, scope: Scope, *received: Message) -> list[Message]:
    """Let the app of a sandbox receive these messages, and return what it sends."""
    waiting, sent = iter(received), list[Message]()

    async def receive() -> Message:
        return next(waiting)

    async def send(message: Message) -> None:
        sent.append(message)

    await sandbox.app(scope, receive, send)
    return sent


def holding_up() -> tuple[Sandbox, asyncio.Event]:
    """Make a sandbox that holds up each call for ever, and what is set when it has one."""
    held_up = asyncio.Event()

    async def sleep(_: float) -> None:
        held_up.set()
        await asyncio.Event().wait()

    return Sandbox(faults=Faults(sleep=sleep).anywhere(Fault.latency(1))), held_up


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox()


@pytest.fixture
async def client(sandbox: Sandbox) -> AsyncIterator[httpx.AsyncClient]:
    """Provide a client of the sandbox, in process, with a valid token and the tenant acme."""
    async with in_process(sandbox) as client:
        yield client


@pytest.fixture(params=[in_process, on_a_socket])
def connect(request: pytest.FixtureRequest) -> Connect:
    connect: Connect = request.param
    return connect


@pytest.fixture
def naps() -> list[float]:
    return []


@pytest.fixture
def sandbox_with(naps: list[float]) -> Callable[..., Sandbox]:
    """Provide a function that makes a sandbox with these faults at its first call."""

    async def sleep(seconds: float) -> None:
        naps.append(seconds)

    def make(*faults: Fault) -> Sandbox:
        schedule = Faults(sleep=sleep)
        for fault in faults:
            schedule.anywhere(fault, at=1)
        return Sandbox(faults=schedule)

    return make
