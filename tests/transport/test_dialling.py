"""Connecting to the first address that answers, and what is left when it is cancelled."""

import asyncio
import gc
import itertools
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from gateway_sdk._transport import dial as dialling
from gateway_sdk._transport.dial import Dialler, SocketAddress
from tests.support.failing_steps import turns

pytestmark = pytest.mark.asyncio_loop  # `Names` changes attributes of the loop

FOLDER: Final = Path("/proc/self/fd")
FAMILIES: Final = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6}


def address(host: str, port: int) -> SocketAddress:
    return FAMILIES[host], socket.SOCK_STREAM, 6, "", (host, port)


def open_sockets() -> int:
    if sys.platform != "linux":
        pytest.skip("counts sockets where Linux shows them")
    links = (path.readlink().name for path in FOLDER.iterdir() if path.is_symlink())
    return sum(link.startswith("socket:") for link in links)


class Names:
    """Stands in for the lookup of a name, and for the way to some addresses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.known: list[SocketAddress] = []
        self.dead: dict[str, asyncio.Future[None]] = {}
        self.tried: list[str] = []
        loop = asyncio.get_running_loop()
        sock_connect = loop.sock_connect

        async def connecting(sock: socket.socket, place: Any) -> None:
            self.tried.append(place[0])
            if waits := self.dead.get(place[0]):
                await waits
            await sock_connect(sock, place)

        monkeypatch.setattr(loop, "sock_connect", connecting)

    def dialler(self, port: int) -> Dialler:
        names = self

        class Known(Dialler):
            async def addresses(self) -> Sequence[SocketAddress]:
                await asyncio.sleep(0)
                return names.known

        return Known("gateway.test", port)

    async def dial(self, port: int) -> socket.socket:
        return await self.dialler(port)._dial()

    def silent(self, host: str) -> asyncio.Future[None]:
        self.dead[host] = asyncio.get_running_loop().create_future()
        return self.dead[host]


@pytest.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


async def test_the_first_address_that_answers_wins(names: Names) -> None:
    """One that is refused costs no time."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        names.known = [address("::1", port), address("127.0.0.1", port)]
        with await names.dial(port) as end:
            assert end.getpeername()[0] == "127.0.0.1"

    assert names.tried == ["::1", "127.0.0.1"]


async def test_a_silent_address_is_overtaken(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while the next one is tried beside it, and its socket is closed."""
    monkeypatch.setattr(dialling, "DELAY", 0.01)
    before = open_sockets()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        names.silent("::1")
        names.known = [address("::1", port), address("127.0.0.1", port)]
        with await names.dial(port) as end:
            assert end.getpeername()[0] == "127.0.0.1"
    await turns(3)

    assert open_sockets() == before


async def test_a_slow_address_is_waited_for_when_all_others_failed(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialling, "DELAY", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        slow = names.silent("127.0.0.1")
        names.known = [address("127.0.0.1", port), address("::1", port)]
        dialled = asyncio.create_task(names.dial(port))
        while len(names.tried) < 2:
            await turns(1)
        await turns(5)
        slow.set_result(None)
        (await dialled).close()


async def test_the_families_take_turns(names: Names) -> None:
    """A host whose IPv6 is broken is not tried four times before its IPv4."""
    hosts = ["::1", "::1", "127.0.0.1", "127.0.0.1", "127.0.0.1"]
    names.known = [address(host, 1) for host in hosts]
    with pytest.raises(OSError, match="no address answers") as caught:
        await names.dial(1)

    assert names.tried == ["::1", "127.0.0.1", "::1", "127.0.0.1", "127.0.0.1"]
    assert isinstance(caught.value.__cause__, BaseExceptionGroup)
    assert len(caught.value.__cause__.exceptions) == 5


async def test_of_two_that_answer_at_once_one_is_kept(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is closed."""
    monkeypatch.setattr(dialling, "DELAY", 0.0)
    before = open_sockets()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        go_on = names.silent("127.0.0.1")
        names.known = [address("127.0.0.1", port)] * 2
        dialled = asyncio.create_task(names.dial(port))
        while len(names.tried) < 2:
            await turns(1)
        go_on.set_result(None)
        (await dialled).close()
    await turns(3)

    assert open_sockets() == before


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


async def test_a_cancelled_connect_leaves_no_socket(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is cancelled: at each turn of the event loop, with one address and with two."""
    monkeypatch.setattr(dialling, "DELAY", 0.0)
    before, cancelled, connected = open_sockets(), 0, 0
    with socket.create_server(("127.0.0.1", 0), backlog=500) as listener:
        port = listener.getsockname()[1]
        for number, several in itertools.product(range(60), (False, True)):
            names.known = [address("127.0.0.1", port)] * (2 + number % 2 if several else 1)
            call = asyncio.create_task(names.dialler(port).connect())
            await turns(number // 3)
            call.cancel()
            await asyncio.wait([call])
            cancelled += call.cancelled()
            if not call.cancelled():
                connected += 1
                call.result().abort()
            await turns(4)
            while number % 3 == 0:
                try:
                    listener.settimeout(0)
                    listener.accept()[0].close()
                except BlockingIOError:
                    break
    await turns(5)
    gc.collect()

    assert cancelled > 20
    assert connected > 20
    assert open_sockets() == before


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
    server.answers.set()

    done = await asyncio.gather(*callers[1:], dialler.addresses())
    assert done == [[address("127.0.0.1", 1)]] * 50
    assert callers[0].cancelled()
    assert await dialler.addresses() == done[0]
    assert server.asked == 1
    dialler.close()


async def test_an_answer_is_kept_for_a_moment(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name may move; so may one whose addresses do not answer."""
    server.answers.set()
    dialler, later = Dialler("gateway.test", 1), list[Any]()
    monkeypatch.setattr(
        asyncio.get_running_loop(), "call_later", lambda *given: later.append(given)
    )
    await dialler.addresses()
    await turns(2)
    ((seconds, drop, *what),) = later
    assert seconds == 2.0
    with pytest.raises(ConnectionRefusedError):
        await dialler.connect()
    assert server.asked == 1
    await dialler.addresses()
    assert server.asked == 2

    drop(*what)  # that of the first answer
    await dialler.addresses()
    assert server.asked == 2
    await turns(2)
    later[1][1](*later[1][2:])
    await dialler.addresses()
    assert server.asked == 3
    dialler.close()


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
    dialler.close()


async def test_a_look_up_takes_no_thread_of_the_loop(server: Server) -> None:
    """Uploads and journals use those."""
    dialler = Dialler("gateway.test", 1)
    before = set(threading.enumerate())  # of other tests some end meanwhile
    asking = asyncio.create_task(dialler.addresses())
    while not server.asked:
        await turns(1)
    asking.cancel()
    assert await asyncio.to_thread(threading.current_thread)
    new = [thread.name for thread in threading.enumerate() if thread not in before]
    assert new.count("gateway_sdk look-up_0") == 1
    server.answers.set()
    dialler.close()
