"""Scripts for the failing server: each fails at one step of an exchange."""

import asyncio
from collections.abc import Callable, Mapping, Set as AbstractSet
from inspect import isawaitable
from typing import Any, Final

from tests.support.failing_server import FailingServer, Line, Script, reply

Act = Callable[[Line], Any]

HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def steps(*acts: Act) -> Script:
    """Do one thing after the other, until one returns False: the client went away."""

    async def script(line: Line) -> None:
        for act in acts:
            done = act(line)
            if isawaitable(done):
                done = await done
            if done is False:
                break

    return script


def sending(data: bytes) -> Act:
    return lambda line: line.send(data)


def waiting(number: int) -> Act:
    return lambda _: turns(number)


async def never_look(line: Line) -> None:
    """Leave the connection alone; what becomes of it is the test's matter."""
    await line.server.may_go_on.wait()


def replying(data: bytes, end: Act = Line.close) -> Script:
    """Receive a request, send these bytes and end the connection."""
    # A reset takes with it what the client has not read.
    return steps(Line.request, sending(data), waiting(50 if end is Line.reset else 0), end)


def answering(status: int, more: str = "") -> Script:
    async def script(line: Line) -> None:
        while await line.request():
            await line.answer(status, more)

    return script


def answer_once(status: int = 200, more: str = "") -> Script:
    return steps(Line.request, lambda line: line.answer(status, more))


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


def never_end_of(status: int) -> Script:
    head = HEAD.replace(b"200 OK", b"%d -" % status) + b"Content-Length: 20\r\n\r\n"
    return steps(Line.request, sending(head), Line.swallow)


def dripping(start: bytes, drop: bytes) -> Script:
    """Answer so slowly that no time-out ever strikes."""

    async def script(line: Line) -> None:
        if await line.request():
            await line.send(start)
            while True:
                await line.send(drop)
                await asyncio.sleep(0)

    return script


def answer_and(end: Act) -> Script:
    return steps(Line.request, Line.answer, waiting(2), end)


def blurt(line: Line) -> None:
    line.blurt(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
    line.close()


serve: Final = answering(200)
never_answer: Final = steps(Line.request, Line.swallow)
never_end: Final = never_end_of(200)

WELL: Final = "is well"

FAULTS: Final[Mapping[str, Script]] = {
    WELL: answer_once(),
    "is slow": steps(Line.request, waiting(8), Line.answer),
    "ends politely": answer_once(200, "Connection: close\r\n"),
    "429": answer_once(429),
    "401": answer_once(401),
    "503": answer_once(503),
    "503 and ends": answer_once(503, "Connection: close\r\n"),
    "400": answer_once(400),
    "takes one byte": steps(Line.one_byte, Line.reset),
    "takes a head": steps(Line.head, Line.close),
    "takes a head and resets": steps(Line.head, Line.reset),
    "takes a request": replying(b""),
    "takes a request and resets": replying(b"", Line.reset),
    "leaves it unread": steps(Line.something, Line.close),
    "takes a part of a body": steps(Line.head, Line.forget, Line.reset),
    "half a status": replying(b"HTTP/1.1 2"),
    "half a head": replying(HEAD),
    "half a body": replying(HEAD + b"Content-Length: 9\r\n\r\n{"),
    "silence": never_answer,
    "silence after the head": never_end,
    "drips": dripping(HEAD + b"X: ", b"x"),
    "two replies": answering_twice(),
    "closes when idle": answer_and(Line.close),
    "resets when idle": answer_and(Line.reset),
    "408 when idle": answer_and(blurt),
    "closes at once": steps(Line.close),
    "resets at once": steps(Line.reset),
}

UNSEEN: Final = frozenset(
    {"closes when idle", "resets when idle", "408 when idle", "closes at once", "resets at once"}
)
"""Faults after which the server may not see what was sent to it."""


async def turns(number: int) -> None:
    """Let the event loop turn, so that both ends see what has come."""
    for _ in range(number):
        await asyncio.sleep(0)


def others_than(tasks: AbstractSet[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Return the other tasks, without this one and those that Windows' loop has for servers."""
    left = asyncio.all_tasks() - tasks - {asyncio.current_task()}
    return {task for task in left if task and "IocpProactor.accept" not in repr(task)}


async def be_quiet(server: FailingServer) -> None:
    """Wait until no task is left, and no connection is open but those that may be used again."""
    await server.until(lambda: all(line.at_rest or not line.open for line in server.lines))
    if left := others_than(server.tasks):
        _, pending = await asyncio.wait(left, timeout=20)
        assert not pending
