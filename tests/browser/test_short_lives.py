"""Tokens that last five seconds, and calls that wait half a second, for a minute."""

import asyncio
import time
from dataclasses import dataclass, field

import httpx
import pytest

from gateway_sdk import DeadlineExceededError, GatewayError, GatewaySession
from gateway_sdk.auth import ImplicitFlow, MemoryStore, SharedTokenSource, Token
from gateway_sdk.auth.token import text_of
from tests.browser.foreign_server import CLIENT_ID, ForeignServer
from tests.support import virtual_time

LIFE = 5.0
CALLERS = [5, pytest.param(20, marks=pytest.mark.full)]
DEADLINE = 0.5
MINUTE = 60.0
ROUND_TRIP = 0.04
BEGAN = time.time()
REDIRECT_URI = "http://127.0.0.1:7000/callback"


def now() -> float:
    """Return seconds since 1970 in virtual time."""
    return BEGAN + virtual_time.now()


@dataclass
class World(httpx.AsyncBaseTransport):
    """A person who takes some seconds for each login, a gateway, and a record of both.

    Attributes:
        takes: Seconds for each login.
        windows: The moments at which a window was opened.
        valid: For each token the seconds since 1970 from and until which it works.
        open: Windows that are open now.
        most: The most that were open at once.
        served: Calls that succeeded.
        failures: Each call that failed, with the moments of its beginning and its end.
    """

    takes: float
    windows: list[float] = field(default_factory=list)
    valid: dict[str, tuple[float, float]] = field(default_factory=dict)
    open: int = 0
    most: int = 0
    served: int = 0
    failures: list[tuple[GatewayError, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._server = ForeignServer(int(LIFE))
        self._flow = ImplicitFlow("https://login.test/authorize", CLIENT_ID)

    async def log_in(self) -> Token:
        """Log in at the foreign server as a browser does, after the user's seconds."""
        attempt = self._flow.start(REDIRECT_URI)
        self.windows.append(now())
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            await asyncio.sleep(self.takes)
        finally:
            self.open -= 1
        self._server.token = f"token-{len(self.windows)}"
        _, location = self._server.answer(attempt.url)
        token = self._flow.finish_url(attempt, location, now=now())
        self.valid[text_of(token)] = (now(), now() + LIFE)
        return token

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Accept a token while it is valid."""
        await asyncio.sleep(ROUND_TRIP / 2)
        _, end = self.valid[request.headers["Authorization"].removeprefix("Bearer ")]
        await asyncio.sleep(ROUND_TRIP / 2)
        return httpx.Response(200 if now() < end else 401, json={})

    async def call(self, gateway: GatewaySession) -> None:
        while now() < BEGAN + MINUTE:
            began = now()
            try:
                await gateway.wallet.spot_trading_available_balance()
                self.served += 1
            except GatewayError as error:
                self.failures.append((error, began, now()))
            await asyncio.sleep(0.01)

    def worked(self, moment: float) -> bool:
        """Tell whether a valid token existed at a moment."""
        return any(begins <= moment < ends for begins, ends in self.valid.values())


def live_for_a_minute(takes: float, callers: int) -> World:
    """Let some callers call for a minute, and return the record."""

    async def scenario() -> World:
        world = World(takes)
        source = SharedTokenSource(
            MemoryStore(), world.log_in, clock=now, monotonic=virtual_time.now
        )
        gateway = GatewaySession(
            "https://gateway.test", access_token=source, transport=world, deadline=DEADLINE
        )
        async with gateway:
            await asyncio.gather(*(world.call(gateway) for _ in range(callers)))
        await source.aclose()
        assert world.open == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return world

    return virtual_time.run(scenario())


@pytest.mark.parametrize("callers", CALLERS)
@pytest.mark.parametrize("takes", [0.0, 0.4])
def test_a_quick_login_fails_no_call(takes: float, callers: int) -> None:
    """Each token is renewed in the background, in its last half second: no call fails."""
    world = live_for_a_minute(takes, callers)

    assert world.failures == []
    assert world.most == 1
    assert len(world.windows) == pytest.approx(MINUTE / (0.9 * LIFE + takes), abs=1)
    assert world.served > callers * MINUTE / 0.1


@pytest.mark.parametrize("callers", CALLERS)
@pytest.mark.parametrize("takes", [2.0, 10.0])
def test_a_login_that_takes_longer_than_a_call_opens_one_window(takes: float, callers: int) -> None:
    """Calls fail only while no token is valid, and wait for the same login."""
    world = live_for_a_minute(takes, callers)

    assert {type(error) for error, _, _ in world.failures} == {DeadlineExceededError}
    for _, began, ended in world.failures:
        assert ended - began == pytest.approx(DEADLINE)
        # A token that comes later than this before the deadline is of no use to the call.
        assert not world.worked(ended - ROUND_TRIP)
    assert world.most == 1
    assert len(world.windows) - len(world.valid) in (0, 1)
    assert len(world.windows) == pytest.approx(MINUTE / (0.9 * LIFE + takes), abs=1)
    assert world.served > 0


@pytest.mark.parametrize("callers", CALLERS)
def test_a_person_who_does_not_come_has_one_window(callers: int) -> None:
    """For a minute all calls fail in time, and one login stays open for all of them."""
    world = live_for_a_minute(takes=3600, callers=callers)

    assert len(world.windows) == 1
    assert world.served == 0
    assert len(world.failures) == pytest.approx(callers * MINUTE / (DEADLINE + 0.01), rel=0.05)
    assert {type(error) for error, _, _ in world.failures} == {DeadlineExceededError}
