"""How a run ends: at its deadline or by a cancellation from within, and the known outcomes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_sdk import (
    Advice,
    DeadlineExceededError,
    GatewayError,
    GatewaySession,
    Outcome,
    RateLimitedError,
    RetryPolicy,
    bulk,
)
from tests.bulk.journal.journals import rows
from tests.support import virtual_time
from tests.support.calls import CALLS
from tests.support.scripted import scripted

SLOW = 30.0


def test_an_asynchronous_iterable_does_not_outlast_the_deadline() -> None:
    """The run does not wait for an item that may never come."""

    async def items() -> AsyncIterator[int]:
        yield 1
        await asyncio.Event().wait()

    async def call(number: int) -> int:
        await asyncio.sleep(1)
        return number

    async def main() -> tuple[list[int], float]:
        run = bulk.run(call, items(), deadline=3.0)
        return [result.value async for result in run], virtual_time.now()

    assert virtual_time.run(main()) == ([1], 3.0)


def test_a_call_that_has_not_had_its_first_step_was_not_begun() -> None:
    """If the deadline passes when a call is about to begin, nothing was sent."""

    async def call(number: int) -> int:
        assert number == 1
        return number

    async def main() -> Any:
        run = bulk.run(call, [1, 2], deadline=5.0, concurrency=1)
        await anext(run)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual_time.VirtualTimeLoop)
        loop.now += 5.0  # the timer runs directly after the task that begins the call
        result = await asyncio.ensure_future(anext(run))
        await run.aclose()
        return result

    result = virtual_time.run(main())

    assert isinstance(result.error, DeadlineExceededError)
    assert result.error.outcome is Outcome.NOT_SENT


@pytest.mark.parametrize(
    ("calls", "outcome", "is_once"),
    [
        (["create_customer"], Outcome.UNKNOWN, True),
        (["cancel_order"], Outcome.UNKNOWN, False),
        (["list_countries"], Outcome.UNKNOWN, False),
        (["create_customer", "list_countries"], Outcome.APPLIED, True),
    ],
)
def test_what_an_item_did_before_the_deadline_is_known(
    calls: list[str], outcome: Outcome, is_once: bool
) -> None:
    """The error has the operation that was ended, the attempts, and the outcome of the item."""
    replies = [httpx.Response(200, json={}) for _ in calls[1:]]

    async def answer(_: httpx.Request) -> httpx.Response:
        if not replies:
            await asyncio.Event().wait()
        return replies.pop()

    async def main() -> bulk.BulkResult[int, Any]:
        transport = httpx.MockTransport(answer)
        gateway = GatewaySession(
            "http://localhost", access_token="-", tenant_id="acme", transport=transport
        )

        async def call(_: int) -> None:
            for name in calls:
                await CALLS[name](gateway)

        async with gateway:
            return await anext(bulk.run(call, [1], deadline=2.0))

    result = virtual_time.run(main())
    error = result.error

    assert isinstance(error, DeadlineExceededError)
    assert (error.operation, error.outcome) == (calls[-1], outcome)
    assert (len(error.attempts), result.attempts) == (1, len(calls))
    assert (error.advice is Advice.CHECK) is is_once


async def test_a_call_that_cancels_itself_is_a_result() -> None:
    """The other calls and the consumer go on."""

    async def call(number: int) -> int:
        if number == 1:
            raise asyncio.CancelledError
        return number

    results = {result.item: result async for result in bulk.run(call, range(3))}

    assert isinstance(results[1].error, GatewayError)
    assert "cancelled from within" in str(results[1].error)
    assert [results[0].value, results[2].value] == [0, 2]


async def test_a_call_that_does_not_let_itself_be_cancelled_is_waited_for() -> None:
    """Its value is its result, even after the deadline."""

    async def call(number: int) -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return number
        raise AssertionError

    results = [result.value async for result in bulk.run(call, [5], deadline=0.001)]

    assert results == [5]


async def test_attempts_are_those_of_all_calls_of_an_item(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries and a second call count; an error from elsewhere has its own attempts."""
    busy, fine = httpx.Response(429), httpx.Response(200, json=[])
    gateway, _, _ = scripted(monkeypatch, busy, fine, fine, fine)

    async def twice(_: int) -> None:
        await gateway.country_data.list_countries()
        await gateway.country_data.list_countries()

    async with gateway:
        (result,) = [result async for result in bulk.run(twice, [1])]
    assert result.attempts == 3

    gateway, _, _ = scripted(monkeypatch, httpx.Response(429), retry=RetryPolicy(attempts=2))
    async with gateway:
        try:
            await gateway.country_data.list_countries()
        except RateLimitedError as error:
            kept = error

    async def elsewhere(_: int) -> None:
        raise kept

    (result,) = [result async for result in bulk.run(elsewhere, [1])]
    assert result.attempts == 2


