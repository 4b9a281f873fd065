"""Who takes part in a login, what they send, and what a login must not leave behind."""

import asyncio
import json
import logging
import os
import re
import shlex
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from urllib.parse import parse_qs, urlsplit

import pytest

from gateway_sdk.auth import ImplicitFlow, LoopbackReceiver
from gateway_sdk.auth._login import server
from gateway_sdk.auth._login.login import DEFAULT_REDIRECT_URI
from gateway_sdk.auth._login.server import close_all
from gateway_sdk.errors import StateMismatchError

AUTHORIZATION_URL = "https://login.gateway.test/é?state=ours&x=CALLBACK"
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
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    protocol, status, *_ = first.split(" ")
    assert protocol == "HTTP/1.1"
    headers = dict(line.split(": ", 1) for line in lines)
    assert len(headers) == len(lines)
    return Reply(int(status), headers, body)


class Line:
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
        return await self.send(post(answer(fragment)))

    async def must_still_wait(self) -> None:
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


FLOW = ImplicitFlow("https://login.gateway.test/authorize", "sdk")
ELSEWHERE = "https://app.gateway.test//any;path/callback"
TOKEN = "CANARY-TOKEN"
GRANTED = f"access_token={TOKEN}&token_type=Bearer&expires_in=3600&state=STATE"
DENIED = "error=access_denied&error_description=CANARY&state=STATE"
FOREIGN = f"access_token={TOKEN}&token_type=Bearer&state=CANARY"


def asked_in(url: str) -> tuple[str, str]:
    asked = parse_qs(urlsplit(url).query)
    return asked["redirect_uri"][0], asked["state"][0]


def answer_to(url: str, answer: str) -> str:
    """Return the URL that the browser is sent back to, with a response that repeats STATE."""
    redirect_uri, state = asked_in(url)
    return f"{redirect_uri}#{answer.replace('STATE', state)}"


def exchange(place: str, raw: bytes) -> Reply:
    """Send a request to a receiver as another program does, and read the reply."""
    host, _, port = place.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as line:
        line.sendall(raw.replace(b"HOST", place.encode()))
        return read_reply(b"".join(iter(lambda: line.recv(65536), b"")))


def start(url: str) -> tuple[str, str]:
    """Open a start URL as a browser does; return its target and the cookie that it sets."""
    place = urlsplit(url)
    headers = exchange(place.netloc, visit(target=place.path)).headers
    return headers.get("Location", ""), headers.get("Set-Cookie", "").partition(";")[0]


def go(address: str, cookie: str = "") -> int:
    """Open a URL as a browser does, do what the page's script does, and return the status."""
    place = urlsplit(address)
    exchange(place.netloc, visit(target=place.path))
    body = answer(place.fragment, place.query)
    return exchange(place.netloc, post(body, {"Cookie": cookie}, target=place.path)).status


class Surfer:
    """A browser that is sent back with these answers, one after the other."""

    def __init__(self, *answers: str) -> None:
        self.answers = answers
        self.opened: list[str] = []
        self.went: list[str] = []  # the authorization URLs that these led to
        self.statuses: list[int] = []

    def __call__(self, url: str) -> bool:
        self.opened.append(url)
        leads_to, cookie = start(url) if url.startswith("http://127.0.0.1:") else (url, "")
        self.went.append(leads_to)
        for answer in self.answers:
            self.statuses.append(go(answer_to(leads_to, answer), cookie))
        return True


class Reader:
    """A user who reads the shown lines, and opens the URL by hand."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._read = asyncio.Event()

    def __call__(self, text: str) -> None:
        self.texts.append(text)
        self._read.set()

    async def line(self, pattern: str) -> str:
        """Return the match of a pattern, as soon as a line that matches is shown."""
        while not (found := re.search(pattern, "\n".join(self.texts))):
            self._read.clear()
            await self._read.wait()
        return found[0]

    async def url(self) -> str:
        return await self.line(r"https://\S+")

    async def start_url(self) -> str:
        return await self.line(r"http://127\.0\.0\.1:\S+")

    async def go(self, answer: str) -> int:
        leads_to, cookie = await asyncio.to_thread(start, await self.start_url())
        return await asyncio.to_thread(go, answer_to(leads_to, answer), cookie)


class Paster:
    """A user who pastes what a test tells; None is the end of the input."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[str | None] = asyncio.Queue()
        self.asked = asyncio.Event()
        self.is_reading = False

    async def __call__(self) -> str:
        self.asked.set()
        self.is_reading = True
        try:
            line = await self.lines.get()
        finally:
            self.is_reading = False
        if line is None:
            raise EOFError
        return line


def command(folder: Path) -> str:
    """Return the command of a browser that logs in, and writes down the URLs that it opened."""
    words = (sys.executable, "-m", __name__, str(folder / "went"))
    return " ".join([*map(shlex.quote, words), "%s"])


SECRETS = ("CANARY", "state=")


def release_ports() -> None:
    """Free the ports that are kept because a tab may still be open there."""
    for place in list(server.kept_ports):
        close_all(server.take_port(place))


def no_records(caplog: pytest.LogCaptureFixture) -> None:
    """Require that only asyncio's debug messages were logged, and no secret."""
    setup, call = caplog.get_records("setup"), caplog.get_records("call")
    for record in [*setup, *call, *caplog.get_records("teardown")]:
        assert (record.name, record.levelno <= logging.INFO) == ("asyncio", True), record
        assert not any(secret in record.getMessage() for secret in SECRETS)


def open_files() -> list[str]:
    if os.name == "nt":
        return []
    return sorted(os.listdir("/dev/fd"))  # noqa: PTH208 - it is no folder


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "gateway_sdk-login"]


def join_threads() -> None:
    for thread in threads():
        thread.join()


if __name__ == "__main__":
    went, by_cookie = start(sys.argv[2])
    Path(sys.argv[1]).write_text(f"{sys.argv[2]}\n{went}\n", "ascii")
    go(answer_to(went, GRANTED), by_cookie)
