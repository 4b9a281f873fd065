"""A session that lives for a month, in virtual time, on a network that breaks each day."""

import asyncio
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from gateway_sdk import GatewayError, GatewaySession, Outcome
from gateway_sdk.models import CreateRequest
from tests.support.certificates import Authority
from tests.support.network import Network, Server
from tests.support.virtual_time import now, run

HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
PAUSES: Final = (0.0, 0.01, 0.3, 0.9, 1.5, 3.0, 4.5, 8.0, 20.0, 45.0, 70.0)
RESTS: Final = (0.002, 0.02, 1.0, 2.0, 5.0, 15.0, 75.0)
FOLLOWS: Final = 145.0
"""Seconds after which nothing is sent to a place that the name has left."""


class Call:
    def __init__(self, name: str, *, once: bool) -> None:
        self.name, self.once, self.began = name, once, now()
        self.ended = self.began
        self.outcome: Outcome | None = None  # None: it succeeded


class Month:
    """The world around a session, and what became of its calls."""

    def __init__(self, network: Network, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - not for secrets
        self.network, self.folder = network, folder
        self.token = "token-0"
        self.calls: list[Call] = []
        self.events: list[tuple[float, str]] = []
        self.told: list[float] = []  # when the client learned from a call that something is wrong
        self.servers: list[Server] = []  # the last one is where the name leads to
        self.left_at: list[float] = []  # when the name led to each of them for the first time
        self.renew()
        self.move()

    # What happens.

    def move(self) -> None:
        """Let the name lead to another server; the old one goes on."""
        server = Server(self.authority.demanding("gateway.test"))
        server.token, server.rest = self.token, self.random.choice(RESTS[2:])
        server.work = lambda: self.random.uniform(0.005, 0.3)
        self.left_at.append(now())
        self.servers.append(server)
        self.network.names["gateway.test"] = server

    def renew(self) -> None:
        """Replace authority, certificate and key on the disk; servers take the new ones only."""
        self.authority = Authority(self.folder, f"authority-{len(self.events)}")
        shutil.copy(self.authority.path, self.folder / "ca.pem")
        for path, name in zip(self.authority.certify("client.test"), ("crt", "key"), strict=True):
            shutil.copy(path, self.folder / f"client.{name}")
        for server in self.servers:
            server.tls = self.authority.demanding("gateway.test")

    def expire(self) -> None:
        self.token = f"token-{len(self.events)}"
        for server in self.servers:
            server.token = self.token

    def restart(self) -> None:
        self.servers[-1].restart(self.random.uniform(0.1, 5.0))

    def change_rest(self) -> None:
        self.servers[-1].rest = self.random.choice(RESTS)

    def forget(self) -> None:
        answers = self.random.random() < 0.5
        for flow in [*self.network.flows]:
            flow.forget(answers=answers)

    def reset(self) -> None:
        for flow in [*self.network.flows]:
            flow.become_foreign()

    def sleep(self) -> None:
        self.network.sleep(self.random.choice((5.0, 30.0, 600.0, 9 * HOUR)))

    # The life of the session.

    async def live(self, bursts: int, seconds: float) -> None:
        events: list[Callable[[], None]] = [self.move, self.renew, self.expire, self.restart]
        events += [self.change_rest, self.forget, self.reset, self.sleep]

        async def token() -> str:
            return self.token

        async with GatewaySession(
            "https://gateway.test",
            access_token=token,
            tenant_id="acme",
            verify=self.folder / "ca.pem",
            cert=(self.folder / "client.crt", self.folder / "client.key"),
        ) as session:
            for _ in range(bursts):
                await asyncio.sleep(self.random.expovariate(bursts / seconds))
                event = self.random.choice(events)
                callers = [self._call_often(session) for _ in range(self.random.choice((1, 1, 5)))]
                await asyncio.gather(*callers, self._happen(event))
                await asyncio.sleep(100)  # what is idle ends
                assert not self.network.flows
            engine: Any = session._caller.shared._transport
            assert not engine._pool.open

    async def _happen(self, event: Callable[[], None]) -> None:
        await asyncio.sleep(self.random.uniform(0.0, 60.0))
        event()
        self.events.append((now(), event.__name__))

    async def _call_often(self, session: GatewaySession) -> None:
        for _ in range(self.random.randint(1, 12)):
            await self._call(session, once=self.random.random() < 0.7)
            await asyncio.sleep(self.random.choice(PAUSES))

    async def _call(self, session: GatewaySession, *, once: bool) -> None:
        call = Call(f"c-{len(self.calls)}", once=once)
        self.calls.append(call)
        view = session.with_options(headers={"X-Call": call.name}, deadline=120)
        try:
            if once:
                await view.customer.create_customer(CreateRequest(external_customer_id=call.name))
            else:
                await view.wallet.spot_trading_available_balance()
        except GatewayError as error:
            call.outcome = error.outcome
            self.told.append(now())
        call.ended = now()

    # The judgement.

    def avoidable(self) -> list[Call]:
        """Return the unknown ones that no event explains: it came later, and a sign before them."""
        return [
            call for call in self.calls if call.outcome is Outcome.UNKNOWN and self._is_new(call)
        ]

    def _is_new(self, call: Call) -> bool:
        at, event = max((one for one in self.events if one[0] <= call.ended), default=(0.0, ""))
        signs = [*self.told, *self.network.losses]
        if event not in ("forget", "reset", "sleep"):  # these are no matter of the server's
            signs += self.network.ends
        return at < call.began and any(at <= sign < call.began for sign in signs)

    def check(self) -> Counter[str]:
        executed = sum((server.executed for server in self.servers), Counter[str]())
        for call in self.calls:
            times = executed[call.name]
            assert call.ended - call.began <= 121
            if call.once:
                assert times <= 1, call.name
                assert times or call.outcome is not None, call.name
                assert not times or call.outcome in (None, Outcome.UNKNOWN), call.name
            else:
                assert call.outcome is None, (call.name, call.outcome)
        assert not self.avoidable()
        for server, left_at in zip(self.servers, self.left_at[1:], strict=False):
            assert server.last_call <= left_at + FOLLOWS
        outcomes = Counter(call.outcome.name if call.outcome else "ok" for call in self.calls)
        outcomes["connections"] = self.network.opened
        return outcomes


async def live(network: Network, folder: Path, seed: int, bursts: int) -> Counter[str]:
    random.seed(seed)
    month = Month(network, folder, seed)
    await month.live(bursts, 30 * DAY)
    return month.check()


def test_a_month(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No write is made twice, no outcome is false, and none is unknown that need not be."""
    outcomes = run(live(Network(monkeypatch), tmp_path, seed=1, bursts=50))

    assert outcomes["ok"] > 10 * outcomes["UNKNOWN"]


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 120))
def test_a_busy_month(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, record_property: Any, seed: int
) -> None:
    outcomes = run(live(Network(monkeypatch), tmp_path, seed, bursts=150))

    record_property("outcomes", dict(outcomes))
