"""A gateway that counts what it does, and jobs and items for it."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, LiteralString

import httpx
import psycopg

from gateway_sdk import GatewaySession
from gateway_sdk.fleet import Job, Worker

Answer = Callable[[Any], Awaitable[httpx.Response | None]]


class CountingGateway(httpx.AsyncBaseTransport):
    """Does everything that *answer* leaves to it, and counts it by the body."""

    def __init__(self) -> None:
        self.answer: Answer | None = None
        self.done: Counter[str] = Counter()
        self.requests = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        text = (await request.aread()).decode()
        body = json.loads(text) if text else None
        if self.answer and (reply := await self.answer(body)):
            return reply
        self.done[text] += 1
        return httpx.Response(200, json={"seen": body})

    def settings(self, **more: Any) -> dict[str, Any]:
        given = {"access_token": "t", "tenant_id": "acme", "retry": None}
        return {"base_url": "https://gateway.example.com", "transport": self, **given, **more}


def series(number: int) -> dict[str, Any]:
    days = {"start_date": "2026-01-01", "end_date": "2026-01-31"}
    return {"base": f"B{number}", "symbols": ["USD"], **days}


def customer(number: int) -> dict[str, Any]:
    return {"person": {"firstName": {"name": f"c{number}"}}}


def number_of(body: Any) -> int:
    name = body["base"] if "base" in body else body["person"]["firstName"]["name"]
    return int(name[1:])


def refusing(statuses: dict[int, int]) -> Answer:
    async def answer(body: Any) -> httpx.Response | None:
        status = statuses.get(number_of(body))
        return None if status is None else httpx.Response(status)

    return answer


async def either(gateway: GatewaySession, item: dict[str, Any]) -> Any:
    if "person" in item:
        return await gateway.customer.create_customer(item)
    return await gateway.currency.exchange_rate_series(**item)


class Holding:
    """Holds the requests of some items back until they may go on."""

    def __init__(self, gateway: CountingGateway, *numbers: int) -> None:
        self.began: dict[int, asyncio.Event] = {number: asyncio.Event() for number in numbers}
        self.go_on = asyncio.Event()
        gateway.answer = self.answer

    async def start(self, worker: Worker) -> asyncio.Task[bool]:
        """Give the first chunk to a worker, and wait until its requests are held."""
        running = asyncio.create_task(worker.run_chunk("p", 0))
        await self.wait()
        return running

    async def answer(self, body: Any) -> None:
        number = number_of(body)
        if number in self.began:
            self.began[number].set()
            await self.go_on.wait()

    async def wait(self) -> None:
        for event in self.began.values():
            await event.wait()


def job(gateway: CountingGateway, dsn: str, **settings: Any) -> Job:
    given = {"function": either, "concurrency": 4, "lease": 60.0, **settings}
    return Job("either", database=dsn, session=gateway.settings(), **given)


async def rows_of(dsn: str, query: LiteralString, *values: object) -> list[Any]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        return await (await connection.execute(query, values)).fetchall()


async def change(dsn: str, statement: LiteralString, *values: object) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await connection.execute(statement, values)
