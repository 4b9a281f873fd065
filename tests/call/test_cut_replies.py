"""Replies that break off after their head: the status has come, and it decides."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace

import httpx
import pytest

from gateway_sdk import (
    DeadlineExceededError,
    GatewayError,
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
from tests.support.calls import CALLS, pass_deadlines
from tests.support.scripted import Step, scripted

OK: Step = lambda _: httpx.Response(200, json=[])  # noqa: E731
ZIPPED = bytes.fromhex("1f8b08000000000002ff")
"""The head of a gzip file, and nothing of what it holds."""


class Broken(httpx.AsyncByteStream):
    def __init__(self, body: bytes, error: Exception) -> None:
        self._body = body
        self._error = error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body
        raise self._error


def cut(
    status: int, body: bytes = b'{"mess', error: Exception | None = None, **headers: str
) -> Step:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    broken = Broken(body, error or httpx.ReadError("CANARY"))
    return lambda _: httpx.Response(status, headers=fields, stream=broken)


LATE = httpx.ReadTimeout("CANARY")
ODD = httpx.RemoteProtocolError("CANARY")


async def renewed(rejected: object = None) -> str:
    return "second" if rejected else "first"


ERRORS: dict[str, tuple[Step, type[GatewayError], Outcome, bytes, str]] = {
    "429 for too long": (
        cut(429, error=LATE, retry_after="3600"),
        RateLimitedError,
        Outcome.REFUSED,
        b'{"mess',
        "answered 429 Too Many Requests; the body broke off",
    ),
    # The gateway's words are read if all of them came before the connection broke.
    "400 with all its words": (
        cut(400, b'{"message": "$.base is odd"}'),
        InvalidRequestError,
        Outcome.REFUSED,
        b'{"message": "$.base is odd"}',
        " about base",
    ),
    "401": (cut(401), TokenRejectedError, Outcome.REFUSED, b'{"mess', "with a new access token"),
    # Half of a gzip file is no second problem.
    "500, compressed": (
        cut(500, ZIPPED, ODD, content_encoding="gzip"),
        ServerError,
        Outcome.UNKNOWN,
        b"",
        "500",
    ),
    "200": (cut(200), ReplyLostError, Outcome.APPLIED, b"", "broke off after its head"),
    "200, late": (cut(200, error=LATE), ReplyTimeoutError, Outcome.APPLIED, b"", "timed out"),
    # A proxy or a portal answered, as with a whole page.
    "200, web page": (
        cut(200, b"", content_type="text/html"),
        ReplyLostError,
        Outcome.UNKNOWN,
        b"",
        "broke off",
    ),
}


@pytest.mark.parametrize(("step", "kind", "outcome", "body", "text"), ERRORS.values(), ids=ERRORS)
async def test_the_error_has_what_came(
    monkeypatch: pytest.MonkeyPatch,
    step: Step,
    kind: type[GatewayError],
    outcome: Outcome,
    body: bytes,
    text: str,
) -> None:
    source = SimpleNamespace(token=renewed)
    gateway, engine, waits = scripted(monkeypatch, step, access_token=source)

    with pytest.raises(kind, match=text) as caught:
        await CALLS["create_customer"](gateway)

    assert type(caught.value) is kind
    assert caught.value.outcome is outcome
    assert getattr(caught.value, "body", b"") == body
    assert "CANARY" not in str(caught.value)
    assert len(engine.requests) == (2 if kind is TokenRejectedError else 1)
    assert waits == []


@pytest.mark.parametrize(
    ("status", "content_type", "outcome"),
    [
        (200, "application/json", Outcome.APPLIED),
        (200, "text/html", Outcome.UNKNOWN),
        (404, "application/json", Outcome.REFUSED),
    ],
)
async def test_a_deadline_in_a_body_does_not_forget_its_head(
    monkeypatch: pytest.MonkeyPatch, status: int, content_type: str, outcome: Outcome
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b"<"
        pass_deadlines(gateway)
        await asyncio.Event().wait()

    reply = httpx.Response(status, headers={"Content-Type": content_type}, content=endless())
    gateway, _, _ = scripted(monkeypatch, reply)

    with pytest.raises(DeadlineExceededError) as caught:
        await CALLS["create_customer"](gateway)

    assert caught.value.outcome is outcome
    assert [attempt.status for attempt in caught.value.attempts] == [status]


async def test_a_foreign_transport_may_break_off_too() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b""
        raise ConnectionResetError("CANARY")

    transport = httpx.MockTransport(lambda _: httpx.Response(404, content=broken()))
    async with GatewaySession("https://g.test", access_token="t", transport=transport) as gateway:
        with pytest.raises(NotFoundError, match="404") as caught:
            await CALLS["cancel_order"](gateway)

    assert caught.value.outcome is Outcome.REFUSED
