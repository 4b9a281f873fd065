"""Runs that fail while requests are in flight that must be sent once: no reply is lost."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest

from gateway_sdk import RetryPolicy, bulk, errors
from tests.bulk.journal.test_intent import creating
from tests.bulk.runs import Memory, created, session
from tests.support import virtual_time


async def take(run: AsyncIterator[Any], seen: list[str]) -> None:
    async for result in run:
        seen.append(result.item)  # noqa: PERF401 - what comes before an error counts


class Halt(BaseException): ...


CREATED, TOO_MANY = httpx.Response(200, json={}), httpx.Response(429)
AWAY = errors.LoginRequiredError("away")
FAILURES: dict[type[BaseException], BaseException | None] = {
    # What the run raises; what the function raises, if it is not the gateway that refuses.
    errors.UnauthorizedError: None,
    errors.OutageError: AWAY,
    Halt: Halt(),
}


@pytest.mark.parametrize(
    ("reply", "end", "state", "seconds"),
    [
        (CREATED, "reply", "done", 10),
        (TOO_MANY, "reply", "interrupted", 10),  # it is not sent again
        (CREATED, "deadline", "unknown", 5),
        (CREATED, "close", "unknown", 2),
    ],
)
@pytest.mark.parametrize("retry", [None, RetryPolicy()])
@pytest.mark.parametrize("failure", FAILURES)
@virtual_time.in_virtual_time
async def test_a_run_that_fails_waits_for_the_replies_to_what_was_sent_once(
    reply: httpx.Response,
    end: str,
    state: str,
    seconds: float,
    retry: RetryPolicy | None,
    failure: type[BaseException],
) -> None:
    """It begins nothing more and cuts what may be repeated; the user may still end it at once."""
    ledger, asked, seen = Memory(), list[str](), list[str]()

    async def answer(request: httpx.Request) -> httpx.Response:
        name = json.loads(request.content or '{"customerName": "read"}')["customerName"]
        asked.append(name)
        await asyncio.sleep({"Ada": 10, "Eve": 1}.get(name, 1000))
        return reply if name == "Ada" else httpx.Response(401)

    async def call(name: str) -> Any:
        if name == "Bob":
            return await gateway.country_data.list_countries()
        if name == "Eve" and (raised := FAILURES[failure]):
            await asyncio.sleep(1)
            raise raised
        return await creating(gateway)(name)

    options: dict[str, Any] = {
        "concurrency": 3,
        "patience": 0,
        "deadline": 5 if end == "deadline" else None,
    }
    async with session(answer, retry=retry) as gateway:
        run: Any = bulk.run(call, ["Ada", "Bob", "Eve", "Dan"], journal=ledger, **options)
        taking = asyncio.ensure_future(take(run, seen))
        await asyncio.wait([taking], timeout=2 if end == "close" else None)
        taking.cancel()
        await asyncio.wait([taking])
        await run.aclose()

    assert taking.cancelled() if end == "close" else isinstance(taking.exception(), failure)
    assert virtual_time.now() == seconds
    assert sorted(asked) == ["Ada", *["Eve"] * (FAILURES[failure] is None), "read"]
    states = {entry.item: entry.state.value for entry in ledger.entries.values()}
    assert states.pop('"Eve"', "interrupted") == "interrupted"
    assert states == {'"Ada"': state}
    assert seen == (["Ada"] if end != "close" and state != "interrupted" else [])


FULL = partial(errors.JournalError, "full")
LOST = "calls unknown: 3; only this run has yielded their results"


async def test_a_ledger_of_the_user_may_raise_its_own_error() -> None:
    ledger = Memory()
    ledger.write = AsyncMock(side_effect=OSError)  # type: ignore[method-assign]

    async with session(created) as gateway:
        with pytest.raises(OSError, match=r"^$"):
            await take(bulk.run(creating(gateway), ["Ada"], journal=ledger), [])


@pytest.mark.parametrize(
    ("refusals", "error", "states"),
    [
        (9, FULL, {"begun": 3}),
        (9, OSError, {"begun": 3}),  # of a ledger of the user
        (1, FULL, {"done": 4}),  # there is room when the run closes
    ],
)
async def test_what_was_done_is_yielded_also_if_it_cannot_be_written(
    refusals: int, error: Callable[[], Exception], states: dict[str, int]
) -> None:
    """It cannot be had again. What only reads is fetched again, and not yielded without a row."""
    ledger, asked, may_answer = Memory(), asyncio.Event(), asyncio.Event()
    write, left = ledger.write, iter(range(refusals))

    async def refusing(entries: Any) -> None:
        is_end = any(entry.state is not bulk.State.BEGUN for entry in entries)
        if is_end and next(left, None) is not None:
            raise error()
        await write(entries)

    async def answer(request: httpx.Request) -> httpx.Response:
        if "Eve" in request.content.decode():
            asked.set()
        await may_answer.wait()
        return created(request)

    async def call(name: str) -> Any:
        if name == "Bob":
            await asked.wait()
            may_answer.set()
            return name
        return await creating(gateway)(name)

    ledger.write, seen = refusing, list[str]()  # type: ignore[method-assign]
    async with session(answer) as gateway:
        run = bulk.run(call, ["Ada", "Cid", "Eve", "Bob"], journal=ledger)
        with pytest.raises(type(error())) as caught:
            await take(run, seen)

    assert sorted(seen) == ["Ada", "Cid", "Eve"]
    assert Counter(entry.state.value for entry in ledger.entries.values()) == states
    told = [str(caught.value), *getattr(caught.value, "__notes__", [])]
    assert any(LOST in text for text in told) is ("begun" in states)
