"""Scripts for the failing server: each fails at one step of an exchange."""

import asyncio
from collections.abc import Callable, Set as AbstractSet
from typing import Any

from tests.support.failing_line import Line, reply
from tests.support.failing_server import Script

End = Callable[[Line], None]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


async def serve(line: Line) -> None:
    while await line.request():
        await line.answer()


def at_once(end: End) -> Script:
    async def script(line: Line) -> None:
        end(line)

    return script


def while_shaking_hands(data: bytes, end: End) -> Script:
    """Send bytes that are no handshake to a client that begins one, and end the connection."""

    async def script(line: Line) -> None:
        await line.forget()
        await line.send(data)
        end(line)

    return script


def without_reading(end: End) -> Script:
    """End the connection while a request lies unread in the kernel."""

    async def script(line: Line) -> None:
        await line.something()
        end(line)

    return script


def after_one_byte(end: End) -> Script:
    """End the connection after the first byte of a request."""

    async def script(line: Line) -> None:
        if await line.one_byte():
            end(line)

    return script


def after_head(end: End) -> Script:
    async def script(line: Line) -> None:
        if await line.head():
            end(line)

    return script


def mid_body(end: End) -> Script:
    """End the connection when a part of a body was read."""

    async def script(line: Line) -> None:
        if await line.head():
            await line.forget()
            end(line)

    return script


def replying(data: bytes, end: End = Line.close) -> Script:
    """Receive a request, send these bytes and end the connection."""

    async def script(line: Line) -> None:
        if await line.request():
            await line.send(data)
            if end is Line.reset:  # which takes with it what the client has not read
                await turns(50)
            end(line)

    return script


def dropping_tls(data: bytes) -> Script:
    """Receive a request, send these bytes, and go on in clear."""

    async def script(line: Line) -> None:
        if await line.request():
            await line.send(data)
            line.blurt(b"HTTP/1.1 200 OK\r\n\r\n")
            await line.swallow()

    return script


def answering(status: int, more: str = "") -> Script:
    async def script(line: Line) -> None:
        while await line.request():
            await line.answer(status, more)

    return script


def answering_twice(length: int = 0, *, together: bool = True) -> Script:
    """Answer one request two times, the first time at that length, and take in the next one."""

    async def script(line: Line) -> None:
        if await line.request():
            mine = reply(200, f'"{line.receipts[-1].call}"'.ljust(length))
            stale = reply(200, '"stale"')
            for data in [mine + stale] if together else [mine, stale]:
                await line.send(data)
            await line.request()

    return script


async def never_answer(line: Line) -> None:
    if await line.request():
        await line.swallow()


def never_end_of(status: int) -> Script:
    async def script(line: Line) -> None:
        if await line.request():
            head = HEAD.replace(b"200 OK", b"%d -" % status)
            await line.send(head + b"Content-Length: 20\r\n\r\n")
            await line.swallow()

    return script


never_end = never_end_of(200)


async def never_read(line: Line) -> None:
    """Take in a head and nothing more."""
    await line.head()
    await line.ledger.may_go_on.wait()


async def never_look(line: Line) -> None:
    """Leave the connection alone; what becomes of it is the test's matter."""
    await line.ledger.may_go_on.wait()


async def refuse_early(line: Line) -> None:
    """Answer before the body was read, and reset the connection."""
    if await line.head():
        await line.answer(413, "Connection: close\r\n")
        await turns(50)
        line.reset()


def dripping(start: bytes, drop: bytes) -> Script:
    """Answer so slowly that no time-out ever strikes."""

    async def script(line: Line) -> None:
        if await line.request():
            await line.send(start)
            while True:
                await line.send(drop)
                await asyncio.sleep(0)

    return script


def once_and_then(second: Script) -> Script:
    """Answer a request, and go on with another script."""

    async def script(line: Line) -> None:
        if await line.request():
            await line.answer()
            await second(line)

    return script


async def turns(number: int) -> None:
    """Let the event loop turn, so that both ends see what has come."""
    for _ in range(number):
        await asyncio.sleep(0)


def others_than(tasks: AbstractSet[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Return the other tasks, without this one and those that Windows' loop has for servers."""
    left = asyncio.all_tasks() - tasks - {asyncio.current_task()}
    return {task for task in left if task and "IocpProactor.accept" not in repr(task)}
