"""Runs that fail while requests are in flight that must be sent once: no reply is lost."""

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest

from gateway_sdk import Advice, Outcome, RetryPolicy, bulk, errors
from tests.bulk.journal.test_intent import creating
from tests.bulk.runs import Memory, created, fetch, refused, same, session
from tests.support import virtual_time
from tests.support.calls import CALLS


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


@pytest.mark.parametrize("journal", [False, True])
@pytest.mark.parametrize("seconds", [3, 1e9])
@virtual_time.in_virtual_time
async def test_what_an_earlier_round_has_sent_holds_up_no_run(
    seconds: float, *, journal: bool
) -> None:
    """In its second round, an item waits for a token: nothing is in flight, nor sent later."""
    tokens, asked = itertools.count(), list[httpx.Request]()

    async def token() -> str:
        await asyncio.sleep(0 if (number := next(tokens)) < 2 else seconds)
        return f"t{number}"

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(401)

    async with session(answer, access_token=token) as gateway:
        ledger = Memory() if journal else None
        run = bulk.run(creating(gateway), ["Ada"], journal=ledger, patience=2)
        with pytest.raises(errors.OutageError):
            await take(run, [])
        await asyncio.sleep(10)

    assert virtual_time.now() == 12
    assert len(asked) == 2


@pytest.mark.parametrize("status", [200, 404])
@pytest.mark.parametrize("together", [[], ["Cid"]])
@pytest.mark.parametrize(("answered", "ended"), [(1, 3), (5, 6)])
@virtual_time.in_virtual_time
async def test_a_function_that_goes_on_after_its_writes_holds_up_no_run(
    answered: float, ended: float, status: int, together: list[str]
) -> None:
    """The run fails after 3 s. Only what was sent before is waited for, and not what follows."""
    ledger = Memory()

    async def answer(_: httpx.Request) -> httpx.Response:
        await asyncio.sleep(answered)
        return httpx.Response(status, json={})

    async def call(name: str) -> None:
        if name == "Bob":
            await asyncio.sleep(3)
            raise Halt
        names = [name, *together]
        await asyncio.gather(*map(creating(gateway), names), return_exceptions=True)
        await asyncio.Event().wait()

    async with session(answer) as gateway:
        with pytest.raises(Halt):
            await take(bulk.run(call, ["Ada", "Bob"], journal=ledger, concurrency=2), [])

    assert virtual_time.now() == ended
    (entry,) = ledger.entries.values()
    assert entry.state == ("interrupted" if status == 404 else "failed")


@pytest.mark.parametrize("journal", [False, True])
@pytest.mark.parametrize("together", [False, True])
@virtual_time.in_virtual_time
async def test_a_run_that_has_failed_sends_no_other_write_of_an_item(
    *, together: bool, journal: bool
) -> None:
    """One that makes several in a row, of which the first was done, says what was done."""
    ledger, asked, found = Memory() if journal else None, list[float](), list[Any]()

    async def answer(_: httpx.Request) -> httpx.Response:
        asked.append(virtual_time.now())
        await asyncio.sleep(2)
        return httpx.Response(200, json={})

    async def call(name: str) -> None:
        if name == "Bob":
            await asyncio.sleep(3)
            raise Halt
        other = asyncio.ensure_future(creating(gateway)(name)) if together else None
        for number in range(30):
            await gateway.kyc.send_webhook({"number": number})
        assert other is None

    async def take_results() -> None:
        async for result in bulk.run(call, ["Ada", "Bob"], journal=ledger, concurrency=2):
            found.append(result)

    async with session(answer) as gateway:
        with pytest.raises(Halt):
            await take_results()

    assert asked == [0.0, *[0.0] * together, 2.0]
    assert virtual_time.now() == 4
    error = found[0].error
    assert "send_webhook: nothing was sent: the run ends" in str(error)
    assert (error.outcome, error.advice) == (Outcome.APPLIED, Advice.CHECK)


@pytest.mark.parametrize(
    ("calls", "states"),
    [
        (["list_countries"], {"done": 5}),
        (["create_customer"], {"done": 5}),
        (["create_customer", "list_countries"], {"done": 2, "failed": 1}),
    ],
)
async def test_a_wrong_setting_ends_the_run_at_once(
    calls: list[str], states: dict[str, int]
) -> None:
    """It is not about one item, and the next run makes all items that did nothing."""
    ledger, tokens = Memory(), itertools.count()

    async def source() -> Any:
        return f"t{number}" if (number := next(tokens)) < 5 else None

    async def call(_: str) -> None:
        for name in calls:
            await CALLS[name](gateway)

    async with session(lambda _: httpx.Response(200, json=[]), access_token=source) as gateway:
        run = bulk.run(call, map(str, range(300)), concurrency=1, journal=ledger)
        with pytest.raises(errors.ConfigurationError):
            await take(run, [])

    assert Counter(entry.state.value for entry in ledger.entries.values()) == states


@pytest.mark.parametrize("error", [errors.ConfigurationError("x"), errors.MissingExtraError("x")])
async def test_a_wrong_setting_that_is_a_result_can_be_mended(path: Path, error: Exception) -> None:
    """The function makes its own session for each item, say."""
    failing = AsyncMock(side_effect=error)
    assert (await fetch(path, ["Ada"], failing))["Ada"].error is error

    assert (await fetch(path, ["Ada"], refused))["Ada"].from_journal
    assert (await fetch(path, ["Ada"], same, retry_failed=True))["Ada"].value == "Ada"


FULL = partial(errors.JournalError, "full")
LOST = "calls unknown: 3; only this run has yielded their results"


async def test_a_ledger_of_the_user_may_raise_its_own_error() -> None:
    ledger = Memory()
    ledger.write = AsyncMock(side_effect=OSError)  # type: ignore[method-assign]

    async with session(created) as gateway:
        with pytest.raises(OSError, match=r"^$"):
            await take(bulk.run(creating(gateway), ["Ada"], journal=ledger), [])


async def test_a_ledger_may_refuse_a_single_item() -> None:
    ledger, seen = Memory(), list[str]()
    failing = errors.InvalidArgumentError("too large")
    ledger.write = AsyncMock(side_effect=[failing, None])  # type: ignore[method-assign]

    async with session(pytest.fail) as gateway:
        await take(bulk.run(creating(gateway), ["Ada"], journal=ledger), seen)

    assert seen == ["Ada"]


@pytest.mark.parametrize(
    ("refusals", "error", "states"),
    [
        (9, FULL, {"begun": 3}),
        (9, OSError, {"begun": 3}),  # of a ledger of the user
        (9, errors.JournalError, {"begun": 3}),  # without a text
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
