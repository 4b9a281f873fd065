"""One tab of Chromium, Firefox or WebKitGTK, with the same three commands."""

import asyncio
import json
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import httpx
from playwright.async_api import Page, async_playwright

from tests.browser.chromium import ARGUMENTS
from tests.support.ports import free_port

_SECONDS = 60.0
"""For each command, and for what a page shows: longer than the slowest machine needs."""
_POLL = 0.05  # seconds; the browsers' own wait for an element hangs when the page changes
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # W3C WebDriver, 11


class Engine(Protocol):
    """One tab."""

    async def go(self, url: str) -> None:
        """Load a page."""
        ...

    async def click(self, xpath: str) -> None:
        """Wait for an element, and click it."""
        ...

    async def run(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript, or what it promises."""
        ...


class OfPlaywright:
    def __init__(self, page: Page) -> None:
        self._page = page

    async def go(self, url: str) -> None:
        await self._page.goto(url)

    async def click(self, xpath: str) -> None:
        await self._page.click(f"xpath={xpath}")

    async def run(self, expression: str) -> Any:
        return await self._page.evaluate(expression)


class OfWebDriver:
    """Gives the commands of W3C WebDriver; a subclass brings them to its browser."""

    async def send(self, command: str, **parameters: Any) -> Any:
        raise NotImplementedError

    async def go(self, url: str) -> None:
        await self.send("Navigate", url=url)

    async def click(self, xpath: str) -> None:
        async with asyncio.timeout(_SECONDS):
            what = {"using": "xpath", "value": xpath}
            while not (found := await self.send("FindElements", **what)):  # noqa: ASYNC110 - no event
                await asyncio.sleep(_POLL)
        await self.send("ElementClick", id=found[0][_ELEMENT])

    async def run(self, expression: str) -> Any:
        script = f"const done = arguments[0]; Promise.resolve({expression}).then(done);"
        return await self.send("ExecuteAsyncScript", script=script, args=[])


class OfMarionette(OfWebDriver):
    """Firefox: JSON over TCP."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    async def receive(self) -> Any:
        length = (await self._reader.readuntil(b":"))[:-1]
        return json.loads(await self._reader.readexactly(int(length)))

    async def send(self, command: str, **parameters: Any) -> Any:
        message = json.dumps([0, 0, f"WebDriver:{command}", parameters])
        self.writer.write(f"{len(message)}:{message}".encode())
        async with asyncio.timeout(_SECONDS):
            _, _, error, result = await self.receive()
        assert error is None, error
        return result.get("value") if isinstance(result, dict) else result


_PATHS = {
    "Navigate": "url",
    "FindElements": "elements",
    "ElementClick": "element/{id}/click",
    "ExecuteAsyncScript": "execute/async",
}


class OfWebKit(OfWebDriver):
    """WebKitGTK: HTTP."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def send(self, command: str, **parameters: Any) -> Any:
        path = _PATHS[command].format(**parameters)
        reply = await self._client.post(path, json=parameters)
        assert reply.status_code == httpx.codes.OK, reply.text
        return reply.json()["value"]


@asynccontextmanager
async def chromium(executable: str, _: Path) -> AsyncGenerator[Engine]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield OfPlaywright(await browser.new_page())
        await browser.close()


@asynccontextmanager
async def firefox(executable: str, folder: Path) -> AsyncGenerator[Engine]:
    (folder / "user.js").write_text('user_pref("marionette.port", 0);')  # a free one
    command = (executable, "--headless", "--marionette", "--no-remote", "--profile", str(folder))
    async with running(*command, HOME=str(folder)) as process:
        port = await said(process, rb"Listening on port ([0-9]+)")
        engine = OfMarionette(*await asyncio.open_connection("127.0.0.1", port))
        await engine.receive()  # who it is
        await engine.send("NewSession")
        yield engine
        engine.writer.close()


@asynccontextmanager
async def webkit(executable: str, folder: Path) -> AsyncGenerator[Engine]:
    port = free_port()
    options = {"binary": executable, "args": ["--automation"]}
    wanted = {"webkitgtk:browserOptions": options}
    # The driver does not say when it listens: so to connect is tried several times.
    transport = httpx.AsyncHTTPTransport(retries=5)
    async with running("Xvfb", "-displayfd", "1", "-nolisten", "tcp") as screen:
        display = f":{await said(screen, rb'([0-9]+)')}"
        async with (
            running("WebKitWebDriver", f"--port={port}", DISPLAY=display, HOME=str(folder)),
            httpx.AsyncClient(transport=transport, timeout=_SECONDS) as client,
        ):
            client.base_url = httpx.URL(f"http://127.0.0.1:{port}/session")
            begun = await client.post("", json={"capabilities": {"alwaysMatch": wanted}})
            client.base_url = client.base_url.join(
                f"/session/{begun.json()['value']['sessionId']}/"
            )
            yield OfWebKit(client)
            await client.delete("")


@asynccontextmanager
async def running(*command: str, **environment: str) -> AsyncGenerator[Process]:
    """Start a program; in the end, end it with all that it has started."""
    environment = {**os.environ, **environment}
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, start_new_session=True
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def said(process: Process, pattern: bytes) -> int:
    """Wait until it prints a number."""
    assert process.stdout is not None
    async with asyncio.timeout(_SECONDS):
        async for line in process.stdout:
            if found := re.search(pattern, line):
                return int(found[1])
    raise AssertionError("it has ended")
