"""Observers of calls that are cut off, observers that fail, and what is none."""

import asyncio
import logging
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
)
from tests.support.calls import CALLS
from tests.support.observers import Book
from tests.support.scripted import scripted, status
from tests.support.virtual_time import in_virtual_time


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
    """Whoever ends a call that was sent, the observer hears that its outcome is unknown."""
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
    """Raise what an observer may have done wrong."""
    raise ZeroDivisionError("the user's own")


METHODS = [
    "call_started",
    "attempt_started",
    "attempt_finished",
    "retry_scheduled",
    "call_finished",
]
FAILING: Observer = type("Failing", (Observer,), dict.fromkeys(METHODS, fail))()


@pytest.mark.parametrize("order", [1, -1])
async def test_an_observer_that_raises_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    order: int,
) -> None:
    """Its error is logged once for each thing that it was told; all others hear everything."""
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


@pytest.mark.parametrize("method", METHODS)
def test_an_observer_with_async_methods_is_refused(method: str) -> None:
    """They would be called and never awaited: the error names class and method."""

    async def later(*_: object) -> None:
        raise AssertionError

    observer = type("Later", (Observer,), {method: later})()

    with pytest.raises(ConfigurationError, match=rf"^Later\.{method} is async"):
        GatewaySession("https://gateway.test", access_token="t", observers=[Book(), observer])


class Leaving(Book):
    """Raises what is no Exception where it is told to."""

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


@pytest.mark.parametrize(
    ("observers", "message"),
    [
        (None, "an iterable"),
        (5, "an iterable"),
        (Observer(), "an iterable"),
        ([Observer], "instances"),
        ([Observer(), None], "instances"),
        ("observer", "instances"),
        ([FAILING, Book(), FAILING], "different objects"),
        ([print], "instances"),
        ([logging.getLogger()], "instances"),
    ],
)
def test_what_are_no_observers(observers: Any, message: str) -> None:
    """Observers are objects of a subclass, in anything that can be gone through."""
    with pytest.raises(ConfigurationError, match=f"observers must be {message}"):
        GatewaySession("https://gateway.test", access_token="t", observers=observers)
