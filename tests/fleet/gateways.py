"""A gateway that counts what it does, and sessions, jobs and items for it."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from gateway_sdk import GatewaySession
from gateway_sdk.fleet import Job, Plan
from gateway_sdk.fleet._store import ItemRecord, State
from tests.support.memory_store import MemoryStore

ADDRESS = "https://gateway.example.com"
CUSTOMERS = "/customer/1.0.0/create"

Answer = Callable[[str, Any], Awaitable[httpx.Response | None]]


class CountingGateway(httpx.AsyncBaseTransport):
    """Does everything, and counts it by the body.

    Attributes:
        answer: Awaited with the path and the JSON body before anything is done; may answer.
        after: Awaited after something was done, before the reply.
        done: How often each body was done.
    """

    def __init__(self) -> None:
        self.answer: Answer | None = None
        self.after: Answer | None = None
        self.done: Counter[str] = Counter()
        self.requests = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        text = (await request.aread()).decode()
        body = json.loads(text) if text[:1] == "{" else text
        if self.answer and (reply := await self.answer(request.url.path, body)):
            return reply
        self.done[text] += 1
        if self.after and (reply := await self.after(request.url.path, body)):
            return reply
        return httpx.Response(200, json={"seen": body})


def session(gateway: httpx.AsyncBaseTransport, **settings: Any) -> GatewaySession:
    settings = {"retry": None, "access_token": "t", **settings}
    return GatewaySession(ADDRESS, tenant_id="acme", transport=gateway, **settings)


def series(number: int) -> dict[str, Any]:
    return {
        "base": f"B{number}",
        "symbols": ["USD"],
        "start_date": "2026-01-01",
        "end_date": "2026-01-31",
    }


def customer(number: int) -> dict[str, Any]:
    return {"person": {"firstName": {"name": f"c{number}"}}}


async def either(gateway: GatewaySession, item: dict[str, Any]) -> Any:
    """Create a customer, or fetch a series."""
    if "person" in item:
        return await gateway.customer.create_customer(item)
    return await gateway.currency.exchange_rate_series(**item)


def rates_job(store: Any = None, **settings: Any) -> Job:
    store = MemoryStore() if store is None else store
    return Job("rates", operation="exchange_rate_series", store=store, **settings)


def customers_job(store: Any = None, **settings: Any) -> Job:
    store = MemoryStore() if store is None else store
    return Job("customers", operation="create_customer", store=store, **settings)


async def run_all(plan: Plan, gateway: GatewaySession) -> None:
    """Run every chunk that lacks something, one after the other."""
    async for chunk in plan.missing():
        await plan.run(chunk, gateway)


def states(store: MemoryStore) -> dict[int, str]:
    return {index: record.state.value for (_, index), record in sorted(store.states.items())}


def records(store: MemoryStore) -> list[ItemRecord]:
    return [record for _, record in sorted(store.states.items())]


def all_done(store: MemoryStore, count: int) -> bool:
    return states(store) == dict.fromkeys(range(count), State.DONE.value)


@contextmanager
def cancelled_at_end(task: asyncio.Task[Any]) -> Iterator[None]:
    try:
        yield
    finally:
        task.cancel()
