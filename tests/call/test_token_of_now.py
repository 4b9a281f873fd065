"""Calls that wait for long, and the tokens that expire meanwhile."""

import asyncio
from typing import Any

import httpx
import pytest

from gateway_sdk import (
    DeadlineExceededError,
    GatewaySession,
    GatewayTransport,
    Outcome,
    RateLimit,
    ReplyLostError,
    Token,
)
from gateway_sdk._call import call
from gateway_sdk._transport import transmission
from gateway_sdk.outcome import Attempt, Repeatability
from tests.support.calls import pass_deadlines
from tests.support.raw_server import body_of, field, serving

SENT = Attempt(Outcome.UNKNOWN, None, "ReplyLostError", 0.1)


class Turning:
    """A source whose token is replaced now and then, without a word."""

    now = "first"

    async def token(self, rejected: object = None) -> str:
        return self.now


class Holding(httpx.AsyncBaseTransport):
    """Answers when it may; also as a server."""

    def __init__(self) -> None:
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.tokens: list[str] = []

    async def answer(self, authorization: str) -> None:
        self.tokens.append(authorization)
        self.asked.set()
        await self.may_answer.wait()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await self.answer(request.headers["Authorization"])
        return httpx.Response(200, json={})

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            async for _ in body_of(head, reader):
                pass
            await self.answer(field(head, "Authorization"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


class Silent:
    """A source that gives tokens, until it needs a login."""

    def __init__(self) -> None:
        self.has_login, self.asked, self.now = asyncio.Event(), asyncio.Event(), "old"
        self.has_login.set()
        self.questions = 0

    async def token(self, rejected: object = None) -> str:
        self.questions += 1
        self.asked.set()
        await self.has_login.wait()
        return self.now


def _options(waits_for: str, gateway: Holding, pause: float = 0.1) -> dict[str, Any]:
    options: dict[str, Any] = {"max_connections": 1, "retry": None}
    if waits_for != "slot":
        options = {"rate_limit": RateLimit(1, pause), "retry": None}
    if waits_for == "turn of a transport":
        options["transport"] = gateway
    return options


@pytest.fixture(autouse=True)
def every_wait_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transmission, "LONG", -1.0)  # a clock of uvloop may stand


WAITS = pytest.mark.parametrize("waits_for", ["slot", "turn", "turn of a transport"])


@WAITS
async def test_a_call_that_has_waited_takes_the_token_of_now(waits_for: str) -> None:
    """The one of before may have expired, and a stream cannot be sent again after a 401."""
    source, gateway = Turning(), Holding()
    options = _options(waits_for, gateway, 0.5)
    async with (
        serving(gateway.serve) as port,
        GatewaySession(f"http://127.0.0.1:{port}", access_token=source, **options) as session,
    ):
        calls = [asyncio.create_task(session.aml.upload_document(b"x")) for _ in range(2)]
        await gateway.asked.wait()
        source.now = "second"
        gateway.may_answer.set()
        await asyncio.gather(*calls)

    assert gateway.tokens == ["Bearer first", "Bearer second"]


@WAITS
async def test_a_call_that_waits_for_a_login_lets_others_go_first(
    waits_for: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "LONG", 0.0)
    source, gateway = Silent(), Holding()
    options = _options(waits_for, gateway)
    async with (
        serving(gateway.serve) as port,
        GatewaySession(f"http://127.0.0.1:{port}", access_token="b", **options) as session,
    ):
        of_another = session.with_options(access_token=source)
        first = asyncio.create_task(session.aml.upload_document(b"x"))
        await gateway.asked.wait()
        late = [asyncio.create_task(of_another.aml.upload_document(b"x")) for _ in range(2)]
        await source.asked.wait()
        others = [asyncio.create_task(session.aml.upload_document(b"x")) for _ in range(2)]
        source.has_login.clear()
        gateway.may_answer.set()
        await asyncio.gather(first, *others)
        source.now = "new"
        source.has_login.set()
        await asyncio.gather(*late)

    assert gateway.tokens == ["Bearer b"] * 3 + ["Bearer new"] * 2
    assert source.questions == 4  # one more for each, which goes on outside of the queue


async def test_nothing_is_sent_through_a_client_while_a_late_token_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call, "LONG", 0.0)
    source, gateway = Silent(), Holding()
    async with (
        serving(gateway.serve) as port,
        httpx.AsyncClient(transport=GatewayTransport(max_connections=1)) as client,
        GatewaySession(f"http://127.0.0.1:{port}", access_token="b", http_client=client) as session,
    ):
        of_another = session.with_options(access_token=source)
        first = asyncio.create_task(session.aml.upload_document(b"x"))
        await gateway.asked.wait()
        late = asyncio.create_task(of_another.aml.upload_document(b"x"))
        await source.asked.wait()
        source.has_login.clear()
        source.asked.clear()
        gateway.may_answer.set()
        await asyncio.gather(first, session.aml.upload_document(b"x"), source.asked.wait())
        pass_deadlines(session)
        with pytest.raises(DeadlineExceededError) as caught:
            await late

    assert (caught.value.phase, caught.value.outcome) == ("token", Outcome.NOT_SENT)
    assert gateway.tokens == ["Bearer b"] * 2


async def test_a_deadline_says_that_a_call_has_waited_for_the_token_of_now() -> None:
    gateway = Holding()
    asked, may_give = asyncio.Event(), asyncio.Event()

    async def token() -> str:
        asked.set()
        await may_give.wait()
        return "t"

    may_give.set()
    async with GatewaySession(
        "https://gateway.test", access_token=token, transport=gateway, rate_limit=RateLimit(1, 0.4)
    ) as session:
        first = asyncio.create_task(session.aml.upload_document(b"x"))
        await gateway.asked.wait()
        asked.clear()
        second = asyncio.create_task(session.aml.upload_document(b"x", deadline=0.8))
        await asked.wait()
        await asyncio.sleep(0)
        may_give.clear()  # the second question gets no answer
        with pytest.raises(DeadlineExceededError) as caught:
            await second
        gateway.may_answer.set()
        await first

    assert (caught.value.phase, caught.value.outcome) == ("token", Outcome.NOT_SENT)
    assert len(gateway.tokens) == 1


async def test_a_call_that_has_waited_takes_the_token_that_is_kept() -> None:
    gateway = Holding()
    gateway.may_answer.set()

    async def token() -> Token:
        return Token("kept", expires_at=4e9)

    async with GatewaySession(
        "https://gateway.test", access_token=token, transport=gateway, rate_limit=RateLimit(9, 1)
    ) as session:
        for _ in range(2):
            await session.aml.upload_document(b"x")

    assert gateway.tokens == ["Bearer kept"] * 2


async def test_an_error_of_a_call_of_the_source_says_nothing_about_the_call_that_waits() -> None:
    gateway, questions = Holding(), 0

    async def token() -> str:
        nonlocal questions
        questions += 1
        if questions > 3:
            raise ReplyLostError("lost").of_call("create_customer", Repeatability.ONCE, (SENT,))
        return "t"

    async with GatewaySession(
        "https://gateway.test", access_token=token, transport=gateway, rate_limit=RateLimit(1, 0.4)
    ) as session:
        first = asyncio.create_task(session.aml.upload_document(b"x"))
        await gateway.asked.wait()
        with pytest.raises(ReplyLostError, match="upload_document: lost") as caught:
            await session.aml.upload_document(b"x")
        gateway.may_answer.set()
        await first

    assert caught.value.outcome is Outcome.NOT_SENT
    assert [attempt.outcome for attempt in caught.value.attempts] == [Outcome.NOT_SENT]
