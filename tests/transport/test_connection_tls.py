"""TLS on a connection of our own: its ends, what is broken in it, and one within another."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

import pytest

from gateway_sdk._transport.connection import Connection
from gateway_sdk._transport.pool import now
from gateway_sdk._transport.tls import TlsLayer
from tests.support.certificates import Authority
from tests.support.failing_steps import turns
from tests.transport.test_connection import connected

HOST: Final = "127.0.0.1"


class Layer:
    def __init__(self, context: ssl.SSLContext) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)


class Peer:
    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.layers: list[Layer] = []

    async def shake_hands(self, context: ssl.SSLContext) -> None:
        layer = Layer(context)
        while True:
            try:
                layer.tls.do_handshake()
            except ssl.SSLWantReadError:
                pass
            else:
                break
            finally:
                if layer.outgoing.pending:
                    await self.send(layer.outgoing.read())
            layer.incoming.write(await self.receive())
        self.layers.append(layer)
        if layer.outgoing.pending:
            await self.raw(self.wrap(layer.outgoing.read(), self.layers[:-1]))

    async def receive(self) -> bytes:
        while True:
            data = await asyncio.get_running_loop().sock_recv(self.end, 65536)
            if not data:
                return b""
            for layer in self.layers:
                layer.incoming.write(data)
                data = b""
                with suppress(ssl.SSLWantReadError):
                    while part := layer.tls.read(65536):
                        data += part
            if data:
                return data

    def wrap(self, data: bytes, layers: list[Layer]) -> bytes:
        for layer in reversed(layers):
            layer.tls.write(data)
            data = layer.outgoing.read()
        return data

    async def send(self, data: bytes) -> None:
        await self.raw(self.wrap(data, self.layers))

    async def raw(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.end, data)

    def goodbye(self) -> bytes:
        with suppress(ssl.SSLWantReadError):
            self.layers[-1].tls.unwrap()
        return self.wrap(self.layers[-1].outgoing.read(), self.layers[:-1])


class Papers(NamedTuple):
    server: ssl.SSLContext
    client: ssl.SSLContext


@pytest.fixture(scope="module")
def papers(authority: Authority) -> Papers:
    return Papers(authority.server(HOST), authority.client())


@asynccontextmanager
async def secured(papers: Papers, layers: int = 1) -> AsyncIterator[tuple[Connection, Peer]]:
    """Open a connection with so many layers of TLS to a server of the test's own."""
    async with connected() as (connection, plain):
        peer = Peer(plain.end)
        for _ in range(layers):
            await asyncio.gather(
                peer.shake_hands(papers.server), connection.start_tls(papers.client, HOST)
            )
        yield connection, peer


def _outer_end(peer: Peer) -> bytes:
    peer.layers.pop()
    return peer.goodbye()


ENDS: Final[dict[str, tuple[int, Callable[[Peer], bytes], bool]]] = {
    "the server ends TLS": (1, Peer.goodbye, True),
    "the server ends TLS within a proxy's": (2, Peer.goodbye, True),
    "a proxy ends its own and has cut what it carries": (2, _outer_end, False),
    "both end in one packet": (2, lambda peer: peer.goodbye() + _outer_end(peer), True),
    "nobody says that it is the end": (1, lambda _: b"", False),
}


@pytest.mark.parametrize(("layers", "ending", "cleanly"), ENDS.values(), ids=ENDS)
async def test_only_the_server_can_say_that_it_is_the_end(
    papers: Papers, layers: int, ending: Callable[[Peer], bytes], cleanly: bool
) -> None:
    """Anybody on the way can end a connection, and what came before is read in any case."""
    async with secured(papers, layers) as (connection, peer):
        data = peer.wrap(b"all", peer.layers)
        end = ending(peer)
        await peer.raw(data + end)
        if not end:
            peer.end.close()

        assert await connection.read(20) == b"all"
        assert await connection.read(20) == b""
        assert connection.is_clean == cleanly
        assert connection.is_closing()  # though the connection below may be open still
        connection.rest(60.0, now())
        await connection.closed


async def test_what_came_before_a_broken_record_is_read(papers: Papers) -> None:
    """Even in the same packet; then the connection is cut, and an alert tells the server why."""
    async with secured(papers) as (connection, peer):
        await peer.raw(peer.wrap(b"good", peer.layers) + b"HTTP/1.1 400 Bad Request\r\n\r\n")

        assert await connection.read(20) == b"good"
        with pytest.raises(ssl.SSLError):
            await connection.read(20)
        assert connection.is_closing()
        with pytest.raises(ssl.SSLError, match="ALERT"):
            await peer.receive()


@pytest.mark.parametrize("data", [b"H", b""], ids=["data", "the end"])
async def test_what_is_said_while_it_is_idle_ends_it(papers: Papers, data: bytes) -> None:
    """Data that nobody asked for, or the end of TLS alone."""
    async with secured(papers) as (connection, peer):
        await peer.send(b"-")  # behind which there are no tickets of the handshake any more
        assert await connection.read(20) == b"-"
        connection.rest(60.0, now())
        assert connection.end_rest(now())
        await (peer.send(data) if data else peer.raw(peer.goodbye()))
        await connection.closed

        assert not connection.end_rest(now())


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("size", [1, 4, 5, 6, -1])
async def test_a_part_of_a_record_makes_it_unfit(papers: Papers, size: int, layers: int) -> None:
    """What begins while it is idle may end behind the next request, and would be its reply."""
    async with secured(papers, layers) as (connection, peer):
        await peer.send(b"-")
        assert await connection.read(20) == b"-"
        connection.rest(60.0, now())
        assert connection.end_rest(now())
        record = peer.wrap(b"nobody's", peer.layers[-1:])
        await peer.raw(peer.wrap(record[:size], peer.layers[:-1]))
        await turns(5)

        assert not connection.is_closing()
        assert not connection.end_rest(now())
        connection.data_received(peer.wrap(record[size:], peer.layers[:-1]))
        assert connection.is_closing()


async def test_a_ticket_that_comes_late_does_no_harm(papers: Papers) -> None:
    """It is TLS's own, and none of the server's data."""
    async with secured(papers) as (connection, _):
        await turns(5)
        connection.rest(60.0, now())
        connection.data_received(b"")
        assert not connection.is_closing()


async def test_what_is_written_during_another_handshake_follows_it(papers: Papers) -> None:
    """A server may want one at any time in TLS 1.2; OpenSSL takes no data meanwhile."""
    async with secured(papers) as (connection, peer):
        inner = TlsLayer(papers.client, HOST)
        connection._layers.append(inner)
        connection.write(b"first, ")
        connection.write(b"second")
        takes_more = connection.can_write()
        assert not takes_more

        shaking = asyncio.create_task(peer.shake_hands(papers.server))
        while not connection.can_write():
            await connection.wait(20)
        await shaking
        connection.write(b", third")

        received = b""
        while not received.endswith(b"third"):
            received += await peer.receive()
        assert received == b"first, second, third"


async def test_a_certificate_of_an_unknown_authority_is_refused(papers: Papers) -> None:
    """The server is told why, and nothing else was sent."""
    async with connected() as (connection, plain):
        mine, theirs = await asyncio.gather(
            connection.start_tls(ssl.create_default_context(), HOST),
            Peer(plain.end).shake_hands(papers.server),
            return_exceptions=True,
        )

    assert isinstance(mine, ssl.SSLCertVerificationError)
    assert isinstance(theirs, ssl.SSLError)
    assert "ALERT_UNKNOWN_CA" in theirs.reason
