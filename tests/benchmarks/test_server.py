"""The server of the benchmarks: every request has one reply, and counts once."""

import asyncio
import hashlib
import json
import selectors
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from benchmarks import gateway_server
from benchmarks.gateway_server import COUNTRIES, SERIES, Connection, Server, Wakeful, canned
from benchmarks.measures.load import after, ask
from benchmarks.peers.request import PATH
from benchmarks.processes import server


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with server("gateway_server") as address:
        yield address


def raw_replies(url: str, pieces: list[bytes], count: int) -> list[Any]:
    """Send pieces over one connection and read so many replies."""
    address, found = urlsplit(url), list[Any]()
    with socket.create_connection((str(address.hostname), address.port or 80)) as line:
        for piece in pieces:
            line.sendall(piece)
        with line.makefile("rb") as file:
            for _ in range(count):
                status = int(file.readline().split()[1])
                length = 0
                while (header := file.readline()) != b"\r\n":
                    if header.lower().startswith(b"content-length:"):
                        length = int(header.partition(b":")[2])
                found.append((status, json.loads(file.read(length))))
    return found


REQUEST = f"POST {PATH} HTTP/1.1\r\ncontent-length: 2\r\n\r\n{{}}".encode()


@pytest.mark.parametrize(
    ("pieces", "statuses"),
    [
        ([REQUEST], [200]),
        ([REQUEST + REQUEST], [200, 200]),
        ([REQUEST[:9], REQUEST[9:-1], REQUEST[-1:] + REQUEST[:30], REQUEST[30:]], [200, 200]),
        ([b"GET /elsewhere HTTP/1.1\r\n\r\n" + REQUEST], [404, 200]),
    ],
)
def test_the_server_answers_each_request_once(
    url: str, pieces: list[bytes], statuses: list[int]
) -> None:
    """However its bytes arrive, a request has one reply, and counts once."""
    before = ask(url)["requests"]

    replies = raw_replies(url, pieces, len(statuses))

    assert [status for status, _ in replies] == statuses
    assert all(value == SERIES for status, value in replies if status == 200)
    assert ask(url)["requests"] == before + len(statuses)


class Written(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.replies: list[bytes] = []

    def write(self, data: Any) -> None:
        self.replies.append(data)


@pytest.mark.parametrize("size", [1, 7, len(REQUEST) - 1, len(REQUEST), len(REQUEST) + 1])
def test_the_server_waits_for_the_whole_of_a_request(size: int) -> None:
    """A reply is written when the last byte of its request is there, and not before."""
    connection, transport = Connection(Server()), Written()
    connection.connection_made(transport)
    line = REQUEST * 3

    for start in range(0, len(line), size):
        connection.data_received(line[start : start + size])
        assert len(transport.replies) == min(start + size, len(line)) // len(REQUEST)


@pytest.mark.parametrize(
    ("target", "delay", "status", "body"),
    [
        (PATH, 0.0, b"200", SERIES),
        (f"/50ms{PATH}", 0.05, b"200", SERIES),
        ("/200ms/countrydata/1.0.0/listData", 0.2, b"200", COUNTRIES),
        ("/50ms/elsewhere", 0.05, b"404", SERIES),
        ("no path", 0.0, b"404", SERIES),
    ],
)
def test_the_server_waits_as_long_as_its_address_says(
    target: str, delay: float, status: bytes, body: object
) -> None:
    """The first segment of a path is how long it takes, and the rest what it returns."""
    seconds, reply = canned(target)

    assert seconds == delay
    assert reply.split()[1] == status
    assert json.loads(reply.partition(b"\r\n\r\n")[2]) == body
    assert after("http://host", round(delay * 1000)) == (
        f"http://host/{round(delay * 1000)}ms" if delay else "http://host"
    )


CONTENT = bytes(range(256)) * 2000
HEAD = b"POST /hashed/upload HTTP/1.1\r\n"
UPLOADS = {
    "nothing": (HEAD + b"\r\n", b""),
    "a length": (HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(CONTENT), CONTENT), CONTENT),
    "chunks": (
        HEAD
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + b"%x\r\n%b\r\n" % (len(CONTENT), CONTENT) * 2
        + b"1\r\n\n\r\n0\r\n\r\n",
        CONTENT * 2 + b"\n",
    ),
}


@pytest.mark.parametrize("size", [997, 10_000_000])
def test_the_server_of_uploads_counts_what_arrives(size: int) -> None:
    """However the bytes of requests arrive, each reply has the length and digest of a content."""
    requests = b"".join(request for request, _ in UPLOADS.values())
    pieces = [requests[at : at + size] for at in range(0, len(requests), size)]

    with server("upload_server") as address:
        replies = raw_replies(address, pieces, len(UPLOADS))

    assert replies == [
        (200, {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()})
        for _, content in UPLOADS.values()
    ]


@pytest.mark.parametrize("awake", [0.0, 60.0])
def test_the_server_sees_a_request_at_once(awake: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is ready is returned at once, however long the server stays awake."""
    monkeypatch.setattr(gateway_server, "AWAKE", awake)
    here, there = socket.socketpair()
    with here, there, Wakeful() as selector:
        key = selector.register(here, selectors.EVENT_READ)
        there.sendall(b"-")

        assert selector.select() == [(key, selectors.EVENT_READ)]
        assert selector.select(60) == [(key, selectors.EVENT_READ)]


@pytest.mark.parametrize("awake", [0.001, 60.0])
def test_being_awake_is_no_work(awake: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for which there is nothing to do is waited for, and not counted as work."""
    monkeypatch.setattr(gateway_server, "AWAKE", awake)
    with Wakeful() as selector:
        began, cpu, worked = time.monotonic(), time.process_time(), selector.worked()

        assert selector.select(0.002) == []

        waited, spent = time.monotonic() - began, time.process_time() - cpu
        assert waited >= 0.002
        assert selector.worked() - worked < spent
