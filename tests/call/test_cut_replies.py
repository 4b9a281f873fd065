"""Replies that break off after their head: the status has come, and it decides."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway_sdk import (
    Advice,
    DeadlineExceededError,
    GatewaySession,
    InvalidRequestError,
    NotFoundError,
    Outcome,
    RateLimitedError,
    ReplyLostError,
    ReplyTimeoutError,
    ServerError,
    TokenRejectedError,
)
from gateway_sdk.operations import OPERATIONS, Operation
from tests.support.calls import CALLS
from tests.support.deadlines import pass_deadlines
from tests.support.scripted import Step, scripted

OK: Step = lambda _: httpx.Response(200, json=[])  # noqa: E731
ZIPPED = bytes.fromhex("1f8b08000000000002ff")
"""The head of a gzip file, and nothing of what it holds."""


class Broken(httpx.AsyncByteStream):
    """A body that breaks off."""

    def __init__(self, body: bytes, error: Exception) -> None:
        self._body = body
        self._error = error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body
        raise self._error


def cut(
    status: int, body: bytes = b'{"mess', error: Exception | None = None, **headers: str
) -> Step:
    """Answer with a status, and break off in the body."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    broken = Broken(body, error or httpx.ReadError("CANARY"))
    return lambda _: httpx.Response(status, headers=fields, stream=broken)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_a_cut_429_is_waited_for_and_repeated(
    monkeypatch: pytest.MonkeyPatch, operation: Operation[object]
) -> None:
    """A 429 says that nothing was done, whole or cut, and its Retry-After is not shortened."""
    gateway, engine, waits = scripted(monkeypatch, cut(429, retry_after="17"), OK)

    await CALLS[operation.name](gateway)

    assert len(engine.requests) == 2
    assert waits[0] >= 17


async def test_a_cut_429_that_asks_for_too_long_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is that of a whole 429, and says that its body is not whole."""
    gateway, engine, _ = scripted(monkeypatch, cut(429, retry_after="3600"))

    with pytest.raises(RateLimitedError, match="429 Too Many Requests; the body broke off") as hit:
        await CALLS["create_customer"](gateway)

    assert len(engine.requests) == 1
    assert (hit.value.retry_after, hit.value.payload, hit.value.body) == (3600, None, b'{"mess')
    assert hit.value.outcome is Outcome.REFUSED
    assert hit.value.advice is Advice.REPEAT
    assert "CANARY" not in str(hit.value)


class Renewing:
    """A source that has a second token."""

    async def token(self, rejected: object = None) -> str:
        return "second" if rejected else "first"


async def test_a_cut_401_renews_the_token_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The status alone says that the token is no good, for a write that must happen once too."""
    gateway, engine, _ = scripted(monkeypatch, cut(401), OK, access_token=Renewing())

    await CALLS["create_customer"](gateway)

    sent = [request.headers["Authorization"] for request in engine.requests]
    assert sent == ["Bearer first", "Bearer second"]


async def test_a_second_cut_401_is_a_rejected_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not tried a third time."""
    gateway, engine, _ = scripted(monkeypatch, cut(401), access_token=Renewing())

    with pytest.raises(TokenRejectedError):
        await CALLS["create_customer"](gateway)

    assert len(engine.requests) == 2


@pytest.mark.parametrize("error", [httpx.ReadTimeout("-"), httpx.RemoteProtocolError("-")])
async def test_a_cut_500_is_repeated_until_it_is_whole(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """However the body ends: an idempotent call does not give up where a whole 500 is repeated."""
    gateway, engine, _ = scripted(monkeypatch, cut(500, error=error), OK)

    await CALLS["cancel_order"](gateway)

    assert len(engine.requests) == 2


async def test_what_came_of_the_body_is_on_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway's words are read if all of them came before the connection broke."""
    gateway, _, _ = scripted(monkeypatch, cut(400, b'{"message": "no such field"}'))

    with pytest.raises(InvalidRequestError) as caught:
        await CALLS["create_customer"](gateway)

    assert caught.value.payload is not None
    assert caught.value.payload.message == "no such field"


async def test_a_cut_body_may_be_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a gzip file is no second problem."""
    gateway, _, _ = scripted(monkeypatch, cut(500, ZIPPED, content_encoding="gzip"), retry=None)

    with pytest.raises(ServerError) as caught:
        await CALLS["create_customer"](gateway)

    assert caught.value.body == b""


async def test_a_cut_success_stays_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that the gateway did is not made again for the sake of its reply."""
    gateway, engine, _ = scripted(monkeypatch, cut(200))

    with pytest.raises(ReplyLostError, match="broke off after its head") as caught:
        await CALLS["cancel_order"](gateway)

    assert len(engine.requests) == 1
    assert (caught.value.outcome, caught.value.status) == (Outcome.APPLIED, 200)
    assert caught.value.advice is not Advice.REPEAT


async def test_a_cut_web_page_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy or a portal answered, as with a whole page."""
    page = cut(200, b"<html>", content_type="text/html")
    gateway, engine, _ = scripted(monkeypatch, page)

    with pytest.raises(ReplyLostError) as caught:
        await CALLS["create_customer"](gateway)

    assert len(engine.requests) == 1
    assert (caught.value.outcome, caught.value.status) == (Outcome.UNKNOWN, 200)


@pytest.mark.parametrize(
    ("content_type", "outcome"),
    [("application/json", Outcome.APPLIED), ("text/html", Outcome.UNKNOWN)],
)
async def test_a_web_page_that_does_not_end_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, content_type: str, outcome: Outcome
) -> None:
    """The deadline passes in the body; what its head says counts."""

    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"<"
            pass_deadlines(gateway)
            await asyncio.Event().wait()

    headers = {"Content-Type": content_type}
    endless = httpx.Response(200, headers=headers, stream=Endless())
    gateway, _, _ = scripted(monkeypatch, endless)

    with pytest.raises(DeadlineExceededError) as caught:
        await CALLS["create_customer"](gateway)

    assert caught.value.outcome is outcome


async def test_a_foreign_transport_may_break_off_too() -> None:
    """A transport of the user's own raises what it likes, and the status still decides."""

    class Foreign(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            stream = Broken(b"", ConnectionResetError("CANARY"))
            return httpx.Response(404, stream=stream, request=request)

    async with GatewaySession("https://gateway.test", access_token="t", transport=Foreign()) as one:
        with pytest.raises(NotFoundError, match="404") as caught:
            await CALLS["cancel_order"](one)

    assert caught.value.outcome is Outcome.REFUSED


@pytest.mark.parametrize(
    ("error", "kind"),
    [(httpx.ReadTimeout("CANARY"), ReplyTimeoutError), (httpx.ReadError("CANARY"), ReplyLostError)],
)
async def test_a_time_out_in_a_body_is_one(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[ReplyLostError]
) -> None:
    """A reply that is not complete in time is told from one that broke off."""
    gateway, _, _ = scripted(monkeypatch, cut(200, error=error), retry=None)

    with pytest.raises(ReplyLostError) as caught:
        await CALLS["order_history"](gateway)

    assert type(caught.value) is kind
    assert caught.value.status == 200
