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


def test_the_deadline_gives_every_item_its_result() -> None:
    """Finished items have values, calls in flight are ended, and other items say "not begun"."""

    async def call(number: int) -> int:
        await asyncio.sleep(1.0 if number < 4 else SLOW)
        return number

    async def main() -> tuple[list[bulk.BulkResult[int, int]], float]:
        run = bulk.run(call, range(10), concurrency=2, deadline=5.0)
        return [result async for result in run], virtual_time.now()

    results, ended = virtual_time.run(main())

    assert ended == 5.0
    assert sorted(result.item for result in results) == list(range(10))
    by_item = {result.item: result for result in results}
    assert [by_item[number].value for number in range(4)] == [0, 1, 2, 3]
    for number in range(4, 10):
        error = by_item[number].error
        assert isinstance(error, DeadlineExceededError)
        begun = number < 6
        assert error.outcome is (Outcome.UNKNOWN if begun else Outcome.NOT_SENT)
        assert ("nothing was sent" in str(error)) is not begun
        assert "5 s" in str(error)
        assert by_item[number].attempts == 0


def test_items_that_share_a_call_share_its_end() -> None:
    """Equal items of a call that the deadline ended have the same error."""

    async def call(_: int) -> None:
        await asyncio.sleep(SLOW)

    async def main() -> list[Any]:
        run = bulk.run(call, [7] * 5, key=lambda item: item, deadline=1.0)
        return [result async for result in run]

    results = virtual_time.run(main())

    assert len(results) == 5
    assert len({id(result.error) for result in results}) == 1


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


class Silent(httpx.AsyncBaseTransport):
    """Accepts a request and never replies; sets an event when the request has come."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize("operation", ["create_customer", "cancel_order", "list_countries"])
def test_the_outcome_of_a_call_that_the_deadline_ends_is_known(operation: str) -> None:
    """The error has the operation, the attempts and the possible outcome of the call."""

    async def main() -> bulk.BulkResult[int, Any]:
        gateway = GatewaySession(
            "http://localhost", access_token="-", tenant_id="acme", transport=Silent()
        )
        async with gateway:
            run = bulk.run(lambda _: CALLS[operation](gateway), [1], deadline=2.0)
            return await anext(run)

    result = virtual_time.run(main())
    error = result.error

    assert isinstance(error, DeadlineExceededError)
    assert (error.operation, error.outcome) == (operation, Outcome.UNKNOWN)
    assert len(error.attempts) == result.attempts == 1
    assert (error.advice is not Advice.CHECK) is (operation != "create_customer")


class Answering(Silent):
    """Replies to a creation, and to nothing else."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/create"):
            return httpx.Response(200, json={})
        return await super().handle_async_request(request)


def test_what_an_item_did_before_its_end_counts() -> None:
    """A customer was created and a read was in flight: the item must not be repeated."""

    async def main() -> bulk.BulkResult[int, Any]:
        gateway = GatewaySession(
            "http://localhost", access_token="-", tenant_id="acme", transport=Answering()
        )

        async def call(_: int) -> None:
            await gateway.customer.create_customer({})
            await gateway.country_data.list_countries()

        async with gateway:
            return await anext(bulk.run(call, [1], deadline=2.0))

    result = virtual_time.run(main())
    error = result.error

    assert isinstance(error, DeadlineExceededError)
    assert (error.operation, error.outcome) == ("list_countries", Outcome.APPLIED)
    assert error.advice is Advice.CHECK
    assert result.attempts == 2


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


@pytest.mark.parametrize("fails", [False, True])
async def test_progress_is_told_before_each_result(fails: bool) -> None:
    """It counts up to the number of items; an error of the listener is logged."""
    told: list[bulk.Progress] = []

    def tell(progress: bulk.Progress) -> None:
        told.append(progress)
        if fails:
            raise ZeroDivisionError

    async def call(number: int) -> None:
        if number == 1:
            raise GatewayError("no")

    count = 0
    async for _ in bulk.run(call, [0, 1, 2], on_progress=tell):
        count += 1
        assert len(told) == count

    assert [progress.done for progress in told] == [1, 2, 3]
    assert told[-1] == bulk.Progress(done=3, failed=1, from_journal=0, total=3)


async def test_the_total_is_unknown_for_a_generator() -> None:
    """A generator has no length."""
    told: list[Any] = []

    async def call(_: int) -> None: ...

    async for _ in bulk.run(call, iter([1]), on_progress=told.append):
        pass

    assert [progress.total for progress in told] == [None]


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


async def test_an_exit_is_not_a_result() -> None:
    """An exception that ends the process is raised, and ends the other calls."""

    class Leave(BaseException):
        """Not a subclass of Exception."""

    async def call(number: int) -> None:
        if number == 1:
            raise Leave
        await asyncio.Event().wait()

    with pytest.raises(Leave):
        async for _ in bulk.run(call, range(3)):
            pass

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

    assert sorted(seen) == [2, 3, 4, 5]
    assert sorted(line["item"] for line in rows(path)) == [2, 3, 4, 5]


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
