"""Observers: what they are told and in which order, and what fails or is none."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_sdk import (
    CallInfo,
    ConfigurationError,
    GatewayError,
    GatewaySession,
    Observer,
    Outcome,
    RateLimitedError,
    RetryPolicy,
)
from tests.support.calls import CALLS, Call, Renewing
from tests.support.observers import HOOKS, Book, Event
from tests.support.scripted import Step, scripted, status
from tests.support.virtual_time import in_virtual_time

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
    "token": ({"access_token": no_token}, CALLS["order_history"], "ConfigurationError"),
    "closed": ({}, closed, "SessionStateError"),
}


@pytest.mark.parametrize(("options", "call", "error"), REFUSED_EARLY.values(), ids=REFUSED_EARLY)
async def test_a_call_that_is_refused_before_sending_has_no_attempt(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], call: Call, error: str
) -> None:
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


@pytest.mark.parametrize(
    ("way", "error"),
    [
        ("deadline", "DeadlineExceededError"),
        ("cancel", "CancelledError"),
        ("close", "SessionStateError"),
    ],
)
@in_virtual_time
async def test_a_call_that_is_cut_off_is_told_with_its_outcome(way: str, error: str) -> None:
    book, taken = Book(), asyncio.Event()

    async def silent(_: httpx.Request) -> httpx.Response:
        taken.set()
        await asyncio.Event().wait()
        raise AssertionError

    gateway = GatewaySession(
        "http://127.0.0.1",
        access_token="t",
        observers=[book],
        deadline=600.0,
        transport=httpx.MockTransport(silent),
    )
    call = asyncio.create_task(CALLS["upload_document"](gateway))
    await taken.wait()
    if way == "cancel":
        call.cancel()
    elif way == "close":
        await gateway.aclose()
    await asyncio.wait([call])
    await gateway.aclose()

    assert book.events == [
        ("started", 1),
        ("attempt", 1, Outcome.UNKNOWN.name, None, "CancelledError"),
        ("finished", 1, Outcome.UNKNOWN.name, error),
    ]
    if way != "cancel":
        ended = call.exception()
        assert isinstance(ended, GatewayError)
        assert ended.outcome is Outcome.UNKNOWN
        assert isinstance(ended, TimeoutError) is (way == "deadline")


def fail(*_: object) -> None:
    raise ZeroDivisionError("the user's own")


FAILING: Observer = type("Failing", (Observer,), dict.fromkeys(HOOKS, fail))()


@pytest.mark.parametrize("order", [1, -1])
async def test_an_observer_that_raises_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, order: int
) -> None:
    book = Book()
    gateway, _, _ = scripted(
        monkeypatch, status(429), status(200), status(429), observers=[book, FAILING][::order]
    )

    assert await CALLS["cancel_order"](gateway) == {}
    with pytest.raises(RateLimitedError):
        await CALLS["cancel_order"](gateway)

    attempts = [event for event in book.events if event[0] == "attempt"]
    told = len(book.events) + len(attempts)  # which have begun, too
    assert (len(book.events), len(attempts)) == (5 + 7, 2 + 3)
    logged = [record for record in caplog.records if record.name == "gateway_sdk"]
    assert [(record.levelname, record.getMessage()) for record in logged] == [
        ("ERROR", "an observer failed")
    ] * told
    assert {record.exc_info and record.exc_info[0] for record in logged} == {ZeroDivisionError}


@pytest.mark.parametrize("method", HOOKS)
def test_an_observer_with_async_methods_is_refused(method: str) -> None:
    async def later(*_: object) -> None:
        raise AssertionError

    observer = type("Later", (Observer,), {method: later})()

    with pytest.raises(ConfigurationError, match=rf"^Later\.{method} is async"):
        GatewaySession("https://gateway.test", access_token="t", observers=[Book(), observer])


class Leaving(Book):
    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where

    def _note(self, event: str, call: CallInfo, *rest: object) -> None:
        super()._note(event, call, *rest)
        if event == self._where:
            raise asyncio.CancelledError


@pytest.mark.parametrize("where", ["started", "attempt", "finished"])
@pytest.mark.parametrize("order", [1, -1])
async def test_who_hears_of_the_start_hears_of_the_end(
    monkeypatch: pytest.MonkeyPatch, where: str, order: int
) -> None:
    """A call that an observer ends by a BaseException is told as begun and as ended, or not."""
    book, leaving = Book(), Leaving(where)
    gateway, _, _ = scripted(monkeypatch, status(200), observers=[book, leaving][::order])

    with pytest.raises(asyncio.CancelledError):
        await CALLS["cancel_order"](gateway)

    never = where == "started" and order == -1  # it comes after the one that raised
    for observer in (book, leaving):
        told = [event[0] for event in observer.events if event[0] != "attempt"]
        assert told == ([] if observer is book and never else ["started", "finished"])
