"""Those who take part in a login: a browser, a person who pastes, and somebody who reads along."""

import asyncio
import http.client
import json
import shlex
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from gateway_sdk.auth import ImplicitFlow

FLOW = ImplicitFlow("https://login.gateway.test/authorize", "sdk")
ELSEWHERE = "https://app.gateway.test/callback"
TOKEN = "CANARY-TOKEN"
GOOD = f"access_token={TOKEN}&token_type=Bearer&expires_in=3600&state=STATE"
DENIED = "error=access_denied&error_description=CANARY&state=STATE"
MALFORMED = "access_token=CANARY&token_type=mac&state=STATE"
FOREIGN = f"access_token={TOKEN}&token_type=Bearer&state=CANARY"


def asked_in(url: str) -> tuple[str, str]:
    """Return the redirect URI and the state in the address that a person logs in at."""
    asked = parse_qs(urlsplit(url).query)
    return asked["redirect_uri"][0], asked["state"][0]


def answer_to(url: str, answer: str) -> str:
    """Return the address that the browser is sent back to, with an answer that repeats STATE."""
    redirect_uri, state = asked_in(url)
    return f"{redirect_uri}#{answer.replace('STATE', state)}"


def go(address: str) -> int:
    """Open an address as a browser does, do what the page's script does, return the status."""
    place = urlsplit(address)
    headers = {"Origin": f"http://{place.netloc}", "Content-Type": "application/json"}
    body = json.dumps({"fragment": place.fragment, "query": place.query})
    with closing(http.client.HTTPConnection(place.netloc, timeout=20)) as line:
        for method, more, text in (("GET", {}, None), ("POST", headers, body)):
            line.request(method, place.path, text, more)
            reply = line.getresponse()
            reply.read()
    return reply.status


class Surfer:
    """A browser that is sent back with these answers, one after the other."""

    def __init__(self, *answers: str) -> None:
        self.answers = answers
        self.went: list[str] = []
        self.statuses: list[int] = []

    def __call__(self, url: str) -> bool:
        """Log in at an address."""
        self.went.append(url)
        for answer in self.answers:
            self.statuses.append(go(answer_to(url, answer)))
        return True


class Reader:
    """Somebody who reads what is shown, and goes to the address by hand."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._read = asyncio.Event()

    def __call__(self, text: str) -> None:
        """Read a line."""
        self.texts.append(text)
        self._read.set()

    async def line(self, start: str) -> str:
        """Return the line that starts like this, as soon as it is shown."""
        while not (found := [text for text in self.texts if text.startswith(start)]):
            self._read.clear()
            await self._read.wait()
        return found[0]

    async def url(self) -> str:
        """Return the address, as soon as it is shown."""
        return await self.line("https://")

    async def go(self, answer: str) -> int:
        """Go to the address with a browser, and return the status of the answer."""
        return await asyncio.to_thread(go, answer_to(await self.url(), answer))


class Paster:
    """Somebody who pastes what a test says; None is the end of the input."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[str | None] = asyncio.Queue()
        self.asked = asyncio.Event()
        self.is_reading = False

    async def __call__(self) -> str:
        """Return a line."""
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
    """Return the command of a browser that logs in, and writes down where it went."""
    words = (sys.executable, __file__, str(folder / "went"))
    return " ".join([*map(shlex.quote, words), "%s"])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(sys.argv[2], "ascii")
    go(answer_to(sys.argv[2], GOOD))
