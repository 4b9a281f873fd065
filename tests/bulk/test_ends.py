"""How runs and items end, what is known of them then, and what outlives them."""

import asyncio
import gc
import itertools
import weakref
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import anyio
import httpx
import pytest

from gateway_sdk import Advice, Outcome, RetryPolicy, bulk, errors
from gateway_sdk._call.events import ITEMS
from tests.bulk.runs import JOB, fetch, keep_values, results_of, rows, same, session
from tests.support import virtual_time


@virtual_time.in_virtual_time
async def test_a_call_that_has_not_had_its_first_step_was_not_begun() -> None:
    """If the deadline passes when a call is about to begin, nothing was sent."""
    call = AsyncMock()

    async with aclosing(bulk.run(call, [1, 2], deadline=5.0, concurrency=1)) as run:
        await anext(run)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual_time.VirtualTimeLoop)
        loop.now += 5.0  # the timer runs directly after the task that begins the call
        error = (await asyncio.ensure_future(anext(run))).error

    assert isinstance(error, errors.DeadlineExceededError)
    assert error.outcome is Outcome.NOT_SENT
    call.assert_called_once_with(1)


def test_a_call_that_cancels_itself_is_a_result() -> None:
    async def call(number: int) -> int:
        if number == 1:
            raise asyncio.CancelledError
        return number

    first, second, third = results_of(call, range(3), ordered=True)

    assert isinstance(second.error, errors.GatewayError)
    assert "cancelled from within" in str(second.error)
    assert (second.outcome, second.advice) == (Outcome.UNKNOWN, Advice.FIX)
    assert [first.value, third.value] == [0, 2]


def test_the_error_of_a_deadline_is_about_no_call() -> None:
    async def call(_: int) -> None:
        await asyncio.sleep(1)

    with pytest.raises(errors.DeadlineExceededError, match="before all items were read") as caught:
        results_of(call, itertools.count(), deadline=5)

    assert (caught.value.outcome, caught.value.advice) == (Outcome.NOT_SENT, Advice.REPEAT)


def test_an_error_that_equal_items_share_does_not_grow() -> None:
    async def fail(_: int) -> None:
        raise ZeroDivisionError

    frames = set()
    for result in results_of(fail, [1, 1, 1], key=str):
        with pytest.raises(ZeroDivisionError) as caught:
            _ = result.value
        frames.add(len(caught.traceback))

    assert len(frames) == 1


def test_a_call_that_does_not_let_itself_be_cancelled_is_waited_for() -> None:
    async def call(number: int) -> int:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return number

    (result,) = results_of(call, [5], deadline=1.0)

    assert result.value == 5


async def test_an_error_from_elsewhere_has_its_own_attempts() -> None:
    async with session(lambda _: httpx.Response(500)) as gateway:
        kept = asyncio.create_task(gateway.country_data.list_countries())
        await asyncio.wait([kept])

    (result,) = [result async for result in bulk.run(lambda _: kept, [1])]
    assert result.attempts == 1


async def test_nothing_is_left_behind_an_asynchronous_iterable_that_waits() -> None:
    blocked = asyncio.Event()

    async def items() -> AsyncIterator[int]:
        yield 1
        blocked.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)

    task = asyncio.create_task(keep_values(bulk.run(same, items()), []))
    await blocked.wait()
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def done(results: AsyncIterator[bulk.BulkResult[Any, Any]]) -> list[Any]:
    return [result.value async for result in results]


class Halt(BaseException): ...


