"""Calls leave nothing for the garbage collector: what they hold may be a document of 20 MiB."""

import asyncio
import gc
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from gateway_sdk import GatewayError, GatewaySession
from gateway_sdk._call.call import Call
from gateway_sdk._call.deadline import CallScope
from gateway_sdk._http.request import PreparedRequest
from gateway_sdk._transport.transmission import Request, Transmission
from gateway_sdk.operations import LIST_COUNTRIES
from tests.support.raw_server import body_of, serving


async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError):
        while head := await reader.readuntil(b"\r\n\r\n"):
            async for _ in body_of(head, reader):
                pass
            status = b"404 Not Found" if head.startswith(b"DELETE") else b"200 OK"
            writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\n{}")


async def vault() -> str:
    return "t"


async def stream() -> AsyncGenerator[bytes]:
    yield b"x"


async def cancelled(call: Coroutine[Any, Any, Any]) -> None:
    task = asyncio.create_task(call)
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


CALLS: dict[str, Callable[[GatewaySession], Awaitable[Any]]] = {
    "plain": lambda session: session.send(LIST_COUNTRIES, into=Any),
    "once": lambda session: session.customer.create_customer({"customerName": "Ada"}),
    "document": lambda session: session.aml.upload_document(b"x"),
    "stream": lambda session: session.aml.upload_document(stream(), content_type="text/plain"),
    "failed": lambda session: session.wallet.cancel_order("a", "b"),
    "too late": lambda session: session.customer.create_customer({}, deadline=1e-9),
    "cancelled": lambda session: cancelled(session.aml.upload_document(b"x")),
}


def held() -> list[object]:
    kinds = Call, CallScope, Request, Transmission, PreparedRequest
    return [one for one in gc.get_objects() if isinstance(one, kinds)]


@pytest.mark.parametrize("kind", CALLS)
async def test_a_call_leaves_nothing_that_only_the_garbage_collector_frees(kind: str) -> None:
    async with (
        serving(refuse) as port,
        GatewaySession(f"http://127.0.0.1:{port}", access_token=vault, tenant_id="t") as session,
    ):
        before = held()
        for is_warm in (False, True):
            if is_warm:
                gc.collect()
                gc.disable()
            try:
                with suppress(GatewayError):
                    await CALLS[kind](session)
                await asyncio.sleep(0)  # the loop holds the last callback for one turn
                left = [one for one in held() if all(one is not other for other in before)]
            finally:
                gc.enable()

    assert not left