async def test_a_run_within_a_run_is_observed_by_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """The outer item counts what the inner items sent, and no other item does."""
    gateway, _, _ = scripted(monkeypatch, httpx.Response(200, json=[]))
    inner: list[int] = []

    async def fetch(_: int) -> None:
        await gateway.country_data.list_countries()

    async def outer(_: int) -> None:
        inner.extend([result.attempts async for result in bulk.run(fetch, range(3))])

    async with gateway:
        (result,) = [result async for result in bulk.run(outer, [1])]

    assert inner == [1, 1, 1]
    assert result.attempts == 3


@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_nothing_is_left_behind_an_asynchronous_iterable(how: str) -> None:
    """Leaving early ends the calls and the reading."""
    blocked = asyncio.Event()

    async def items() -> AsyncIterator[int]:
        yield 1
        yield 2
        blocked.set()
        await asyncio.Event().wait()

    async def call(number: int) -> None:
        if number == 2:
            await asyncio.Event().wait()

    async def consume(leave: Callable[[], bool]) -> None:
        async with aclosing(bulk.run(call, items())) as results:
            async for _ in results:
                if leave():
                    return

    task = asyncio.create_task(consume(lambda: how == "close"))
    if how == "cancel":
        await blocked.wait()
        task.cancel()
    await asyncio.wait([task])

    assert task.cancelled() is (how == "cancel")
    assert asyncio.all_tasks() == {asyncio.current_task()}


class Halt(BaseException):
    """An exception that a job function raises to end everything."""


@pytest.mark.parametrize("ordered", [False, True])
async def test_finished_results_are_yielded_before_a_run_fails(
    tmp_path: Path, ordered: bool
) -> None:
    """Each finished result is yielded before the error of the run, and is in the journal."""
    path = tmp_path / "journal.db"
    halt, stuck, waiting = asyncio.Event(), asyncio.Event(), list[int]()

    async def call(number: int) -> int:
        if number == 0:
            await halt.wait()
            raise Halt
        if number == 1:
            await stuck.wait()
        waiting.append(number)
        if len(waiting) == 4:
            halt.set()
        return number

    seen: list[int] = []

    async def consume() -> None:
        run = bulk.run(call, range(6), journal=path, job="test", ordered=ordered, concurrency=10)
        async for result in run:
            await halt.wait()
            for _ in range(10):  # turns of the loop, in which the run fails
                await asyncio.sleep(0)
            seen.append(result.value)

    with pytest.raises(Halt):
        await consume()

    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert sorted(seen) == [2, 3, 4, 5]
    assert sorted(line["item"] for line in rows(path)) == [2, 3, 4, 5]


@pytest.mark.parametrize("name", ["dump", "load"])
async def test_an_exit_of_dump_or_load_ends_the_run(tmp_path: Path, name: str) -> None:
    """As one of the call does."""

    def leave(_: object) -> Any:
        raise Halt

    async def call(number: int) -> int:
        return number

    settings: dict[str, Any] = {"journal": tmp_path / "j.db", "job": "test", name: leave}
    with pytest.raises(Halt):
        _ = [result async for result in bulk.run(call, range(3), concurrency=1, **settings)]


async def test_no_call_begins_in_a_run_that_fails() -> None:
    """Neither the next item is begun, nor one that equals the failed one."""
    begun: list[int] = []

    async def call(number: int) -> int:
        begun.append(number)
        await asyncio.sleep(0)
        if number == 0:
            raise Halt
        return number

    with pytest.raises(Halt):
        async for _ in bulk.run(
            call, [0, 0, 1, 2], key=lambda item: item, ordered=True, concurrency=1
        ):
            pass

    assert begun == [0]