@pytest.mark.parametrize("ordered", [False, True])
async def test_finished_results_are_yielded_before_a_run_fails(path: Path, ordered: bool) -> None:
    halt, stuck = asyncio.Event(), asyncio.Event()
    waiting: list[int] = []
    seen: list[int] = []

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

    async def keep_slowly() -> None:
        run = bulk.run(call, range(6), journal=path, job=JOB, ordered=ordered, concurrency=10)
        async for result in run:
            await halt.wait()
            for _ in range(10):  # turns of the loop, in which the run fails
                await asyncio.sleep(0)
            seen.append(result.value)

    with pytest.raises(Halt):
        await keep_slowly()

    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert sorted(seen) == [2, 3, 4, 5]
    assert sorted(line["item"] for line in rows(path)) == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("end", "error"), [(asyncio.CancelledError(), errors.GatewayError), (Halt(), Halt)]
)
async def test_an_asynchronous_iterable_that_breaks_off_is_an_error(
    end: BaseException, error: type[BaseException]
) -> None:
    """Also if what it waits for was cancelled by others: the run must not look complete."""

    async def items() -> AsyncIterator[int]:
        yield 1
        raise end

    seen: list[int] = []

    with pytest.raises(error) as caught:
        await keep_values(bulk.run(same, items()), seen)

    assert seen == [1]
    assert error is Halt or "items was cancelled from within" in str(caught.value)


@pytest.mark.parametrize("name", ["dump", "load"])
async def test_an_exit_of_dump_or_load_ends_the_run(path: Path, name: str) -> None:
    def leave(_: object) -> Any:
        raise Halt

    with pytest.raises(Halt):
        await fetch(path, range(3), same, concurrency=1, **{name: leave})


async def test_no_call_begins_in_a_run_that_fails() -> None:
    begun: list[int] = []

    async def call(number: int) -> int:
        begun.append(number)
        await asyncio.sleep(0)
        if number == 0:
            raise Halt
        return number

    with pytest.raises(Halt):
        await done(bulk.run(call, [0, 0, 1, 2], key=str, ordered=True, concurrency=1))

    assert begun == [0]


ITEMS_OF_A_RUN = range(40)


@pytest.mark.parametrize("concurrency", [4, "adaptive"])
@pytest.mark.parametrize("journal", [False, True])
async def test_a_task_that_outlives_its_item_works_on(
    path: Path, journal: bool, concurrency: Any
) -> None:
    """Its ONCE call is sent, is none of the item's, and destroys no result of any run.

    Nor does the item keep it: that task may make calls for as long as the process runs.
    """
    left: list[asyncio.Task[Any]] = []
    noted: list[Any] = []
    sent: list[httpx.Request] = []
    item_is_over = asyncio.Event()
    options: dict[str, Any] = {"journal": path, "job": JOB} if journal else {}

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(202)

    async with session(answer) as gateway:

        async def later() -> None:
            await item_is_over.wait()
            await gateway.kyc.send_webhook()

        async def item(number: int) -> int:
            noted.extend(ITEMS.get())
            left.append(asyncio.create_task(later()))
            return number

        for _ in range(2):
            run = bulk.run(item, ITEMS_OF_A_RUN, concurrency=concurrency, **options)
            assert sorted(await done(run)) == [*ITEMS_OF_A_RUN]
            item_is_over.set()
            await asyncio.gather(*left)

    assert len(sent) == len(left) == len(noted) == (40 if journal else 80)
    assert {(one.attempts, len(one._calls)) for one in noted[:40]} == {(0, 0)}


async def test_a_call_that_is_cancelled_in_its_back_off_holds_no_place() -> None:
    """The adaptive run waited for its retry without end."""
    left: list[asyncio.Task[Any]] = []

    async def busy(request: httpx.Request) -> httpx.Response:
        for _ in range(5):  # some of the items are over then
            await asyncio.sleep(0)
        return httpx.Response(503)

    async def sleep(_: float) -> None:
        await asyncio.Event().wait()

    retry = RetryPolicy(backoff=100.0, jitter=0.0, backoff_max=100.0)
    gateway = session(busy, retry=retry, sleep=sleep)

    async def item(number: int) -> int:
        left.append(asyncio.create_task(gateway.country_data.list_countries()))
        for _ in range(number % 10):
            await asyncio.sleep(0)
        if number % 2:
            left[-1].cancel()
        return number

    async with gateway:
        run = bulk.run(item, ITEMS_OF_A_RUN, concurrency=bulk.Adaptive(maximum=2))
        assert sorted(await done(run)) == list(ITEMS_OF_A_RUN)
        for task in left:
            task.cancel()


