"""The bytes that browsers and other programs send to the receiver, and the bytes of its replies."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import urlsplit

from gateway_sdk.auth import LoopbackReceiver
from gateway_sdk.auth._receiver import DEFAULT_REDIRECT_URI
from gateway_sdk.errors import StateMismatchError

AUTHORIZATION_URL = "https://login.gateway.test/authorize?state=ours"
RIGHT = "state=ours&access_token=CANARY-TOKEN"
WRONG = "state=theirs&access_token=CANARY-TOKEN"

Headers = Mapping[str, str | None]
NO_CHANGE: Headers = MappingProxyType({})

# HOST stands for the receiver's host and port, COOKIE for the cookie of the login's browser,
# START for the path of the start address.
OF_A_BROWSER: Headers = MappingProxyType({"Host": "HOST", "Sec-Fetch-Site": "cross-site"})
OF_THE_PAGE: Headers = MappingProxyType(
    {
        "Host": "HOST",
        "Origin": "http://HOST",
        "Content-Type": "application/json",
        "Sec-Fetch-Site": "same-origin",
        "Sec-Fetch-Dest": "empty",
        "Cookie": "COOKIE",
    }
)


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes


def visit(changes: Headers = NO_CHANGE, *, method: str = "GET", target: str = "/callback") -> bytes:
    """Return the request of a browser that is sent to the page; a header of None is left out."""
    return _request(method, target, {**OF_A_BROWSER, "Sec-Fetch-Dest": "document", **changes})


def post(body: bytes, changes: Headers = NO_CHANGE, *, target: str = "/callback") -> bytes:
    """Return the request in which the page delivers a response; a header of None is left out."""
    length = {"Content-Length": str(len(body))}
    return _request("POST", target, {**OF_THE_PAGE, **length, **changes}) + body


def answer(fragment: str, query: str = "") -> bytes:
    """Return the body in which the page delivers a response."""
    return json.dumps({"fragment": fragment, "query": query}).encode()


GOOD = answer(RIGHT)


def _request(method: str, target: str, headers: Headers) -> bytes:
    lines = [f"{name}: {text}" for name, text in headers.items() if text is not None]
    return "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "", ""]).encode()


def read_answer(fragment: str, query: str) -> str:
    """Return a response's fragment, if it has the expected state."""
    if "state=ours" not in fragment:
        raise StateMismatchError("the answer has another state")
    return fragment


def read_reply(received: bytes) -> Reply:
    """Parse a reply; no header may be repeated."""
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    protocol, status, *_ = first.split(" ")
    assert protocol == "HTTP/1.1"
    headers = dict(line.split(": ", 1) for line in lines)
    assert len(headers) == len(lines)
    return Reply(int(status), headers, body)


class Line:
    """A connection to the receiver, seen from the client."""

    def __init__(
        self,
        fill: Callable[[bytes], Awaitable[bytes]],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._fill = fill
        self._reader, self._writer = reader, writer

    async def send(self, raw: bytes) -> None:
        self._writer.write(await self._fill(raw))
        await self._writer.drain()

    async def reply(self) -> Reply:
        return read_reply(await self.ended())

    async def ended(self) -> bytes:
        """Wait until the receiver closes or cuts the connection, and return what it sent."""
        with suppress(ConnectionError):
            return await self._reader.read()
        return b""

    @property
    def is_open(self) -> bool:
        return not self._reader.at_eof() and self._reader.exception() is None

    async def close(self) -> None:
        self._writer.transport.abort()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


class Waiting:
    """A receiver that waits for a response, and the clients that connect to it."""

    def __init__(
        self,
        receiver: LoopbackReceiver,
        finish: Callable[[str, str], str] = read_answer,
        seconds: float | None = None,
    ) -> None:
        self.receiver = receiver
        self.names = names_of(receiver)
        self.host, self.port = self.names[0]
        self.authority = receiver.redirect_uri.split("/")[2]
        self.start = urlsplit(receiver.start_url(AUTHORIZATION_URL)).path
        self.task = asyncio.create_task(receiver.receive(finish, timeout=seconds))
        self._cookie = ""
        self._lines: list[Line] = []

    async def open(self) -> Reply:
        reply = await self.send(visit(target=self.start))
        self._cookie = reply.headers["Set-Cookie"].partition(";")[0]
        return reply

    async def fill(self, raw: bytes) -> bytes:
        """Replace HOST, COOKIE and START; open the start address if necessary."""
        if b"COOKIE" in raw and not self._cookie:
            await self.open()
        raw = raw.replace(b"HOST", self.authority.encode("ascii"))
        raw = raw.replace(b"START", self.start.encode("ascii"))
        return raw.replace(b"COOKIE", self._cookie.encode("ascii"))

    async def connect(self, host: str | None = None, opened: socket.socket | None = None) -> Line:
        """Connect to the receiver, or take a connection that is open."""
        place = {"sock": opened} if opened else {"host": host or self.host, "port": self.port}
        self._lines.append(Line(self.fill, *await asyncio.open_connection(**place)))
        return self._lines[-1]

    async def send(self, raw: bytes, *, host: str | None = None) -> Reply:
        line = await self.connect(host)
        await line.send(raw)
        reply = await line.reply()
        await line.close()
        return reply

    async def hand_in(self, fragment: str = RIGHT) -> Reply:
        """Deliver a response as the page does."""
        return await self.send(post(answer(fragment)))

    async def must_still_wait(self) -> None:
        """Require that the wait goes on, and that the valid response ends it."""
        assert not self.task.done()
        reply = await self.hand_in()
        assert (reply.status, json.loads(reply.body)["good"]) == (200, True)
        assert await self.task == RIGHT

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        for line in self._lines:
            await line.close()


@asynccontextmanager
async def waiting(
    redirect_uri: str = DEFAULT_REDIRECT_URI,
    *,
    bind: str | None = None,
    finish: Callable[[str, str], str] = read_answer,
    timeout: float | None = None,  # noqa: ASYNC109 - the receiver's own
) -> AsyncIterator[Waiting]:
    """Let a receiver wait for a response."""
    async with LoopbackReceiver(redirect_uri, bind=bind) as receiver:
        there = Waiting(receiver, finish, timeout)
        try:
            yield there
        finally:
            await there.close()


def names_of(receiver: LoopbackReceiver) -> list[tuple[str, int]]:
    """Return each host and port at which an open receiver listens, before it waits."""
    return [listener.getsockname()[:2] for listener in receiver._sockets]


def is_refused(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        try:
            probe.connect((host, port))
        except ConnectionRefusedError:
            return True
    return False
