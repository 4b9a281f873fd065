"""The connection of our own, over real sockets: bytes both ways, its ends, and how it is cut."""

import asyncio
import select
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from gateway_sdk._transport.connection import MOST_UNREAD, Connection
from gateway_sdk._transport.dial import Dialler
from gateway_sdk._transport.engine import Exchange
from gateway_sdk._transport.pool import Pool, now
from gateway_sdk._transport.transmission import Transmission
from gateway_sdk._transport.trust import Trust
from tests.support.failing_steps import turns

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends RST."""


class Peer:
    """The other end of a connection: a plain socket in the hands of the test."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end

    async def receive(self, number: int) -> bytes:
        loop, data = asyncio.get_running_loop(), b""
        while len(data) < number and (part := await loop.sock_recv(self.end, 65536)):
            data += part
        return data

    def reset(self) -> None:
        self.end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.end.close()


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Connection, Peer]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        _, connection = await Dialler("127.0.0.1", listener.getsockname()[1]).connect()
        end, _ = listener.accept()
        end.settimeout(0)
        try:
            yield connection, Peer(end)
        finally:
            connection.abort()
            await connection.closed
            end.close()


@pytest.mark.posix  # the loop of Windows sends otherwise
async def test_a_connection_that_closed_behind_its_last_bytes_can_still_be_cut() -> None:
    """The server ends it while data wait to be sent, and takes them: asyncio's own abort fails."""
    size = 16 * 2**20
    async with connected() as (connection, peer):
        connection.write(bytes(size))
        peer.end.shutdown(socket.SHUT_WR)
        assert await connection.read(20) == b""
        assert len(await peer.receive(size)) == size
        await asyncio.wait_for(connection.closed, 20)

        connection.abort()
        connection.write(b"too late")

        assert connection.is_closing()


