"""What a run says of an item that made several calls, and what the next one says of its row."""

from collections.abc import AsyncIterator
from contextlib import nullcontext, suppress
from itertools import product
from typing import Any

import httpx
import pytest

from gateway_sdk import Advice, Outcome, bulk, errors
from tests.bulk.runs import Memory, refused, session
from tests.support.calls import CALLS

NAMES = ("list_countries", "create_customer", "cancel_order", "update_document")
ENDS: dict[str, httpx.Response | Exception] = {
    "done": httpx.Response(200, json=[]),
    "refused": httpx.Response(404),
    "away": httpx.Response(503),
    "no reply": httpx.Response(200, text="<html>"),
    "lost": httpx.ReadError("cut"),
}


def answer(request: httpx.Request) -> httpx.Response:
    end = ENDS[request.headers.get("end", "done")]
    if isinstance(end, Exception):
        raise end
    return end


async def both(call: Any, item: object, **options: Any) -> tuple[Any, Any]:
    """Return the result of an item, and that which the next run has from the ledger."""

    async def only(results: AsyncIterator[Any]) -> Any:
        (result,) = [result async for result in results]
        return result

    ledger = Memory()
    made = await only(bulk.run(call, [item], journal=ledger, patience=0, **options))
    kept = await only(bulk.run(refused, [item], journal=ledger, **options))
    assert (made.from_journal, kept.from_journal) == (False, True)
    return made, kept


def said_of(result: bulk.BulkResult[Any, Any]) -> object:
    error = result.error
    words: object = None
    if isinstance(error, errors.GatewayError):
        words = type(error), error.outcome, error.advice, error.writes, error.summary
        assert (error.outcome, error.advice) == (result.outcome, result.advice)
    return result.outcome, result.advice, result.attempts, words


@pytest.mark.parametrize("caught", [0, 1, 2])
@pytest.mark.parametrize("second", NAMES)
@pytest.mark.parametrize("first", NAMES)
async def test_both_runs_say_the_same_of_an_item_of_two_calls(
    first: str, second: str, caught: int
) -> None:
    """Whether it may be repeated or not, and also if it catches errors and raises its own."""

    async def call(ends: tuple[str, str]) -> None:
        for number, (name, end) in enumerate(zip((first, second), ends, strict=True)):
            with suppress(errors.GatewayError) if number < caught else nullcontext():
                await CALLS[name](gateway.with_options(headers={"end": end}))
        if caught == 2:
            raise errors.GatewayError("of the item")

    async with session(answer) as gateway:
        for ends in product(ENDS, repeat=2):
            made, kept = await both(call, ends)
            assert said_of(made) == said_of(kept)


@pytest.mark.parametrize("error", [KeyError, errors.GatewayError])
@pytest.mark.parametrize("name", NAMES)
async def test_an_item_whose_value_cannot_be_loaded_is_done(name: str, error: Any) -> None:
    """What the gateway did is known, and a request that must not be made twice is not repeated."""

    def load(_: object) -> None:
        raise error

    async with session(answer) as gateway:
        made, kept = await both(lambda _: CALLS[name](gateway), "Ada", load=load)

    assert said_of(made) == said_of(kept)
    assert kept.outcome is Outcome.APPLIED
    assert (kept.advice is Advice.CHECK) is (name == "create_customer")
