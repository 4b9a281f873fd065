"""Faults to choose from: each is met by one request, or by one connection."""

from collections.abc import Mapping
from typing import Final

from tests.support.failing_line import Line
from tests.support.failing_server import Script
from tests.support.failing_steps import (
    HEAD,
    after_head,
    after_one_byte,
    answering_twice,
    at_once,
    dripping,
    mid_body,
    never_answer,
    never_end,
    replying,
    turns,
    without_reading,
)

WELL: Final = "is well"


def answer(status: int = 200, more: str = "") -> Script:
    async def script(line: Line) -> None:
        if await line.request():
            await line.answer(status, more)

    return script


def answer_late(line_turns: int) -> Script:
    async def script(line: Line) -> None:
        if await line.request():
            await turns(line_turns)
            await line.answer()

    return script


def answer_and(end: Script) -> Script:
    """Answer one request, and do something to the idle connection."""

    async def script(line: Line) -> None:
        if await line.request():
            await line.answer()
            await turns(2)
            await end(line)

    return script


async def blurt(line: Line) -> None:
    """Answer what nobody asked."""
    line.blurt(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
    line.close()


FAULTS: Final[Mapping[str, Script]] = {
    WELL: answer(),
    "is slow": answer_late(8),
    "ends politely": answer(200, "Connection: close\r\n"),
    "429": answer(429),
    "401": answer(401),
    "503": answer(503),
    "503 and ends": answer(503, "Connection: close\r\n"),
    "400": answer(400),
    "takes one byte": after_one_byte(Line.reset),
    "takes a head": after_head(Line.close),
    "takes a head and resets": after_head(Line.reset),
    "takes a request": replying(b""),
    "takes a request and resets": replying(b"", Line.reset),
    "leaves it unread": without_reading(Line.close),
    "takes a part of a body": mid_body(Line.reset),
    "half a status": replying(b"HTTP/1.1 2"),
    "half a head": replying(HEAD),
    "half a body": replying(HEAD + b"Content-Length: 9\r\n\r\n{"),
    "silence": never_answer,
    "silence after the head": never_end,
    "drips": dripping(HEAD + b"X: ", b"x"),
    "two replies": answering_twice(),
    "closes when idle": answer_and(at_once(Line.close)),
    "resets when idle": answer_and(at_once(Line.reset)),
    "408 when idle": answer_and(blurt),
    "closes at once": at_once(Line.close),
    "resets at once": at_once(Line.reset),
}

UNSEEN: Final = frozenset(
    {"closes when idle", "resets when idle", "408 when idle", "closes at once", "resets at once"}
)
"""Faults after which the server may not see what was sent to it."""
