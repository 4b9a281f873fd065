"""How long, and for what, idle connections are trusted: the policy, and what it does to calls."""

import asyncio
import itertools
import math
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import pytest
from hypothesis import given, strategies as st

from gateway_sdk import GatewayError, GatewaySession, RetryPolicy
from gateway_sdk._transport import pool
from gateway_sdk._transport.connection import Connection
from gateway_sdk._transport.trust import AGE, MOST_REST, SIGN_OF_LIFE, TROUBLED, Trust
from tests.support.calls import CALLS, pass_deadlines
from tests.support.logins import Clock
from tests.support.raw_server import Server, raw_server
from tests.support.relays import Relay
from tests.support.truth import short

READ, ONCE = "order_history", "create_customer"
AT_ONCE: Final = RetryPolicy(backoff=0.0, connect_wait=0.0)


# --- the policy -----------------------------------------------------------------------------

SECONDS: Final = st.floats(0.0, 3.0) | st.floats(0.0, 100.0)


@given(st.lists(st.tuples(st.booleans(), SECONDS, SECONDS), max_size=20))
def test_what_ended_a_connection_is_avoided_until_later_rests_last_longer(
    notes: list[tuple[bool, float, float]],
) -> None:
    trust, shortest, at, ended_at = Trust(), math.inf, 0.0, -math.inf
    for is_end, passed, rest in notes:
        at += passed
        if is_end:
            trust.note_end(at, rest)
            shortest, ended_at = min(shortest, max(rest, 0.25)), at
        else:
            trust.note_rest(at, rest)
            is_later = at - rest >= ended_at
            shortest = math.inf if is_later and rest >= 2 * shortest else shortest
        well_below = max(shortest / 2, shortest - 1.0)  # of 5 s, as at uvicorn and Node: 4 s
        assert trust.most == (min(MOST_REST, well_below) if shortest > 0.25 else 0.0)
        assert trust.has_learned == (shortest < math.inf)


@given(st.booleans(), st.booleans(), SECONDS, SECONDS, SECONDS, SECONDS)
def test_a_longer_rest_needs_a_sign_of_life(
    has_proxy: bool, once: bool, rest: float, unheard: float, lost_at: float, passed: float
) -> None:
    trust = Trust(has_proxy=has_proxy)
    trust.note_loss(lost_at)
    for at, is_troubled in ((lost_at + passed, True), (lost_at + TROUBLED + passed, has_proxy)):
        allowed = trust.allows(at, rest, lambda _: unheard, once=once)
        assert allowed == (not (once and is_troubled) and min(rest, unheard) < SIGN_OF_LIFE)


def test_connections_do_not_all_end_together() -> None:
    lives = {Trust.life() for _ in range(100)}

    assert len(lives) > 90
    assert all(0.8 * AGE <= life <= 1.2 * AGE for life in lives)


# --- what it does to calls ------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Set the clock of the pool, which a busy machine does not move on."""
    clock, began, ticks = Clock(0.0), pool.now(), itertools.count()
    monkeypatch.setattr(pool, "now", lambda: began + clock.now + next(ticks) * 1e-6)
    return clock


