"""Workers that die at any point: nothing is lost, stored twice, or made twice."""

import asyncio
from contextlib import suppress
from typing import Any

import httpx
from hypothesis import given, settings, strategies as st

from gateway_sdk.errors import PlanStoreError
from gateway_sdk.fleet import Job, Plan
from gateway_sdk.fleet._store import State
from tests.fleet.gateways import CountingGateway, customer, either, series, session
from tests.support.memory_store import MemoryStore

ITEMS = 7


class DeadError(PlanStoreError):
    """The process has ended: nothing that it does from now on reaches anything."""


class Life:
    """One life of a worker: it dies at a step, before or after the step has had its effect."""

    def __init__(self, steps: int | None) -> None:
        self._left = steps
        self.is_dead = False

    async def step(self, _: str = "") -> None:
        if self._left is not None:
            self._left -= 1
            self.is_dead = self.is_dead or self._left <= 0
        if self.is_dead:
            raise DeadError("dead")


class MortalStore(MemoryStore):
    """The connection of one life to a store that others use too."""

    def __init__(self, truth: MemoryStore, life: Life) -> None:
        super().__init__(batch=truth.batch)
        self.plans, self.items = truth.plans, truth.items
        self.states, self.chunks, self.stored = truth.states, truth.chunks, truth.stored
        self.before = self.after = life.step


class MortalGateway(httpx.AsyncBaseTransport):
    def __init__(self, truth: CountingGateway, life: Life) -> None:
        self._truth = truth
        self._life = life

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass a request on: the worker may die before it arrives, or before the reply."""
        await self._life.step()
        await asyncio.sleep(0)
        reply = await self._truth.handle_async_request(request)
        await self._life.step()
        return reply


def item(number: int) -> dict[str, Any]:
    return customer(number) if number % 3 == 0 else series(number)


def job(store: MemoryStore, concurrency: int = 2) -> Job:
    return Job("mixed", function=either, store=store, concurrency=concurrency, max_starts=10**6)


async def live(
    truth: MemoryStore, gateway: CountingGateway, steps: int | None, at_once: int
) -> None:
    """Run what is missing, until the worker dies or nothing is missing."""
    life = Life(steps)
    with suppress(DeadError):
        plan = await job(MortalStore(truth, life), at_once).load()
        async with session(MortalGateway(gateway, life)) as made:
            async for chunk in plan.missing():
                await plan.run(chunk, made)


async def _plan(truth: MemoryStore, size: int) -> Plan:
    return await job(truth).plan(map(item, range(ITEMS)), chunk=size)


def check(truth: MemoryStore, gateway: CountingGateway) -> None:
    assert {index for _, index in truth.states} == set(range(ITEMS))
    assert len(truth.stored) == len(set(truth.stored))
    for (_, index), record in truth.states.items():
        made = sum(count for body, count in gateway.done.items() if f'"c{index}"' in body)
        if index % 3 == 0:
            assert made <= 1
            assert made == 1 or record.state is State.UNKNOWN
            assert record.state in {State.DONE, State.UNKNOWN}
        else:
            assert record.state is State.DONE


@given(
    deaths=st.lists(st.integers(1, 40), max_size=6),
    size=st.integers(1, ITEMS),
    batch=st.integers(1, 4),
    at_once=st.integers(1, 3),
)
@settings(max_examples=3 * settings().max_examples // 2)
def test_one_worker_after_the_other_dies_at_any_step(
    deaths: list[int], size: int, batch: int, at_once: int
) -> None:
    """What the last life finds missing it does; what may have been sent stays unknown."""

    async def lives() -> None:
        truth, gateway = MemoryStore(batch=batch), CountingGateway()
        await _plan(truth, size)
        for steps in [*deaths, None]:
            await live(truth, gateway, steps, at_once)
        check(truth, gateway)

    asyncio.run(lives())


@given(
    deaths=st.lists(st.integers(1, 40) | st.none(), min_size=2, max_size=4),
    size=st.integers(1, ITEMS),
    batch=st.integers(1, 4),
)
@settings(max_examples=3 * settings().max_examples // 2)
def test_workers_at_the_same_chunks_die_at_any_step(
    deaths: list[int | None], size: int, batch: int
) -> None:
    """A slow twin and its successor run the same chunks at once; one more worker ends the rest."""

    async def lives() -> None:
        truth, gateway = MemoryStore(batch=batch), CountingGateway()
        await _plan(truth, size)
        await asyncio.gather(*(live(truth, gateway, steps, 2) for steps in deaths))
        await live(truth, gateway, None, 2)
        check(truth, gateway)

    asyncio.run(lives())
