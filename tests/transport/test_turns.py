"""The httpx engine takes no turn of the event loop that only a free lock of httpcore waits for."""

import asyncio
import ssl
from collections.abc import Coroutine
from typing import Any

import pytest

from gateway_sdk._transport.httpx_engine import HttpxEngine, without_turns
from gateway_sdk._transport.transmission import Transmission
from tests.support.engines import body_of, make_request
from tests.support.raw_server import OK, raw_server, read_request


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request of a connection."""
    while True:
        await read_request(reader)
        writer.write(OK)


@pytest.mark.httpx
async def test_a_request_is_sent_in_the_first_step_of_its_task() -> None:
    """Over an open connection; so it was not the connection that waited."""
    engine = HttpxEngine(1, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    transmission = Transmission(sent=False)
    async with raw_server(answer) as url:
        await body_of(await engine.handle_async_request(make_request(url)))
        call = asyncio.create_task(
            engine.handle_async_request(make_request(url, transmission=transmission))
        )
        await asyncio.sleep(0)

        assert transmission.sent
        response = await call
        closing = asyncio.create_task(body_of(response))
        await asyncio.sleep(0)

        assert closing.done()
        assert await closing == b"{}"
        await engine.aclose()


@pytest.mark.parametrize("turns", range(4))
async def test_only_the_first_turns_are_left_out(turns: int) -> None:
    """Content or a test that waits for others by turns of the loop gets its own."""

    async def work() -> str:
        for _ in range(5):
            await asyncio.sleep(0)
        return "done"

    task = asyncio.create_task(_of(work(), turns))
    for _ in range(5 - turns):
        await asyncio.sleep(0)
        assert not task.done()
    await asyncio.sleep(0)

    assert task.done()
    assert await task == "done"


async def test_the_work_sees_what_comes_where_it_waits() -> None:
    """It can take a cancellation, and wait again."""
    never = asyncio.get_running_loop().create_future()
    seen: list[str] = []

    async def work() -> str:
        try:
            await never
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0)
            seen.append("went on")
        await asyncio.sleep(0)
        raise KeyError

    task = asyncio.create_task(_of(work(), 0))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(KeyError):
        await task

    assert seen == ["cancelled", "went on"]


async def _of(work: Coroutine[Any, Any, str], turns: int) -> str:
    return await without_turns(work, turns)