@pytest.mark.posix
async def test_the_time_for_writing_begins_again_with_each_part_that_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A slow network may need more than the time-out for a large piece."""
    size, waits = 24 * 2**20, list[float | None]()
    async with connected() as (connection, peer):

        async def wait(seconds: float | None, late: type[Exception]) -> None:
            waits.append(seconds)
            if len(waits) == 1:
                await peer.receive(size // 2)
            raise late("")

        monkeypatch.setattr(connection, "wait", wait)
        exchange = Exchange(connection, Transmission(), httpx.Timeout(20), b"")
        with pytest.raises(httpx.WriteTimeout):
            await exchange.send(bytes(size), size)

    assert waits == [20, 20]


async def test_nothing_comes_for_too_long() -> None:
    """Waiting ends with the time-out, a later one does not come too early, and it goes on."""
    async with connected() as (connection, peer):
        for seconds in (0.05, 0.01, 0.02):
            with pytest.raises(TimeoutError):
                await connection.read(seconds)
        peer.end.send(b"late")

        assert await connection.read(20) == b"late"


async def test_a_shorter_wait_does_not_end_with_the_timer_of_a_longer_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway_sdk._transport.connection._LOOK", 3600.0)
    async with connected() as (connection, peer):
        peer.end.send(b"1")
        assert await connection.read(3600) == b"1"
        reading = asyncio.create_task(connection.read(0.01))
        await asyncio.wait([reading], timeout=20)
        assert isinstance(reading.exception(), TimeoutError)


@pytest.mark.parametrize("seconds", [30, None])
async def test_an_old_timer_disturbs_no_later_wait(seconds: float | None) -> None:
    """A timer may be due while nobody waits, or while somebody waits for longer."""
    async with connected() as (connection, peer):
        peer.end.send(b"1")
        assert await connection.read(0.01) == b"1"
        await asyncio.sleep(0.02)  # the timer of the first read is due meanwhile
        peer.end.send(b"2")
        assert await connection.read(0.01) == b"2"
        reading = asyncio.create_task(connection.read(seconds))
        await asyncio.sleep(0.02)
        assert not reading.done()
        peer.end.send(b"3")
        assert await reading == b"3"


async def test_what_was_paused_may_be_cut_meanwhile() -> None:
    """What came before can still be read."""
    async with connected() as (connection, peer):
        sending = asyncio.create_task(
            asyncio.get_running_loop().sock_sendall(peer.end, bytes(16 * 2**20))
        )
        await turns(200)
        connection.abort()
        assert len(await connection.read(20)) > MOST_UNREAD
        with pytest.raises(ConnectionError):
            await sending


ENDS: dict[str, Callable[[Peer], object]] = {
    "data": lambda peer: peer.end.send(b"H"),
    "an end": lambda peer: peer.end.close(),
    "a reset": Peer.reset,
}


@pytest.mark.parametrize(
    ("noticed", "has_poll"),
    [
        pytest.param(True, True, id="seen by the loop"),
        # wine takes a moment to hand them over.
        pytest.param(False, True, id="in the system only", marks=pytest.mark.posix),
        pytest.param(False, False, id="in a system without poll", marks=pytest.mark.posix),
    ],
)
@pytest.mark.parametrize("what", ENDS)
async def test_what_comes_while_it_is_idle_makes_it_unfit(
    monkeypatch: pytest.MonkeyPatch, what: str, *, noticed: bool, has_poll: bool
) -> None:
    """Nobody asked for it; it is seen before the event loop has looked."""
    if not has_poll:  # as on Windows
        monkeypatch.delattr(select, "poll")
    async with connected() as (connection, peer):
        connection.rest(60.0, now())
        assert connection.end_rest(now())
        ENDS[what](peer)
        await turns(10 if noticed else 0)

        assert not connection.end_rest(now())
        assert connection.is_closing()
        assert connection.has_left


@pytest.mark.posix
async def test_an_end_that_the_loop_has_not_seen_is_no_long_rest() -> None:
    """A program that stands still for a while must not forget what it has learned."""
    trust = Trust()
    pool = Pool(trust, 1)
    async with connected() as (connection, peer):
        trust.note_end(now() - 60.0, 1.0)
        pool.add(connection)
        pool.keep(connection)
        connection.rested_at -= 30.0
        peer.end.close()

        assert pool.take(Transmission()) is None
        assert trust.has_learned


async def test_what_has_a_rest_of_something_is_not_kept() -> None:
    """As when a server sends the end of TLS together with the reply."""
    pool = Pool(Trust(), 1)
    async with connected() as (connection, peer):
        peer.end.send(b"more than a reply")
        await turns(5)
        assert not connection.end_rest(now())
        pool.add(connection)
        pool.keep(connection)

        assert connection.is_closing()
        assert not pool.idle
        assert pool.take(Transmission()) is None


class Receiving:
    """What Windows' loop keeps of a receive that is under way."""

    def __init__(self) -> None:
        self._ov = self
        self.pending = True


@pytest.mark.posix
@pytest.mark.asyncio_loop
async def test_windows_loop_is_asked_whether_it_still_receives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its private parts tell; if asyncio had them no more, no connection would be used again."""
    loop = type(asyncio.get_running_loop())
    monkeypatch.setattr(asyncio, "ProactorEventLoop", loop, raising=False)
    receiving = Receiving()
    async with connected() as (connection, _):
        connection._transport._read_fut = receiving  # type: ignore[attr-defined]
        assert connection.end_rest(now())
        receiving.pending = False
        assert not connection.end_rest(now())
    async with connected() as (connection, _):
        assert not connection.end_rest(now())


@pytest.mark.posix  # Windows forgets what came before a reset
async def test_a_reply_that_came_before_the_connection_broke_is_read() -> None:
    """A server that refuses an upload answers, and resets what it did not read."""
    async with connected() as (connection, peer):
        peer.end.send(b"413")
        peer.reset()  # neither of which the event loop has seen when it writes again
        connection.write(b"a piece")
        connection.write(b"another piece")
        await connection.closed

        assert await connection.read(20) == b"413"
        with pytest.raises(OSError, match=r"pipe|reset"):
            await connection.read(20)


async def test_a_connection_that_breaks_with_nothing_to_read_is_just_broken() -> None:
    """There is nothing to rescue, and no end is made up."""
    async with connected() as (connection, _):
        connection._rescue()
        assert not connection.is_ended
        assert connection.take() == b""
