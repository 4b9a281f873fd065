"""A hostile site: its page is blank, and the test decides on the attack."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Self

from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.types import Receive, Scope, Send

from gateway_sdk.sandbox._server import serve

_PAGE = HTMLResponse("""<!doctype html><title>Win a prize</title><link rel="icon" href="data:,">""")


class HostileServer:
    """Answers everything with the blank page, which may load what it likes.

    Attributes:
        url: Where it is.
        requests: Method and path of each.
    """

    url: str

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []

    @property
    def url_elsewhere(self) -> str:
        """Its URL with another host name, which makes it another site than 127.0.0.1."""
        return self.url.replace("127.0.0.1", "localhost")

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[Self]:
        """Serve on a free port in the running loop."""
        async with serve(self, "127.0.0.1", 0) as self.url:
            yield self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        self.requests.append((request.method, request.url.path))
        await _PAGE(scope, receive, send)
