"""The connection of our own, over real sockets: bytes both ways, its ends, and how it is cut."""

import asyncio
import select
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from gateway_sdk._transport.connection import MOST_UNREAD, Connection
from gateway_sdk._transport.dial import LookUps
from gateway_sdk._transport.pool import Pool
from gateway_sdk._transport.route import connect
from tests.support.failing_steps import turns

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends RST."""


class Peer:
    """The other end of a connection: a plain socket in the hands of the test."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end

    async def receive(self, number: int) -> bytes:
        """Receive so many bytes, or as many as come before the end."""
        loop, data = asyncio.get_running_loop(), b""
        while len(data) < number and (part := await loop.sock_recv(self.end, 65536)):
            data += part
        return data

    def reset(self) -> None:
        self.end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.end.close()


@asynccontextmanager
async def connected(
    lost: Callable[[Connection], None] | None = None,
) -> AsyncIterator[tuple[Connection, Peer]]:
    """Open a connection to a socket of the test's own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = await connect("127.0.0.1", listener.getsockname()[1], LookUps(), lost)
        end, _ = listener.accept()
        end.settimeout(0)
        try:
            yield connection, Peer(end)
        finally:
            connection.abort()
            await connection.closed
            end.close()


def fill(connection: Connection) -> int:
    """Write until the system takes no more, and return the number of bytes."""
    number = 0
    while connection.can_write:
        connection.write(bytes(2**20))
        number += 2**20
    return number


async def test_bytes_go_both_ways() -> None:
    """What is written arrives, and what arrives is read."""
    async with connected() as (connection, peer):
        connection.write(b"question")
        connection.write(b"")
        assert await peer.receive(8) == b"question"
        peer.end.send(b"answer")

        assert await connection.read(20) == b"answer"
        assert connection.take() == b""


async def test_the_end_of_a_connection_is_read_after_its_data() -> None:
    """The data come first, then nothing, as often as it is asked for."""
    gone: list[Connection] = []
    async with connected(gone.append) as (connection, peer):
        peer.end.send(b"last")
        peer.end.close()
        await connection.closed

        assert connection.is_ended
        assert connection.is_clean
        assert connection.failure is None
        assert [await connection.read(20) for _ in range(3)] == [b"last", b"", b""]
        assert gone == [connection]


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

        assert connection.is_closing


async def test_a_reset_is_an_error_for_readers_and_writers() -> None:
    """Both learn what the system said."""
    async with connected() as (connection, peer):
        peer.reset()
        with pytest.raises(ConnectionResetError):
            await connection.read(20)
        assert connection.is_closing

    assert isinstance(connection.failure, ConnectionResetError)
    assert not connection.is_clean


async def test_the_time_for_writing_begins_again_with_each_part_that_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A slow network may need more than the time-out for a large piece."""
    size, waits = 24 * 2**20, list[float | None]()
    async with connected() as (connection, peer):

        async def wait(seconds: float | None) -> None:
            waits.append(seconds)
            if len(waits) == 1:
                await peer.receive(size // 2)
            raise TimeoutError

        monkeypatch.setattr(connection, "wait", wait)
        connection.write(bytes(size))
        with pytest.raises(TimeoutError):
            await connection.wait_to_write(20)

    assert waits == [20, 20]


async def test_nothing_comes_for_too_long() -> None:
    """Waiting ends with the time-out, a later one does not come too early, and it goes on."""
    async with connected() as (connection, peer):
        for seconds in (0.05, 0.01, 0.02):
            with pytest.raises(TimeoutError):
                await connection.read(seconds)
        peer.end.send(b"late")

        assert await connection.read(20) == b"late"


async def test_an_old_timer_disturbs_no_later_wait() -> None:
    """A timer may be due while nobody waits, or while somebody waits for longer."""
    async with connected() as (connection, peer):
        peer.end.send(b"1")
        assert await connection.read(0.01) == b"1"
        await asyncio.sleep(0.02)  # the timer of the first read is due meanwhile
        peer.end.send(b"2")
        assert await connection.read(0.01) == b"2"
        reading = asyncio.create_task(connection.read(30))
        await asyncio.sleep(0.02)
        assert not reading.done()
        peer.end.send(b"3")
        assert await reading == b"3"


async def test_a_server_that_does_not_read_makes_the_writer_wait() -> None:
    """Until the system takes more; or for as long as the time-out."""
    async with connected() as (connection, peer):
        size = fill(connection)
        with pytest.raises(TimeoutError):
            await connection.wait(0.01)
        waiting = connection.wait(20)
        assert len(await peer.receive(size)) == size
        await waiting
        assert connection.can_write


async def test_a_writer_that_waits_learns_of_the_end() -> None:
    """A connection that this end cuts is closed for its own writer, too."""
    async with connected() as (connection, _):
        fill(connection)
        waiting = connection.wait(20)
        await turns(2)
        connection.abort()
        await waiting
        assert connection.is_closing


async def test_a_reader_that_does_not_read_makes_the_server_wait() -> None:
    """What nobody has read yet takes a bounded part of the memory, and nothing of it is lost."""
    size = 16 * 2**20
    async with connected() as (connection, peer):
        sending = asyncio.create_task(
            asyncio.get_running_loop().sock_sendall(peer.end, bytes(size))
        )
        await turns(200)
        assert not sending.done()
        assert connection._unread <= 2 * MOST_UNREAD
        received = 0
        while received < size:
            received += len(await connection.read(20))
        await sending


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


@pytest.mark.parametrize("noticed", [True, False], ids=["seen by the loop", "in the system only"])
@pytest.mark.parametrize("what", ENDS)
async def test_what_comes_while_it_is_idle_makes_it_unfit(what: str, *, noticed: bool) -> None:
    """Nobody asked for it; it is seen before the event loop has looked."""
    async with connected() as (connection, peer):
        connection.rest()
        assert connection.is_fit()
        ENDS[what](peer)
        await turns(10 if noticed else 0)

        assert not connection.is_fit()
        assert connection.is_closing == noticed


async def test_what_was_read_already_makes_it_unfit() -> None:
    """A connection with a rest of something is not kept."""
    async with connected() as (connection, peer):
        peer.end.send(b"more than a reply")
        await turns(5)
        assert not connection.is_fit()
        connection.rest()
        assert connection.is_closing


async def test_what_ended_with_its_reply_is_not_kept() -> None:
    """As when a server sends the end of TLS together with the reply."""
    pool = Pool(time.monotonic)
    async with connected() as (connection, peer):
        peer.end.send(b"more than a reply")
        await turns(5)
        pool.add(connection)
        pool.keep(connection, b"origin")

        assert "0 idle" in repr(pool)
        assert pool.take(b"origin") is None


async def test_systems_without_poll_are_asked_with_select(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Windows is."""
    monkeypatch.delattr(select, "poll")
    async with connected() as (connection, peer):
        assert connection.is_fit()
        peer.end.send(b"H")
        assert not connection.is_fit()


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


async def test_a_cut_connection_sends_nothing_more() -> None:
    """What the system had not taken is dropped."""
    async with connected() as (connection, peer):
        size = fill(connection)
        connection.abort()
        try:
            received = len(await peer.receive(size))
        except ConnectionResetError:
            received = 0
    assert received < size


async def test_a_connection_that_breaks_with_nothing_to_read_is_just_broken() -> None:
    """There is nothing to rescue, and no end is made up."""
    async with connected() as (connection, _):
        connection._rescue()
        assert not connection.is_ended
        assert connection.take() == b""
