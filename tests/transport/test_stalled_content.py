"""Content that stops coming, while the reply or the end of the connection is there already."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import pytest

from gateway_sdk import (
    GatewaySession,
    Observer,
    Outcome,
    ReplyLostError,
    StatusError,
)
from gateway_sdk.observer import CallInfo
from gateway_sdk.outcome import Attempt
from tests.support.failing_steps import turns
from tests.support.raw_server import OK, raw_server

REFUSED: Final = OK.replace(b"200 OK", b"413 -")


class Stalled:
    """Gives one piece, and then nothing.

    Attributes:
        waits: Set as soon as the second piece is waited for.
        ended: Whether that wait was ended.
        again: Given after the wait was ended, in spite of that, if not empty.
    """

    def __init__(self, again: bytes = b"") -> None:
        self.waits = asyncio.Event()
        self.ended = False
        self.again = again

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"the first piece"
        try:
            self.waits.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.ended = True
            if not self.again:
                raise
        yield self.again


class Attempts(Observer):
    def __init__(self) -> None:
        self.ended: list[Attempt] = []

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        self.ended.append(attempt)


class Answering:
    """Answers once the content stalls, and keeps the connection or closes it."""

    def __init__(self, content: Stalled, reply: bytes, *, closes: bool = False) -> None:
        self.content = content
        self.reply = reply
        self.closes = closes
        self.answered = asyncio.Event()
        self.may_end = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"the first piece")
        await self.content.waits.wait()
        writer.write(self.reply)
        await writer.drain()
        self.answered.set()
        if not self.closes:
            await self.may_end.wait()


def session(url: str, *observers: Observer) -> GatewaySession:
    """Make a session in which nothing else ends an upload."""
    return GatewaySession(url, access_token="t", timeout=30, deadline=None, observers=observers)


@pytest.mark.parametrize("again", [b"", b"another piece"], ids=["ends", "goes on"])
@pytest.mark.parametrize(
    ("reply", "closes", "outcome"),
    [
        (REFUSED, False, Outcome.REFUSED),
        (REFUSED, True, Outcome.REFUSED),
        (b"", True, Outcome.UNKNOWN),
    ],
    ids=["refuses", "refuses and closes", "closes"],
)
async def test_the_end_of_an_exchange_ends_the_wait_for_content(
    reply: bytes, closes: bool, outcome: Outcome, again: bytes
) -> None:
    """What came is the answer at once, and the task of the call is not cancelled by that."""
    content = Stalled(again)
    async with (
        raw_server(Answering(content, reply, closes=closes).handle) as url,
        session(url) as gateway,
    ):
        with pytest.raises(StatusError if reply else ReplyLostError) as caught:
            await gateway.aml.upload_document(content)

    assert [attempt.status for attempt in caught.value.attempts] == [413 if reply else None]
    assert caught.value.outcome is outcome
    assert content.ended
    task = asyncio.current_task()
    assert task
    assert not task.cancelling()


@pytest.mark.parametrize(
    ("reply", "outcome"), [(OK, Outcome.APPLIED), (b"", Outcome.UNKNOWN)], ids=["success", "none"]
)
async def test_a_call_that_is_cancelled_meanwhile_knows_the_reply(
    reply: bytes, outcome: Outcome
) -> None:
    """An early success ends nothing, but it is what became of the call; a cancellation is one."""
    content, attempts = Stalled(), Attempts()
    server = Answering(content, reply)
    async with raw_server(server.handle) as url, session(url, attempts) as gateway:
        call = asyncio.create_task(gateway.aml.upload_document(content))
        await server.answered.wait()
        await turns(20)  # it is in the same event loop, so that its reply is read by then
        assert not content.ended
        call.cancel()
        await asyncio.wait([call])

    assert call.cancelled()
    assert [attempt.outcome for attempt in attempts.ended] == [outcome]


async def test_a_cancellation_beside_a_refusal_is_kept() -> None:
    """A caller that is cancelled in the turn in which the refusal comes is cancelled."""

    class Beside(Stalled):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for piece in super().__aiter__():
                    yield piece
            finally:
                call.cancel()

    content, attempts = Beside(), Attempts()
    async with (
        raw_server(Answering(content, REFUSED).handle) as url,
        session(url, attempts) as gateway,
    ):
        call = asyncio.create_task(gateway.aml.upload_document(content))
        await asyncio.wait([call])

    assert call.cancelled()
    assert [attempt.outcome for attempt in attempts.ended] == [Outcome.REFUSED]