async def test_a_run_that_wait_for_has_ended_does_not_look_complete() -> None:
    """wait_for cancels the generator, which cannot go on then."""

    async def item(number: int) -> int:
        if number:
            await asyncio.get_running_loop().create_future()
        return number

    run = bulk.run(item, range(5), concurrency=5)

    assert (await anext(run)).value == 0
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(run), 0.01)
    with pytest.raises(errors.GatewayError, match="ended by a cancellation"):
        await anext(run)
    await run.aclose()


async def test_calls_in_another_thread_tell_the_controller_nothing() -> None:
    """Its times are those of the run's event loop; the attempts are counted all the same."""

    async def ask() -> None:
        async with session(lambda _: httpx.Response(200, json=[])) as gateway:
            await gateway.country_data.list_countries()

    run = bulk.run(lambda _: asyncio.to_thread(asyncio.run, ask()), range(8))

    assert [result.attempts async for result in run] == [1] * 8


@pytest.mark.parametrize("turns", range(2, 6))
def test_only_what_has_ended_when_the_program_ends_has_a_row(path: Path, turns: int) -> None:
    """The traceback keeps the run, so asyncio cancels its tasks before it closes the run."""

    async def main() -> None:
        goes_on = asyncio.Event()

        async def call(item: int) -> int:
            if item == 1:
                await goes_on.wait()
            elif item:
                await asyncio.Event().wait()
            return item

        results = bulk.run(call, range(3), journal=path, job=JOB)
        async for _ in results:
            goes_on.set()
            for _ in range(turns):  # until its row is asked for, or is written
                await asyncio.sleep(0)
            raise LookupError

    with pytest.raises(LookupError):
        asyncio.run(main())

    assert [row["item"] for row in rows(path)] == [0, 1]


async def test_a_run_in_a_scope_of_anyio_ends_in_it(path: Path) -> None:
    """The scope cancels in every turn: this reaches no call twice, and leaves no journal open."""
    ended: list[int] = []

    async def call(item: int) -> None:
        scope.cancel()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(item)

    with anyio.CancelScope() as scope:
        async with aclosing(bulk.run(call, [1], journal=path, job=JOB)) as run:
            await anext(run)

    assert ended == [1]
    assert (await fetch(path, [1], same))[1].value == 1


async def test_an_iterable_that_drops_a_cancellation_ends_with_its_run() -> None:
    waiting = asyncio.Event()

    async def items() -> AsyncIterator[int]:
        yield 1
        waiting.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        yield 2

    async with aclosing(bulk.run(same, items())) as run:
        await anext(run)
        await waiting.wait()

    assert asyncio.all_tasks() == {asyncio.current_task()}


@dataclass(frozen=True)
class NoRateError(Exception):
    code: str


async def test_a_failed_result_holds_no_frames(path: Path) -> None:
    """Nor do its causes, groups and what load raises: a frame keeps all local variables."""

    class Large: ...

    kept: list[weakref.ref[Large]] = []

    def keep() -> Large:
        kept.append(weakref.ref(large := Large()))
        return large

    async def part(number: int) -> int:
        large = keep()
        assert large
        if not number:
            return number
        try:
            return int("large")
        except ValueError as cause:
            raise NoRateError("XXX") from cause  # nobody may change its attributes

    async def item(number: int) -> int:
        async with asyncio.TaskGroup() as group:
            return await group.create_task(part(number))

    def load(_: Any) -> None:
        large = keep()
        raise LookupError(bool(large))

    run = bulk.run(item, range(2), journal=path, job=JOB, load=load)
    results = [result async for result in run]
    gc.collect()

    assert {type(result.error) for result in results} == {ExceptionGroup, LookupError}
    assert [reference() for reference in kept] == [None] * 3
