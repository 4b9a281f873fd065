"""The page that a browser gets from the receiver, and the headers of every reply."""

import base64
import hashlib
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser

import pytest

from gateway_sdk.auth._callback_handler import page
from tests.auth.traces import no_traces
from tests.auth.visits import RIGHT, WRONG, answer, post, visit, waiting

ON_ALL = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
TEXT, JSON = "text/plain; charset=utf-8", "application/json"


@pytest.fixture(autouse=True)
async def _no_traces(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    async with no_traces(caplog):
        yield


class Reader(HTMLParser):
    """Parses the page as a browser does."""

    def __init__(self) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": []}
        self._inside = ""
        self.feed(page().decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        self.attributes += [(name, text or "") for name, text in attrs]

    def handle_endtag(self, tag: str) -> None:
        """Note that text belongs to no element any more."""
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in self.texts:
            self.texts[self._inside].append(data)


def hash_of(text: str) -> str:
    """Return the hash of a script or a style, in the form of Content Security Policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@pytest.mark.parametrize(
    ("raw", "status", "more"),
    [
        (b"\x16\x03\x01", 400, {"Content-Type": TEXT}),
        (visit({"Cookie": "x" * 40_000}), 431, {"Content-Type": TEXT}),
        (visit({"Host": "evil.test"}), 421, {"Content-Type": TEXT}),
        (visit({"Sec-Fetch-Dest": "iframe"}), 403, {"Content-Type": TEXT}),
        (visit(target="/favicon.ico"), 404, {"Content-Type": TEXT}),
        (visit(method="HEAD"), 405, {"Content-Type": TEXT, "Allow": "GET, POST"}),
        (post(b"", {"Content-Length": "262145"}) + b" " * 9999, 413, {"Content-Type": TEXT}),
        (post(b"", {"Content-Type": TEXT}), 415, {"Content-Type": TEXT}),
        (post(b"[]"), 400, {"Content-Type": TEXT}),
        (post(answer(WRONG)), 400, {"Content-Type": JSON}),
        (post(answer(RIGHT)), 200, {"Content-Type": JSON}),
    ],
)
async def test_no_reply_is_cached(raw: bytes, status: int, more: dict[str, str]) -> None:
    """Each reply has the same headers against caches, frames and content sniffing, and few more."""
    async with waiting() as there:
        reply = await there.send(raw)

    length = reply.headers.pop("Content-Length")
    deleted = reply.headers.pop("Set-Cookie", None)
    assert (deleted is not None) is (raw == post(answer(RIGHT)))
    assert reply.headers == {**ON_ALL, **more}
    assert reply.status == status
    assert length.isdecimal()


async def test_the_page_may_run_its_script_and_nothing_else() -> None:
    """The policy allows the one script and the one style of the page by their hashes."""
    async with waiting() as there:
        reply = await there.send(visit())
    found = Reader()
    [script], [style] = found.texts["script"], found.texts["style"]

    policy = reply.headers.pop("Content-Security-Policy")
    assert reply.headers == {
        **ON_ALL,
        "Content-Length": str(len(page())),
        "Content-Type": "text/html; charset=utf-8",
    }
    assert reply.body == page()
    assert policy.split("; ") == [
        "default-src 'none'",
        f"script-src '{hash_of(script)}'",
        f"style-src '{hash_of(style)}'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]


def test_the_page_asks_for_nothing_from_elsewhere() -> None:
    """It has no link, image, frame, event handler or URL of another site."""
    found = Reader()
    names = {name for name, _ in found.attributes}

    harmless = {"aria-hidden", "aria-live", "charset", "class", "content", "hidden", "id", "lang"}
    assert names <= {*harmless, "name", "role", "type"}
    assert not re.search(rb"https?:|[\"'(=]\s*//|url\(|@import|\bimport\b", page())


def test_the_page_clears_the_address_bar_first() -> None:
    """The address bar is cleared before the response is sent, and nothing is stored."""
    [script] = Reader().texts["script"]

    assert script.index("history.replaceState") < script.index("fetch(")
    assert "innerHTML" not in script
    assert not re.search(r"console|[sS]torage|cookie", script)
