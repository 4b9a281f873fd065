"""A web site whose replies a test writes."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Self

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from gateway_sdk.sandbox._server import serve

ICON = '<!doctype html><link rel="icon" href="data:,">'
"""The beginning of a page for which no icon is asked."""


class Site:
    """Serves at a free port of this machine."""

    url: str

    def __init__(self, reply: Callable[[Request], Response]) -> None:
        self.requests: list[Request] = []
        self.posted: asyncio.Queue[str] = asyncio.Queue()  # the bodies that were sent to it
        self._reply = reply

    @asynccontextmanager
    async def serve(self, port: int = 0) -> AsyncGenerator[Self]:
        async with serve(self, "127.0.0.1", port) as self.url:
            yield self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self.requests.append(request)
        if body := await request.body():
            self.posted.put_nowait(body.decode())
        await self._reply(request)(scope, receive, send)


def blank(_: Request) -> Response:
    """Reply with a page that may load what it likes."""
    return HTMLResponse(f"{ICON}<title>Win a prize</title>")


def authorization_server(response: str) -> Callable[[Request], Response]:
    """Ask with a button, then redirect with a response in which STATE is replaced."""

    def reply(request: Request) -> Response:
        if request.method == "GET":
            return HTMLResponse(f'{ICON}<form method="post"><input name="x"><button id="allow">')
        asked = request.query_params
        location = asked["redirect_uri"] + response.replace("STATE", asked["state"])
        return Response(status_code=302, headers={"Location": location})

    return reply
