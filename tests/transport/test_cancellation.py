"""A call can be cancelled wherever it waits: nothing is left, lost, or sent afterwards."""

import asyncio
import itertools
import socket
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import pytest

from gateway_sdk import GatewaySession, Outcome, RateLimit
from tests.support.calls import Call
from tests.support.certificates import Authority
from tests.support.failing_server import FailingServer, Line, Script
from tests.support.failing_steps import HEAD, be_quiet, turns
from tests.support.truth import open_session
from tests.support.witness import Record, Witness, lies


class How(Enum):
    AT_ONCE = "as soon as it is suspended"
    LATE = "in the turn in which what it waited for has happened"
    BY_TURN = "after so many turns of the event loop"


class Cut:
    """Runs a coroutine and cancels its task once."""

    def __init__(
        self, work: Coroutine[Any, Any, Any], number: int, how: How, measure: Callable[[], int]
    ) -> None:
        self._work = work
        self._number = number
        self._how = how
        self._measure = measure
        # Whether it was cancelled; else the coroutine ended before it came to that.
        self.done = False
        self.left = 0  # what *measure* returned at that moment

    async def run(self) -> Any:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        if self._how is How.BY_TURN:
            self._wait_and_cut(self._number)
            return await self._work
        return await self

    def __await__(self) -> Generator[Any, Any, Any]:
        thrown: BaseException | None = None
        for number in range(1, 100_000):
            try:
                awaited = self._work.throw(thrown) if thrown else self._work.send(None)
            except StopIteration as end:
                return end.value
            if number == self._number:
                if self._how is How.LATE and awaited is not None:
                    awaited.add_done_callback(self._cut)  # before the task's own
                else:
                    self._cut()
            thrown = None
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001 - it is the coroutine's
                thrown = error
        raise AssertionError

    def _wait_and_cut(self, turns: int) -> None:
        loop = asyncio.get_running_loop()
        if turns:
            loop.call_soon(self._wait_and_cut, turns - 1)
        elif not self._task.done():
            self._cut()

    def _cut(self, _: object = None) -> None:
        self.done = True
        self.left = self._measure()
        self._task.cancel()


class SentBytes:
    """Counts what this process hands to its sockets for a port."""

    _SENDING: Final = [name for name in ("send", "sendmsg") if hasattr(socket.socket, name)]
    _FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.port = 0
        self._number = 0
        for name in self._SENDING:
            monkeypatch.setattr(socket.socket, name, self._counting(getattr(socket.socket, name)))

    def __call__(self) -> int:
        return self._number

    def _counting(self, send: Callable[..., int]) -> Callable[..., int]:
        def counting(sock: socket.socket, *args: Any) -> int:
            number = send(sock, *args)
            # The event loop wakes itself through a socket that has no port.
            if sock.family in self._FAMILIES and sock.getpeername()[1] == self.port:
                self._number += number
            return number

        return counting


SIBLING: Final = "sibling"
VICTIM: Final = "victim"
PROBE: Final = "probe"


UPLOADS: Final[dict[str, Call]] = {
    "upload_document": lambda gateway: gateway.aml.upload_document(bytes(1_000_000))
}


async def slow_token() -> str:
    await turns(2)
    return "token"


async def slow_sleep(seconds: float) -> None:
    await turns(2)


@dataclass(frozen=True)
class Place:
    """Where a call waits."""

    operation: str
    options: Mapping[str, Any] = field(default_factory=dict)  # of its session
    connections: int = 2  # of its session at the most; one of them is its sibling's
    used: bool = False  # whether its connection was used before
    released: bool = False  # whether the sibling ends while the call waits
    secure: bool = False  # whether the connection is one of TLS


PLACES: Final[dict[str, Place]] = {
    "a fresh connection": Place("create_customer"),
    "a used connection": Place("create_customer", used=True),
    "the gate": Place("create_customer", connections=1, released=True),
    "the rate limiter": Place("create_customer", {"rate_limit": RateLimit(1, 0.01)}, used=True),
    "a TLS handshake": Place("create_customer", secure=True),
    "a body that is sent": Place("upload_document"),
    "a body that drips": Place("order_history", used=True),
    "the back-off": Place("cancel_order", used=True),
    "the token source": Place("create_customer", {"access_token": slow_token}, used=True),
}


