"""Connecting to the first address that answers, and what is left when it is cancelled."""

import asyncio
import gc
import itertools
import socket
from pathlib import Path
from typing import Any, Final

import pytest

from gateway_sdk._transport import route
from gateway_sdk._transport.route import SocketAddress, connect, dial
from tests.support.failing_steps import turns

pytestmark = pytest.mark.asyncio_loop  # `Names` changes attributes of the loop

FOLDER: Final = Path("/proc/self/fd")
FAMILIES: Final = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6}


def address(host: str, port: int) -> SocketAddress:
    return FAMILIES[host], socket.SOCK_STREAM, 6, "", (host, port)


def open_sockets() -> int:
    if not FOLDER.exists():
        pytest.skip("counts sockets where Linux shows them")
    links = (path.readlink().name for path in FOLDER.iterdir() if path.is_symlink())
    return sum(link.startswith("socket:") for link in links)


class Names:
    """Stands in for the lookup of names, and for the way to some addresses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.addresses: list[SocketAddress] = []
        self.dead: dict[str, asyncio.Future[None]] = {}
        self.tried: list[str] = []
        loop = asyncio.get_running_loop()
        sock_connect = loop.sock_connect

        async def getaddrinfo(*_: Any, **__: Any) -> list[SocketAddress]:
            await asyncio.sleep(0)
            return self.addresses

        async def connecting(sock: socket.socket, place: Any) -> None:
            self.tried.append(place[0])
            if waits := self.dead.get(place[0]):
                await waits
            await sock_connect(sock, place)

        monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
        monkeypatch.setattr(loop, "sock_connect", connecting)

    def silent(self, host: str) -> asyncio.Future[None]:
        self.dead[host] = asyncio.get_running_loop().create_future()
        return self.dead[host]


@pytest.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


async def test_an_address_needs_no_lookup(names: Names) -> None:
    """Neither a thread nor a name server is asked."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        (await dial("127.0.0.1", listener.getsockname()[1])).close()

    assert names.tried == ["127.0.0.1"]


async def test_the_first_address_that_answers_wins(names: Names) -> None:
    """One that is refused costs no time."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        names.addresses = [address("::1", port), address("127.0.0.1", port)]
        with await dial("gateway.test", port) as end:
            assert end.getpeername()[0] == "127.0.0.1"

    assert names.tried == ["::1", "127.0.0.1"]


async def test_a_silent_address_is_overtaken(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while the next one is tried beside it, and its socket is closed."""
    monkeypatch.setattr(route, "DELAY", 0.01)
    before = open_sockets()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        names.silent("::1")
        names.addresses = [address("::1", port), address("127.0.0.1", port)]
        with await dial("gateway.test", port) as end:
            assert end.getpeername()[0] == "127.0.0.1"
    await turns(3)

    assert open_sockets() == before


async def test_a_slow_address_is_waited_for_when_all_others_failed(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing else left to try."""
    monkeypatch.setattr(route, "DELAY", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        slow = names.silent("127.0.0.1")
        names.addresses = [address("127.0.0.1", port), address("::1", port)]
        dialled = asyncio.create_task(dial("gateway.test", port))
        while len(names.tried) < 2:
            await turns(1)
        await turns(5)
        slow.set_result(None)
        (await dialled).close()


async def test_the_families_take_turns(names: Names) -> None:
    """A host whose IPv6 is broken is not tried four times before its IPv4."""
    hosts = ["::1", "::1", "127.0.0.1", "127.0.0.1", "127.0.0.1"]
    names.addresses = [address(host, 1) for host in hosts]
    with pytest.raises(OSError, match="no address answers") as caught:
        await dial("gateway.test", 1)

    assert names.tried == ["::1", "127.0.0.1", "::1", "127.0.0.1", "127.0.0.1"]
    assert isinstance(caught.value.__cause__, BaseExceptionGroup)
    assert len(caught.value.__cause__.exceptions) == 5


async def test_of_two_that_answer_at_once_one_is_kept(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is closed."""
    monkeypatch.setattr(route, "DELAY", 0.0)
    before = open_sockets()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        go_on = names.silent("127.0.0.1")
        names.addresses = [address("127.0.0.1", port)] * 2
        dialled = asyncio.create_task(dial("gateway.test", port))
        while len(names.tried) < 2:
            await turns(1)
        go_on.set_result(None)
        (await dialled).close()
    await turns(3)

    assert open_sockets() == before


async def test_an_unknown_name_is_an_error_of_the_lookup() -> None:
    """As the system tells it."""
    with pytest.raises(socket.gaierror):
        await dial("gateway.invalid", 80)


async def test_without_a_thread_for_the_lookup_there_is_no_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The system may refuse more threads; that is a failed lookup, and may pass."""

    async def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", refuse)
    with pytest.raises(socket.gaierror) as caught:
        await dial("gateway.invalid", 80)

    assert caught.value.errno == socket.EAI_AGAIN


async def test_a_cancelled_connect_leaves_no_socket(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is cancelled: at each turn of the event loop, with one address and with two."""
    monkeypatch.setattr(route, "DELAY", 0.0)
    before, cancelled, connected = open_sockets(), 0, 0
    with socket.create_server(("127.0.0.1", 0), backlog=500) as listener:
        port = listener.getsockname()[1]
        for number, host in itertools.product(range(60), ("127.0.0.1", "gateway.test")):
            names.addresses = [address("127.0.0.1", port)] * (2 + number % 2)
            call = asyncio.create_task(connect(host, port))
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
