import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.browser.chromium import ARGUMENTS, find_chromium

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def site() -> Path:
    """Provide the folder of the site, which `nox -s docs` has built."""
    folder = ROOT / "site"
    if not (folder / "index.html").exists():
        pytest.fail("the site was not built: run `nox -s docs`", pytrace=False)
    return folder


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def address(site: Path) -> AsyncGenerator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    await asyncio.to_thread(server.shutdown)
    thread.join()
    server.server_close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncGenerator[Browser]:
    if (executable := find_chromium()) is None:
        pytest.skip("not tested, because no Chromium was found")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield browser
        await browser.close()