@pytest.fixture
def unheard(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Say what the system knows: the seconds since the last acknowledgement."""
    seconds = [0.0]
    monkeypatch.setattr(Connection, "_acknowledgements", lambda _: (False, seconds[0]))
    monkeypatch.setattr(Connection, "unheard", lambda one, _: one._acknowledgements()[1])
    return seconds


class Route:
    def __init__(self, server: Server, relay: Relay, session: GatewaySession) -> None:
        self.server, self.relay, self.session = server, relay, session
        self.outcomes = Counter[str]()

    async def call(self, operation: str, times: int = 1) -> None:
        """Make calls one after the other."""
        for _ in range(times):
            try:
                await CALLS[operation](self.session)
                self.outcomes["ok"] += 1
            except GatewayError as error:
                self.outcomes[error.outcome.name] += 1

    async def open(self, connections: int) -> None:
        """Open so many connections, which come to rest."""
        async with asyncio.TaskGroup() as group:
            for _ in range(connections):
                group.create_task(self.call(READ))
        assert self.relay.made == connections
        self.outcomes.clear()

    async def learn(self, connections: int, clock: Clock) -> None:
        """Let the server end so many connections that have rested for 5 s."""
        await self.open(connections)
        clock.now += 5.0
        self.relay.end_idle()
        await self.until_idle(0)

    @property
    def idle(self) -> int:
        engine: Any = self.session._caller.shared._transport
        return len(engine._pool.idle)

    async def until_idle(self, number: int) -> None:
        async with asyncio.timeout(20):
            while self.idle != number:  # noqa: ASYNC110 - the system has no event for it
                await asyncio.sleep(0.001)


@asynccontextmanager
async def route(*, ends_after: float | None = None, **options: Any) -> AsyncIterator[Route]:
    server = Server()
    async with raw_server(server.handle) as url, Relay(httpx.URL(url).port or 0) as relay:
        relay._ends_after = ends_after
        given = {"access_token": "t", "tenant_id": "acme", "retry": AT_ONCE, **options}
        async with GatewaySession(f"http://127.0.0.1:{relay.port}", **given) as session:
            yield Route(server, relay, session)


@pytest.mark.parametrize("what", ["forget", "reset"])
@pytest.mark.parametrize("operation", [READ, ONCE])
async def test_one_loss_is_enough_to_distrust_all(what: str, operation: str) -> None:
    """Ten idle connections are gone, and new ones work: one call finds out."""
    async with route() as here:
        await here.open(10)
        getattr(here.relay, what)()
        patient = here.session
        here.session = patient.with_options(timeout=short(read=0.2))
        await here.call(operation)
        here.session = patient
        await here.call(operation, 11)

    assert here.outcomes == ({"ok": 12} if operation == READ else {"UNKNOWN": 1, "ok": 11})


@pytest.mark.parametrize(("waited", "is_sign"), [(0.0, False), (2.0, True)])
async def test_a_deadline_that_ends_a_call_late_is_a_sign_too(
    clock: Clock, waited: float, is_sign: bool
) -> None:
    """And one that ends it at once says nothing of the connection."""
    async with route() as here:
        await here.open(3)
        here.relay.forget()
        call = asyncio.create_task(here.call(READ))
        await here.until_idle(2)
        clock.now += waited
        call.cancel()
        await asyncio.wait([call])

        assert here.idle == (0 if is_sign else 2)


async def test_a_slow_server_costs_no_connection(clock: Clock) -> None:
    """Another old connection has served meanwhile, so it is the server that is slow."""
    async with route(retry=None) as here:
        await here.open(3)
        slow = asyncio.create_task(here.call(READ))
        here.server.answer = lambda _: b""
        await here.until_idle(2)
        while len(here.server.requests) < 4:  # noqa: ASYNC110 - a server's matter
            await asyncio.sleep(0.001)
        here.server.answer = Server().answer
        await here.call(READ)
        clock.now += 2.0
        pass_deadlines(here.session)
        await slow

        assert here.outcomes == {"ok": 1, "UNKNOWN": 1}
        assert here.idle == 2


@pytest.mark.parametrize("ends_after", [0.0, 0.002, 0.02])
async def test_a_server_that_ends_each_connection_is_learned(ends_after: float) -> None:
    """Nothing is lost but what is sent before the first sign."""
    async with route(ends_after=ends_after) as here:
        await here.call(ONCE, 30)

    assert here.outcomes["ok"] >= 29
    assert here.outcomes["UNKNOWN"] <= 1


@pytest.mark.usefixtures("unheard")
async def test_the_learned_rest_is_used_and_forgotten(clock: Clock) -> None:
    async with route() as here:
        await here.learn(2, clock)
        await here.call(READ)  # opens the third one
        clock.now += 3.9
        await here.call(READ)
        assert here.relay.made == 3
        clock.now += 4.1
        await here.call(READ)  # opens the fourth one; the third one stays, and is watched
        assert here.relay.made == 4
        clock.now += 6.0
        await here.call(READ)  # the third one has rested for more than 10 s, and is open
        clock.now += 20.0
        await here.call(READ)
        assert here.relay.made == 4

    assert here.outcomes == {"ok": 5}


@pytest.mark.parametrize("operation", [READ, ONCE])
@pytest.mark.parametrize(
    ("rest", "heard", "is_used"),
    [(0.5, 60.0, True), (4.0, 60.0, True), (6.0, 2.0, True), (40.0, 2.0, True), (6.0, 6.0, False)],
)
async def test_a_longer_rest_needs_an_acknowledgement(
    clock: Clock, unheard: list[float], operation: str, rest: float, heard: float, is_used: bool
) -> None:
    async with route() as here:
        await here.open(1)
        clock.now += rest
        unheard[0] = heard
        await here.call(operation)

    assert here.relay.made == (1 if is_used else 2)


@pytest.mark.usefixtures("unheard")
async def test_after_a_loss_only_a_young_reply_counts(clock: Clock) -> None:
    """For ten minutes, and for what must not be sent twice; the pool does not grow meanwhile."""
    steps = [
        (40.0, ONCE, True),  # after which the rest of the lost one is forgotten
        (0.5, ONCE, False),
        (1.1, READ, False),
        (1.1, ONCE, True),
        (1.1, ONCE, True),
        (1.1, ONCE, True),
        (TROUBLED, ONCE, True),
        (1.1, ONCE, False),
    ]
    async with route() as here:
        await here.open(1)
        here.relay.reset()
        await here.call(ONCE)
        await here.call(READ)
        for passed, operation, is_new in steps:
            before, clock.now = here.relay.made, clock.now + passed
            await here.call(operation)
            assert here.relay.made - before == is_new
            assert here.idle <= 2


async def test_one_that_rested_too_long_is_replaced(clock: Clock) -> None:
    """So that the pool does not grow; only the last one stays, to learn what becomes of it."""
    async with route() as here:
        await here.learn(3, clock)
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(here.call(READ))
        clock.now += 4.5
        await here.call(READ)
        assert here.relay.made == 7
        assert here.idle == 3


@pytest.mark.parametrize("size", [1, 3])
async def test_one_that_stays_is_none_too_many(clock: Clock, size: int) -> None:
    """No more connections are idle, at the end of all calls, than may be used at once."""
    async with route(max_connections=size) as here:
        await here.learn(size, clock)
        for _ in range(3):
            async with asyncio.TaskGroup() as group:
                for _ in range(size):
                    group.create_task(here.call(READ))
            assert here.idle <= size
            clock.now += 4.5


@pytest.mark.parametrize("operation", [READ, ONCE])
async def test_what_rests_while_the_machine_sleeps_grows_old(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, operation: str
) -> None:
    """The clock of the system stands still meanwhile; its acknowledgements look young."""
    monkeypatch.setattr(Connection, "_acknowledgements", lambda _: (False, 0.5))
    async with route() as here:
        await here.open(1)
        for number, seconds in enumerate((4.0, 20.0, 60.0)):
            clock.now += seconds  # and not the loop's clock
            await here.call(operation)
            assert here.relay.made == 1 + number


@pytest.mark.parametrize("platform", ["linux", "win32"])
async def test_what_the_system_knows(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    """On Linux the time since the last acknowledgement; elsewhere nothing stands against it."""
    known: list[float] = []
    unheard: Callable[[Connection, float], float] = Connection.unheard

    def noting(connection: Connection, at: float) -> float:
        known.append(unheard(connection, at))
        return known[-1]

    monkeypatch.setattr(Connection, "unheard", noting)
    async with route() as here:
        await here.open(1)
        if platform != sys.platform:
            monkeypatch.setattr(sys, "platform", platform)
        monkeypatch.setattr("gateway_sdk._transport.trust.SIGN_OF_LIFE", 0.0)
        monkeypatch.setattr(pool, "PROVED", 0.0)
        await here.call(ONCE)

    (seconds,) = known
    assert seconds < 60.0
    assert (abs(seconds) < 0.1) or sys.platform == "linux"


async def test_a_proxy_that_forwards_starts_doubted() -> None:
    async with route() as here:
        through = f"http://127.0.0.1:{here.relay.port}"
        async with GatewaySession(
            "http://gateway.test",
            access_token="t",
            tenant_id="acme",
            allow_insecure_http=True,
            proxy=through,
        ) as session:
            for _ in range(3):
                await CALLS[ONCE](session)

    assert here.relay.made == 3
