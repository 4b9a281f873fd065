"""The replies of the receiver, and its two pages."""

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any, Final

import httpx

_COMMON_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def reply_with(
    status: int, headers: Mapping[str, str] | None = None, **body: Any
) -> httpx.Response:
    return httpx.Response(status, headers={**_COMMON_HEADERS, **(headers or {})}, **body)


@cache
def page() -> httpx.Response:
    return _page("callback.html", HEADING="One step is left")


def start_page(target: str, callback: str, status: int = 200) -> httpx.Response:
    """Return the page that leads on to a target, or, without one, says to open it again."""
    words = {"HEADING": "Logging in", "TARGET": target, "CALLBACK": callback}
    return _page("start.html", status, **words)


def _page(name: str, status: int = 200, **texts: str) -> httpx.Response:
    # As text: a browser hashes with "\n", even if the file was checked out with "\r\n".
    frame, body = (
        (files("gateway_sdk.auth._login") / file).read_text(encoding="utf-8")
        for file in ("page.html", name)
    )
    content, _, script = body.partition("<script>\n")
    html = frame.replace("CONTENT", content).replace("SCRIPT", script)
    html = re.sub("|".join(texts), lambda word: escape(texts[word[0]]), html)
    # Allowed are its script, its style and its own origin, and no frame.
    policy = (
        f"default-src 'none'; script-src {_source_of('script', html)}; "
        f"style-src {_source_of('style', html)}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return reply_with(status, {"Content-Security-Policy": policy}, html=html)


def _source_of(element: str, html: str) -> str:
    """Return the hash of an element's text in the form of Content Security Policy Level 3."""
    text = html.partition(f"<{element}>")[2].partition(f"</{element}>")[0]
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