MOMENTS: Final = [
    pytest.param(name, how, id=f"{name}-{how.name}")
    for name in PLACES
    for how in How
    # The limiter waits for the clock, in which time an event loop turns any number of times.
    if (name, how) != ("the rate limiter", How.BY_TURN)
]


def attending(place: str) -> Script:
    """Return a script that answers as a place needs it, siblings late and probes together."""
    together = PLACES[place].connections

    async def script(line: Line) -> None:
        ledger = line.server
        while await line.request():
            call = line.receipts[-1].call
            if call == SIBLING:
                await ledger.may_go_on.wait()
            if call == PROBE:
                await ledger.until(lambda: len(ledger.of(PROBE)) % together == 0)
            if call == VICTIM and place == "a body that drips":
                await line.send(HEAD + b"Content-Length: 18\r\n\r\n")
                for _ in range(10):
                    await line.send(b" ")
                    await asyncio.sleep(0)
                await line.send(b'"victim"')
                line.at_rest = True
            elif call == VICTIM and place == "the back-off" and len(ledger.of(VICTIM)) == 1:
                await line.answer(503)
            else:
                await line.answer()

    return script


@dataclass
class Scene:
    gateway: GatewaySession
    server: FailingServer
    witness: Witness
    place: Place

    async def probe(self) -> None:
        probes = [
            asyncio.create_task(self.witness.call(self.gateway, "order_history", PROBE))
            for _ in range(self.place.connections)
        ]
        for record in await asyncio.gather(*probes):
            assert record.value == PROBE


async def cut_once(scene: Scene, number: int, how: How, sent: SentBytes) -> bool:
    """Cancel a call at one place; tell whether it came to that."""
    gateway, server, witness = scene.gateway, scene.server, scene.witness
    if scene.place.used:
        await scene.probe()
    sibling = asyncio.create_task(witness.call(gateway, "order_history", SIBLING))
    await server.until(lambda: len(server.of(SIBLING)) == 1)
    before = sent()
    cut = Cut(
        witness.call(gateway, scene.place.operation, VICTIM, UPLOADS.get(scene.place.operation)),
        number,
        how,
        sent,
    )
    victim = asyncio.create_task(cut.run())
    if scene.place.released:
        await turns(3)
        server.may_go_on.set()
    await asyncio.wait([victim])
    assert victim.cancelled() == cut.done
    record = next(record for record in witness.records if record.call == VICTIM)

    server.may_go_on.set()
    assert (await sibling).value == SIBLING
    assert len((await sibling).attempts) == 1
    await scene.probe()
    await be_quiet(server)
    # On uvloop no byte is counted: it does not send through Python's sockets.
    counted = isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop)
    nothing_left = counted and not scene.place.secure and cut.left == before
    check(record, cut, server, nothing_left=nothing_left)
    return cut.done


def check(record: Record, cut: Cut, server: FailingServer, *, nothing_left: bool) -> None:
    said = max((attempt.outcome for attempt in record.attempts), default=Outcome.NOT_SENT)
    came = [receipt for receipt in server.receipts if receipt.call in {VICTIM, None}]

    assert lies(record, came) == []
    assert record.outcome is said
    if cut.done and nothing_left:
        assert said is Outcome.NOT_SENT
        assert not came
    if not cut.done:
        assert record.value == VICTIM


@pytest.mark.posix  # what is sent is counted where Windows' loop does not send
@pytest.mark.parametrize(("name", "how"), MOMENTS)
async def test_a_call_can_be_cancelled_wherever_it_waits(
    monkeypatch: pytest.MonkeyPatch, authority: Authority, name: str, how: How
) -> None:
    """At each of its suspensions: its slot comes back, nothing stays, nothing is sent later."""
    place, sent = PLACES[name], SentBytes(monkeypatch)
    tls = authority.server("127.0.0.1") if place.secure else None
    for number in itertools.count(1):
        witness = Witness()
        async with FailingServer(attending(name), tls=tls) as server:
            sent.port = server.port
            async with open_session(
                server.url,
                witness,
                max_connections=place.connections,
                verify=authority.path,
                **place.options,
            ) as gateway:
                gateway._caller.shared.sleep = slow_sleep
                scene = Scene(gateway, server, witness, place)
                if not await cut_once(scene, number, how, sent):
                    break
    assert number > 1
