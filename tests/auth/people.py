"""The participants of a login: a browser, a user who pastes, and another user who reads along."""

import asyncio
import re
import shlex
import socket
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from gateway_sdk.auth import ImplicitFlow
from tests.auth.visits import Reply, answer as response, post, read_reply, visit

FLOW = ImplicitFlow("https://login.gateway.test/authorize", "sdk")
ELSEWHERE = "https://app.gateway.test/callback"
TOKEN = "CANARY-TOKEN"
GOOD = f"access_token={TOKEN}&token_type=Bearer&expires_in=3600&state=STATE"
DENIED = "error=access_denied&error_description=CANARY&state=STATE"
MALFORMED = "access_token=CANARY&token_type=mac&state=STATE"
FOREIGN = f"access_token={TOKEN}&token_type=Bearer&state=CANARY"


def asked_in(url: str) -> tuple[str, str]:
    """Return the redirect URI and the state of an authorization URL."""
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
    body = response(place.fragment, place.query)
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
        """Open the URL of this machine with a browser, and return the status."""
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


if __name__ == "__main__":
    went, by_cookie = start(sys.argv[2])
    Path(sys.argv[1]).write_text(f"{sys.argv[2]}\n{went}\n", "ascii")
    go(answer_to(went, GOOD), by_cookie)
