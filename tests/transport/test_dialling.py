"""Connecting to the first address that answers, and what is left when it is cancelled."""

import asyncio
import gc
import itertools
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import httpx
import pytest

from gateway_sdk import GatewaySession, RetryPolicy
from gateway_sdk._transport import dial as dialling
from gateway_sdk._transport.dial import Dialler, SocketAddress
from tests.support.calls import CALLS
from tests.support.certificates import Papers
from tests.support.contexts import sockets
from tests.support.failing_steps import turns
from tests.support.proxies import HOST, Gateway
from tests.support.raw_server import serving

pytestmark = pytest.mark.asyncio_loop  # `Names` changes attributes of the loop

FAMILIES: Final = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6}
V4, V6 = FAMILIES


def address(host: str, port: int) -> SocketAddress:
    return FAMILIES[host], socket.SOCK_STREAM, 6, "", (host, port)


class Names:
    """Stands in for the look-up of a name, and for the way to its addresses; one of V4 answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, listener: socket.socket) -> None:
        self.listener = listener
        self.port: int = listener.getsockname()[1]
        self.silent: dict[str, asyncio.Future[None]] = {}
        self.tried: list[str] = []
        loop = asyncio.get_running_loop()
        sock_connect = loop.sock_connect

        async def connecting(sock: socket.socket, place: Any) -> None:
            self.tried.append(place[0])
            if waits := self.silent.get(place[0]):
                await waits
            await sock_connect(sock, place)

        monkeypatch.setattr(loop, "sock_connect", connecting)
        monkeypatch.setattr(dialling, "DELAY", 0.0)

    def dialler(self, *hosts: str) -> Dialler:
        port = self.port

        class Known(Dialler):
            async def addresses(self) -> Sequence[SocketAddress]:
                await asyncio.sleep(0)
                return [address(host, port) for host in hosts]

        return Known("gateway.test", port)

    async def dial(self, *hosts: str) -> str:
        """Return the address that was connected to; no other socket is left then."""
        with (await self.dialler(*hosts)._dial())[1] as end:
            return str(end.getpeername()[0])

    def let_wait(self, host: str) -> asyncio.Future[None]:
        self.silent[host] = asyncio.get_running_loop().create_future()
        return self.silent[host]


@pytest.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Names]:
    with socket.create_server((V4, 0), backlog=500) as listener:
        before = len(sockets())
        yield Names(monkeypatch, listener)
        await turns(5)
        gc.collect()
        assert len(sockets()) == before


async def test_the_first_address_that_answers_wins(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialling, "DELAY", 60.0)
    assert await names.dial(V6, V4) == V4
    assert names.tried == [V6, V4]


async def test_a_silent_address_is_tried_later_for_a_while(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is overtaken, and its socket closed; the one that answered is not preferred."""
    loop, passed = asyncio.get_running_loop(), [0.0]
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + passed[0])
    names.let_wait(V6)
    dialler = names.dialler(V6, V4)
    for seconds, first in ((0.0, V6), (50.0, V4), (10.0, V6)):
        passed[0] += seconds
        names.tried.clear()
        with (await dialler._dial())[1] as end:
            assert end.getpeername()[0] == V4
        assert names.tried[0] == first


PROBES: Final = {"TCP_KEEPIDLE": 3, "TCP_KEEPALIVE": 3, "TCP_KEEPINTVL": 3, "TCP_KEEPCNT": 7}


async def test_the_system_probes_what_is_silent(names: Names) -> None:
    """Set before connecting: some systems do not take it later."""
    with (await names.dialler(V4)._dial())[1] as end:
        assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        found = {
            name: end.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
            for name in PROBES
            if hasattr(socket, name)
        }
        assert found == {name: PROBES[name] for name in found}
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 0


async def test_a_system_that_has_no_such_probes(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "TCP_KEEPCNT", 9999, raising=False)
    assert await names.dial(V4) == V4


@pytest.mark.parametrize("other", [V4, V6], ids=["answers too", "is refused"])
async def test_a_slow_address_is_waited_for(names: Names, other: str) -> None:
    """Of two that answer at once one is kept, and the other one is closed."""
    slow = names.let_wait(V4)
    dialled = asyncio.create_task(names.dial(V4, other))
    while len(names.tried) < 2:
        await turns(1)
    await turns(5)
    slow.set_result(None)
    assert await dialled == V4


async def test_the_families_take_turns(names: Names) -> None:
    """A host whose IPv6 is broken is not tried four times before its IPv4."""
    names.port = 1
    with pytest.raises(OSError, match="no address answers") as caught:
        await names.dial(V6, V6, V4, V4, V4)

    assert names.tried == [V6, V4, V6, V4, V4]
    assert isinstance(caught.value.__cause__, BaseExceptionGroup)
    assert len(caught.value.__cause__.exceptions) == 5


