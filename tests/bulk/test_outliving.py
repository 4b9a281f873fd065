"""Tasks that outlive the items that started them, and errors that hold what they should not."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_sdk import GatewayError, GatewaySession, RetryPolicy, bulk
from gateway_sdk._call.events import ITEMS

ITEMS_OF_A_RUN = range(40)
JOURNALS = [False, True]


def gateway_that(answer: Any, **options: Any) -> GatewaySession:
    transport = httpx.MockTransport(answer)
    given = {"retry": None, **options}
    return GatewaySession("https://g.test", access_token="t", transport=transport, **given)


def settings(journal: bool, folder: Path) -> dict[str, Any]:
    return {"journal": folder / "run", "job": "test"} if journal else {}


async def done(results: AsyncIterator[bulk.BulkResult[Any, Any]]) -> list[Any]:
    return [result.value async for result in results]


@pytest.mark.parametrize("concurrency", [4, "adaptive"])
@pytest.mark.parametrize("journal", JOURNALS)
async def test_a_task_that_outlives_its_item_works_on(
    tmp_path: Path, journal: bool, concurrency: Any
) -> None:
    """Its ONCE call is sent, is none of the item's, and destroys no result of any run."""
    left: list[asyncio.Task[None]] = []
    sent: list[httpx.Request] = []
    item_is_over = asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(202)

    async with gateway_that(answer) as gateway:

        async def later() -> None:
            await item_is_over.wait()
            await gateway.kyc.send_webhook()

        async def item(number: int) -> int:
            left.append(asyncio.create_task(later()))
            return number

        given = {"concurrency": concurrency, **settings(journal, tmp_path)}
        first = await done(bulk.run(item, ITEMS_OF_A_RUN, **given))
        item_is_over.set()
        await asyncio.gather(*left)
        again = await done(bulk.run(item, ITEMS_OF_A_RUN, **given))
        await asyncio.gather(*left)

    assert sorted(first) == sorted(again) == list(ITEMS_OF_A_RUN)
    assert len(sent) == len(left) == (40 if journal else 80)


async def test_a_worker_that_an_item_started_may_write_after_the_run(tmp_path: Path) -> None:
    """It was started in the context of an item, whose journal is closed by now."""
    queue: asyncio.Queue[asyncio.Future[Any]] = asyncio.Queue()
    workers: list[asyncio.Task[None]] = []

    async with gateway_that(lambda _: httpx.Response(200, json={"id": 1})) as gateway:

        async def work() -> None:
            while True:
                (await queue.get()).set_result(await gateway.aml.upload_document(b"x"))

        async def item(number: int) -> int:
            workers[:] = workers or [asyncio.create_task(work())]
            return number

        await done(bulk.run(item, [1], **settings(journal=True, folder=tmp_path)))
        answer = asyncio.get_running_loop().create_future()
        queue.put_nowait(answer)
        assert await answer == {"id": 1}
        workers[0].cancel()


async def test_an_item_that_has_ended_notes_nothing_more() -> None:
    """Else the calls of a task that it left behind would be kept for as long as that task runs."""
    [observer] = [None]
    calls = asyncio.Event()

    async with gateway_that(lambda _: httpx.Response(200, json=[])) as gateway:

        async def ask() -> None:
            await calls.wait()
            for _ in range(5):
                await gateway.country_data.list_countries()

        async def item(number: int) -> asyncio.Task[None]:
            nonlocal observer
            [observer] = ITEMS.get()
            await gateway.country_data.list_countries()
            return asyncio.create_task(ask())

        [task] = await done(bulk.run(item, [1]))
        calls.set()
        await task

    noted: Any = observer
    assert noted.attempts == len(noted._calls) == 1


async def test_a_call_that_is_cancelled_in_its_back_off_holds_no_place() -> None:
    """The adaptive run waited for its retry without end."""
    waiting = asyncio.Event()
    left: list[asyncio.Task[Any]] = []
    policy = RetryPolicy(backoff=100.0, jitter=0.0, backoff_max=100.0)

    async def busy(request: httpx.Request) -> httpx.Response:
        for _ in range(5):  # some of the items are over then
            await asyncio.sleep(0)
        return httpx.Response(503)

    gateway = gateway_that(busy, retry=policy)

    async def sleep(_: float) -> None:
        await waiting.wait()

    gateway._caller.shared.sleep = sleep

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


async def test_a_failed_result_holds_no_frames() -> None:
    """Nor do its causes: a frame keeps all local variables, of some thousand items."""

    class Large:
        pass

    kept: list[weakref.ref[Large]] = []

    async def item(_: int) -> None:
        large = Large()
        kept.append(weakref.ref(large))
        try:
            int("large")
        except ValueError as cause:
            raise LookupError from cause

    async with aclosing(bulk.run(item, range(20))) as run:
        results = [result async for result in run]
    gc.collect()

    assert {type(result.error) for result in results} == {LookupError}
    assert [reference() for reference in kept] == [None] * 20


class _OwnEnd(BaseException):
    pass


async def test_an_end_of_the_users_own_does_not_look_complete() -> None:
    """A BaseException of an asynchronous iterable ends the run with it."""

    async def items() -> AsyncIterator[int]:
        yield 1
        raise _OwnEnd

    async def item(number: int) -> int:
        return number

    with pytest.raises(_OwnEnd):
        await done(bulk.run(item, items()))


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
    with pytest.raises(GatewayError, match="ended by a cancellation"):
        await anext(run)
    await run.aclose()


async def test_calls_in_another_thread_tell_the_controller_nothing() -> None:
    """Its times are those of the run's event loop; the attempts are counted all the same."""

    def ask(number: int) -> int:
        async def call() -> None:
            async with gateway_that(lambda _: httpx.Response(200, json=[])) as gateway:
                await gateway.country_data.list_countries()

        asyncio.run(call())
        return number

    async def item(number: int) -> int:
        return await asyncio.to_thread(ask, number)

    results = [result async for result in bulk.run(item, range(8))]

    assert [result.attempts for result in results] == [1] * 8
