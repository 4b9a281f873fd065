"""Observers: what they are told, and in which order."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_sdk import GatewayError, GatewaySession, Outcome, RetryPolicy
from tests.support.calls import CALLS, Call
from tests.support.observers import Book, Event
from tests.support.scripted import Renewing, Step, scripted, status

NOT_SENT, REFUSED, UNKNOWN, APPLIED = (outcome.name for outcome in Outcome)


OK, LOST = status(200), httpx.ReadError("-")

CASES: dict[str, tuple[str, list[Step], list[Event]]] = {
    "retries": (
        "cancel_order",
        [status(503), LOST, OK],
        [
            ("attempt", 1, UNKNOWN, 503, "ServerError"),
            ("retry", 1, 503, 0.5),
            ("attempt", 1, UNKNOWN, None, "ReplyLostError"),
            ("retry", 1, "ReplyLostError", 1.0),
            ("attempt", 1, APPLIED, 200, None),
            ("finished", 1, APPLIED, None),
        ],
    ),
    "retry after": (
        "create_customer",
        [status(429, **{"Retry-After": "17"}), OK],
        [
            ("attempt", 1, REFUSED, 429, "RateLimitedError"),
            ("retry", 1, 429, 17.5),
            ("attempt", 1, APPLIED, 200, None),
            ("finished", 1, APPLIED, None),
        ],
    ),
    "all attempts fail": (
        "cancel_order",
        [LOST, status(429), httpx.ConnectError("-")],
        [
            ("attempt", 1, UNKNOWN, None, "ReplyLostError"),
            ("retry", 1, "ReplyLostError", 0.5),
            ("attempt", 1, REFUSED, 429, "RateLimitedError"),
            ("retry", 1, 429, 1.0),
            ("attempt", 1, NOT_SENT, None, "ConnectionFailedError"),
            ("finished", 1, UNKNOWN, "ConnectionFailedError"),
        ],
    ),
    "renewal": (
        "cancel_order",
        [status(401), OK],
        [
            ("attempt", 1, REFUSED, 401, "UnauthorizedError"),
            ("attempt", 1, APPLIED, 200, None),
            ("finished", 1, APPLIED, None),
        ],
    ),
    "no list": (
        "list_countries",
        [OK],
        [
            ("attempt", 1, APPLIED, 200, "UnexpectedReplyError"),
            ("finished", 1, APPLIED, "UnexpectedReplyError"),
        ],
    ),
}


@pytest.mark.parametrize(("name", "steps", "events"), CASES.values(), ids=CASES)
async def test_observers_are_told_all_in_order(
    monkeypatch: pytest.MonkeyPatch, name: str, steps: list[Step], events: list[Event]
) -> None:
    """The beginning, each attempt, each retry, the end; one call, in the task that made it."""
    book = Book()
    gateway, _, waits = scripted(
        monkeypatch,
        *steps,
        access_token=Renewing(),
        observers=[book],
        retry=RetryPolicy(jitter=0.0, connect_wait=0.0),
    )

    await asyncio.gather(CALLS[name](gateway), return_exceptions=True)

    assert book.events == [("started", 1), *events]
    assert waits == [event[-1] for event in events if event[0] == "retry"]
    assert len({id(call) for call in book.calls}) == 1
    assert book.calls[0].operation.name == name
    assert len(book.tasks) == 1


async def no_token() -> None:
    """Return nothing where a token should be."""


async def closed(gateway: GatewaySession) -> None:
    await gateway.aclose()
    await CALLS["order_history"](gateway)


REFUSED_EARLY: dict[str, tuple[dict[str, Any], Call, str]] = {
    "path": ({}, lambda gateway: gateway.wallet.cancel_order("", "o"), "InvalidArgumentError"),
    "tenant": ({"tenant_id": None}, CALLS["create_customer"], "InvalidArgumentError"),
    "file": (
        {},
        lambda gateway: gateway.aml.upload_document(Path("/nonexistent")),
        "InvalidArgumentError",
    ),
    "token": ({"access_token": no_token}, CALLS["order_history"], "AuthError"),
    "closed": ({}, closed, "SessionStateError"),
}


@pytest.mark.parametrize(("options", "call", "error"), REFUSED_EARLY.values(), ids=REFUSED_EARLY)
async def test_a_call_that_is_refused_before_sending_has_no_attempt(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], call: Call, error: str
) -> None:
    """An argument that is wrong, or no token, ends the call at once: nothing was sent."""
    book = Book()
    gateway, engine, _ = scripted(monkeypatch, OK, observers=[book], **options)

    with pytest.raises(GatewayError):
        await call(gateway)

    assert engine.requests == []
    assert book.events == [("started", 1), ("finished", 1, NOT_SENT, error)]


async def test_views_share_observers_and_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call of a session has a number of its own, whichever view it comes from."""
    book = Book()
    gateway, _, _ = scripted(monkeypatch, OK, observers=(given for given in [book]))
    views = [
        gateway,
        gateway.with_options(tenant_id="b"),
        gateway,
        gateway.with_options(retry=None),
    ]

    for view in views:
        await CALLS["cancel_order"](view)

    assert gateway.observers == (book,)  # for `bulk.run`
    assert [event[:2] for event in book.events if event[0] != "attempt"] == [
        (what, number) for number in (1, 2, 3, 4) for what in ("started", "finished")
    ]