async def test_without_a_thread_for_the_lookup_there_is_no_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The system may refuse more threads; that is a failed lookup, and may pass."""

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(socket.gaierror) as caught:
        await Dialler("gateway.invalid", 80).connect()

    assert caught.value.errno == socket.EAI_AGAIN


async def test_a_cancelled_connect_leaves_no_socket(names: Names) -> None:
    """Wherever it is cancelled: at each turn of the event loop, with one address and with two."""
    cancelled = connected = 0
    names.listener.settimeout(0)
    for number, several in itertools.product(range(60), (False, True)):
        hosts = [V4] * (2 + number % 2 if several else 1)
        call = asyncio.create_task(names.dialler(*hosts).connect())
        await turns(number // 3)
        call.cancel()
        await asyncio.wait([call])
        cancelled += call.cancelled()
        if not call.cancelled():
            connected += 1
            call.result()[1].abort()
        await turns(4)
        with suppress(BlockingIOError):
            while number % 3 == 0:
                names.listener.accept()[0].close()

    assert cancelled > 20
    assert connected > 20


class Server:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        self.answers = threading.Event()
        self.error: OSError | None = None
        look_up = socket.getaddrinfo

        def asked(host: str, port: int, *options: Any, **more: Any) -> Any:
            if more.get("flags"):
                return look_up(host, port, *options, **more)
            self.asked += 1
            self.answers.wait(20)
            if self.error is not None:
                raise self.error
            return [address("127.0.0.1", port)]

        monkeypatch.setattr(socket, "getaddrinfo", asked)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server(monkeypatch)
    yield server
    server.answers.set()


async def test_callers_that_come_together_look_up_once(server: Server) -> None:
    """And those that come a moment later; a caller that goes leaves the others their answer."""
    dialler = Dialler("gateway.test", 1)
    callers = [asyncio.create_task(dialler.addresses()) for _ in range(50)]
    await turns(3)
    callers[0].cancel()
    callers.append(asyncio.create_task(dialler.addresses()))
    await turns(1)
    server.answers.set()

    done = await asyncio.gather(*callers[1:])
    assert done == [[address("127.0.0.1", 1)]] * 50
    assert callers[0].cancelled()
    assert await dialler.addresses() == done[0]
    assert server.asked == 1


async def test_an_answer_is_kept_for_a_moment(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name may move; so may one whose addresses do not answer."""
    server.answers.set()
    dialler, loop, passed = Dialler("gateway.test", 1), asyncio.get_running_loop(), [0.0]
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + passed[0])
    await dialler.addresses()
    with pytest.raises(ConnectionRefusedError):
        await dialler.connect()
    assert server.asked == 1
    await dialler.addresses()
    assert server.asked == 2
    passed[0] = 2.0
    await dialler.addresses()
    assert server.asked == 3


async def test_an_answer_that_came_late_is_kept_from_then(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the calls after a slow look-up would wait for one more, each for as long."""
    dialler, loop, passed = Dialler("gateway.test", 1), asyncio.get_running_loop(), [0.0]
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + passed[0])
    asking = asyncio.create_task(dialler.addresses())
    await turns(3)
    passed[0] = 5.0
    server.answers.set()
    await asking
    await dialler.addresses()

    assert server.asked == 1


async def test_a_failed_look_up_is_an_error_of_each_caller(server: Server) -> None:
    """Of its own, which others do not write to; and the next caller asks again."""
    server.error = socket.gaierror(socket.EAI_NONAME, "not known")
    server.answers.set()
    dialler = Dialler("gateway.test", 1)
    found = await asyncio.gather(*(dialler.addresses() for _ in range(2)), return_exceptions=True)

    assert [getattr(error, "errno", None) for error in found] == [socket.EAI_NONAME] * 2
    assert len({id(error) for error in (*found, server.error)}) == 3
    server.error = None
    assert await dialler.addresses()


SILENT: Final = """
import asyncio, socket, threading
from gateway_sdk import GatewaySession

look_up, asked = socket.getaddrinfo, threading.Event()

def ask(*given, **options):
    if options.get("flags"):
        return look_up(*given, **options)
    asked.set()
    threading.Event().wait()

async def main():
    async with GatewaySession("https://gateway.test", access_token="t", trust_env=False) as gateway:
        call = asyncio.create_task(gateway.country_data.list_countries())
        while not asked.is_set():
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])

socket.getaddrinfo = ask
asyncio.run(main())
"""


def test_a_process_does_not_wait_for_a_look_up() -> None:
    """Where no server of names answers, that takes some ten seconds, or for ever."""
    subprocess.run([sys.executable, "-c", SILENT], check=True, timeout=60)


@pytest.mark.skipif(sys.platform == "darwin", reason="it has one address of loopback")
async def test_an_address_that_accepts_and_never_answers_is_tried_later(
    monkeypatch: pytest.MonkeyPatch, papers: Papers
) -> None:
    """As a load balancer that has lost what is behind it: the next attempt finds the other."""
    gateway = Gateway()
    real = socket.getaddrinfo

    def look_up(_: str, port: int, **options: Any) -> Any:
        if options.get("flags"):
            raise socket.gaierror(socket.EAI_NONAME, "a name")
        return [*real("127.0.0.2", port, **options), *real(V4, port, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    async with serving(gateway.handle, papers.authority.server(HOST)) as port:
        with socket.create_server(("127.0.0.2", port)):
            async with GatewaySession(
                f"https://{HOST}:{port}",
                access_token="t",
                verify=papers.authority.path,
                timeout=httpx.Timeout(5.0, connect=1.0),
                retry=RetryPolicy(backoff=0.0, connect_wait=0.0),
            ) as session:
                assert await CALLS["order_history"](session) == {}

    assert len(gateway.requests) == 1
