"""Content on its way over the engine: overtaken by its reply, late, cut or cancelled."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, cast

import httpx
import pytest

from gateway_sdk import GatewaySession, Observer, Outcome, ReplyLostError, StatusError
from gateway_sdk._transport.connection import MOST_UNREAD, Connection
from gateway_sdk._transport.transmission import Transmission
from tests.support.calls import CALLS
from tests.support.engines import CHUNK, IDLE, Greedy, Pieces, body_of, engine_at
from tests.support.failing_steps import turns
from tests.support.observers import Book
from tests.support.raw_server import OK, Server, raw_server

LARGE = 20_000_000


EARLY = {
    "413 and closes": OK.replace(b"200 OK", b"413 -\r\nConnection: close"),
    "413": OK.replace(b"200 OK", b"413 -"),
}


@pytest.mark.parametrize("reply", EARLY.values(), ids=EARLY)
async def test_a_reply_that_overtakes_its_content_ends_it(reply: bytes) -> None:
    """The reply counts, the rest is not sent, and the connection is used by nobody else."""
    pieces, server = Pieces(), Greedy(reply)
    async with engine_at(server.handle) as engine:
        response = await engine.send("POST", content=aiter(pieces))
        assert await body_of(response) == b"{}"
        assert IDLE in repr(engine)
        assert response.status_code == int(reply.split()[1])
        given = pieces.given
        server.may_read.set()
        await server.ended.wait()
        assert await body_of(await engine.send()) == b"{}"

    assert pieces.given == given
    assert server.connections == 2


@pytest.mark.parametrize("status", [307, 413])
async def test_a_connection_with_unsent_bytes_is_not_used_again(status: int) -> None:
    server = Greedy(OK.replace(b"200 OK", b"%d -" % status))
    given: dict[str, Any] = {"access_token": "t", "tenant_id": "acme", "retry": None}
    async with raw_server(server.handle) as url, GatewaySession(url, timeout=5, **given) as gateway:
        for name in ("x" * LARGE, "x"):
            with pytest.raises(StatusError) as caught:
                await gateway.customer.create_customer({"customerName": name})
            assert caught.value.status == status

    assert server.connections == 2


@pytest.mark.parametrize("piece", [len(CHUNK), LARGE], ids=["in pieces", "in one"])
@pytest.mark.parametrize("how", ["cancelled", "closed in its reply"])
async def test_an_upload_that_is_given_up_is_cut(how: str, piece: int) -> None:
    """What waits to be sent is thrown away: a server receives far less than all of it."""
    content, server = bytes(LARGE), Greedy(b"" if how == "cancelled" else EARLY["413"][:-2])
    transmission = Transmission()

    async def stream() -> AsyncIterator[bytes]:
        for start in range(0, LARGE, piece):
            yield content[start : start + piece]

    async with engine_at(server.handle) as engine:
        call = asyncio.create_task(engine.send("PUT", transmission, content=stream()))
        await server.has_head.wait()
        if how == "cancelled":
            call.cancel()
            await asyncio.wait([call])
        else:
            await (await call).aclose()
        assert IDLE in repr(engine)
        server.may_read.set()
        await server.ended.wait()

    assert transmission.sent
    assert server.received < LARGE / 2


EARLY_SUCCESS = OK.replace(b"200 OK", b"202 -")


@pytest.mark.parametrize("buffered", [False, True])
async def test_an_early_success_is_followed_by_the_rest_of_the_content(
    monkeypatch: pytest.MonkeyPatch, buffered: bool
) -> None:
    """The server may want it, also what the event loop has not given to the system yet."""
    if buffered:  # all of it
        made = Connection.connection_made

        def unlimited(connection: Connection, transport: Any) -> None:
            made(connection, transport)
            connection.limit_unsent(2**30)

        monkeypatch.setattr(Connection, "connection_made", unlimited)
    received: list[int] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(EARLY_SUCCESS)
            received.append(len(await reader.readexactly(LARGE)))

    async with engine_at(handle) as engine:
        for _ in range(2):
            transmission = Transmission()
            response = await engine.send("PUT", transmission, content=bytes(LARGE))
            assert response.status_code == transmission.status == 202
            assert await body_of(response) == b"{}"
        await asyncio.sleep(0)
        assert "1 idle" in repr(engine)

    assert received[0] == LARGE


async def answer_and_hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(EARLY_SUCCESS)
    await writer.drain()
    writer.close()


@pytest.mark.parametrize(
    "handle", [Greedy(EARLY_SUCCESS).handle, answer_and_hang_up], ids=["silent", "hangs up"]
)
async def test_an_early_success_stands_when_the_server_takes_no_more(handle: Any) -> None:
    """The time-out for writing or the end ends the sending, and the reply is the answer."""
    async with engine_at(handle) as engine:
        response = await engine.send("PUT", content=aiter(Pieces()), write=0.05)
        assert response.status_code == 202
        assert await body_of(response) == b"{}"
        assert "0 idle" in repr(engine)


async def test_a_large_early_success_takes_bounded_memory() -> None:
    """What nobody has read yet makes the server wait."""
    size = 8 * 2**20

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(EARLY_SUCCESS.replace(b"2\r\n\r\n{}", b"%d\r\n\r\n" % size) + bytes(size))
        await asyncio.Event().wait()  # and reads nothing

    async with engine_at(handle) as engine:
        response = await engine.send("PUT", content=aiter(Pieces()), write=0.05)
        stream = cast("Any", response.stream)
        assert stream.reply.buffered < 4 * MOST_UNREAD
        assert len(await body_of(response)) == size


@pytest.mark.parametrize(("given", "declared"), [(3, 2), (1, 2)])
async def test_content_of_another_length_is_an_error(given: int, declared: int) -> None:
    """What comes next on the connection would be taken for a part of it."""

    async def stream() -> AsyncIterator[bytes]:
        yield bytes(given)

    server = Greedy()
    async with engine_at(server.handle) as engine:
        headers = {"Content-Length": f"{declared}"}
        with pytest.raises(httpx.LocalProtocolError, match="Content-Length"):
            await engine.send("PUT", content=stream(), headers=headers)


@pytest.mark.parametrize("value", ["a\r\nX: b", "a\rb", "a\0b"])
async def test_a_header_cannot_end_the_head(value: str) -> None:
    transmission, server = Transmission(), Greedy()
    async with engine_at(server.handle) as engine:
        with pytest.raises(httpx.LocalProtocolError):
            await engine.send("PUT", transmission, headers=[(b"X", value.encode())])

    assert not transmission.sent
    assert not server.connections


# --- cancelled, or overtaken by an end ----------------------------------------------------


@pytest.mark.parametrize("turn", [0, 1, 2])
async def test_what_is_cancelled_before_its_first_piece_is_not_sent(turn: int) -> None:
    """The piece is there, and the caller has not had its turn yet to notice that it is over."""
    transmission, server = Transmission(), Greedy()

    async def stream() -> AsyncIterator[bytes]:
        await turns(turn)
        call.cancel()
        yield b"x"

    async with engine_at(server.handle) as engine:
        call = asyncio.create_task(engine.send("PUT", transmission, content=stream()))
        await asyncio.wait([call])

    assert call.cancelled()
    assert not transmission.sent
    assert not server.has_head.is_set()


@pytest.mark.parametrize("pieces", [0, 1, None])
async def test_content_that_cancels_its_caller_at_first_is_not_sent_on_a_warm_connection(
    tmp_path: Path, pieces: int | None
) -> None:
    server, book = Server(), Book()

    def cancel(*_: object) -> None:
        upload.cancel()

    async def stream() -> AsyncIterator[bytes]:
        cancel()
        for _ in range(pieces or 0):
            yield b"x"

    empty = tmp_path / "empty"
    empty.touch()
    async with (
        raw_server(server.handle) as url,
        GatewaySession(url, access_token="t", observers=[book]) as gateway,
    ):
        await CALLS["order_history"](gateway)
        content, told = (empty, cancel) if pieces is None else (stream(), None)
        upload = asyncio.create_task(gateway.aml.upload_document(content, on_progress=told))
        await asyncio.wait([upload])

    assert upload.cancelled()
    assert book.events[-1] == ("finished", 2, "NOT_SENT", "CancelledError")
    assert len(server.requests) == 1


@pytest.mark.parametrize("turn", [0, 1])
@pytest.mark.parametrize("after", [0, 1])
async def test_a_content_that_is_cancelled_itself_cancels_the_call(after: int, turn: int) -> None:
    """Whatever it waited for was cancelled: that comes up as it is, as from any coroutine."""
    transmission, server = Transmission(), Greedy()

    async def stream() -> AsyncIterator[bytes]:
        for _ in range(after):
            yield b"x"
        await turns(turn)
        raise asyncio.CancelledError

    async with engine_at(server.handle) as engine:
        with pytest.raises(asyncio.CancelledError):
            await engine.send("PUT", transmission, content=stream())
        server.may_read.set()

    assert transmission.sent == bool(after)


async def test_a_connection_that_ends_before_the_first_piece_was_sent_nothing() -> None:
    transmission, hung_up = Transmission(), asyncio.Event()

    async def late() -> AsyncIterator[bytes]:
        await hung_up.wait()
        await turns(10)
        yield b"x"

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
        )
        writer.transport.abort()
        hung_up.set()

    async with engine_at(hang_up) as engine:
        with pytest.raises(httpx.TransportError) as caught:
            await engine.send("PUT", transmission, content=late())

    assert not transmission.sent
    assert isinstance(caught.value, httpx.ConnectError | httpx.ReadError)


async def test_a_connection_that_ends_in_the_turn_of_the_first_piece_was_sent_nothing() -> None:
    """Writing looks itself whether there is a connection: reading may tell a turn later."""
    transmission, server = Transmission(), Greedy()

    async def stream() -> AsyncIterator[bytes]:
        (connection,) = engine._pool.open
        connection.abort()
        yield b"x"

    async with engine_at(server.handle) as engine:
        with pytest.raises(httpx.ConnectError):
            await engine.send("PUT", transmission, content=stream())

    assert not transmission.sent
    assert not server.has_head.is_set()


# --- content that stops coming ------------------------------------------------------------

REFUSED: Final = OK.replace(b"200 OK", b"413 -")


class Stalled:
    """Gives one piece, and then nothing."""

    def __init__(self, again: bytes = b"") -> None:
        self.waits = asyncio.Event()  # set as soon as the second piece is waited for
        self.ended = False  # whether that wait was ended
        self.again = again  # given after the wait was ended, in spite of that, if not empty

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"the first piece"
        try:
            self.waits.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.ended = True
            if not self.again:
                raise
        yield self.again


class Answering:
    """Answers once the content stalls, and keeps the connection or closes it."""

    def __init__(self, content: Stalled, reply: bytes, *, closes: bool = False) -> None:
        self.content = content
        self.reply = reply
        self.closes = closes
        self.answered = asyncio.Event()
        self.may_end = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"the first piece")
        await self.content.waits.wait()
        writer.write(self.reply)
        await writer.drain()
        self.answered.set()
        if not self.closes:
            await self.may_end.wait()


def session(url: str, *observers: Observer) -> GatewaySession:
    return GatewaySession(url, access_token="t", timeout=30, deadline=None, observers=observers)


@pytest.mark.parametrize("again", [b"", b"another piece"], ids=["ends", "goes on"])
@pytest.mark.parametrize(
    ("reply", "closes", "outcome"),
    [
        (REFUSED, False, Outcome.REFUSED),
        (REFUSED, True, Outcome.REFUSED),
        (b"", True, Outcome.UNKNOWN),
    ],
    ids=["refuses", "refuses and closes", "closes"],
)
async def test_the_end_of_an_exchange_ends_the_wait_for_content(
    reply: bytes, closes: bool, outcome: Outcome, again: bytes
) -> None:
    """What came is the answer at once, and the task of the call is not cancelled by that."""
    content = Stalled(again)
    async with (
        raw_server(Answering(content, reply, closes=closes).handle) as url,
        session(url) as gateway,
    ):
        with pytest.raises(StatusError if reply else ReplyLostError) as caught:
            await gateway.aml.upload_document(content)

    assert [attempt.status for attempt in caught.value.attempts] == [413 if reply else None]
    assert caught.value.outcome is outcome
    assert content.ended
    task = asyncio.current_task()
    assert task
    assert not task.cancelling()


@pytest.mark.parametrize(
    ("reply", "outcome"), [(OK, Outcome.APPLIED), (b"", Outcome.UNKNOWN)], ids=["success", "none"]
)
async def test_a_call_that_is_cancelled_meanwhile_knows_the_reply(
    reply: bytes, outcome: Outcome
) -> None:
    """An early success ends nothing, but it is what became of the call; a cancellation is one."""
    content, book = Stalled(), Book()
    server = Answering(content, reply)
    async with raw_server(server.handle) as url, session(url, book) as gateway:
        call = asyncio.create_task(gateway.aml.upload_document(content))
        await server.answered.wait()
        await turns(20)  # it is in the same event loop, so that its reply is read by then
        before = content.ended
        call.cancel()
        await asyncio.wait([call])

    assert (before, content.ended) == (False, True)
    assert call.cancelled()
    assert [event[2] for event in book.events if event[0] == "attempt"] == [outcome.name]


async def test_a_cancellation_beside_a_refusal_is_kept() -> None:
    """A caller that is cancelled in the turn in which the refusal comes is cancelled."""

    class Beside(Stalled):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for piece in super().__aiter__():
                    yield piece
            finally:
                call.cancel()

    content, book = Beside(), Book()
    async with (
        raw_server(Answering(content, REFUSED).handle) as url,
        session(url, book) as gateway,
    ):
        call = asyncio.create_task(gateway.aml.upload_document(content))
        await asyncio.wait([call])

    assert call.cancelled()
    assert [event[2] for event in book.events if event[0] == "attempt"] == ["REFUSED"]
