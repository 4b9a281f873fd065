"""The browser of a login: what opens it, and what happens if none opens."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk.auth import _kept_ports, login
from gateway_sdk.errors import LoginTimeoutError
from tests.auth.people import (
    ELSEWHERE,
    FLOW,
    GOOD,
    TOKEN,
    Paster,
    Reader,
    Surfer,
    answer_to,
    command,
)
from tests.auth.traces import (
    join_threads,
    no_records,
    no_traces,
    open_files,
    release_ports,
    threads,
)


@pytest.fixture(autouse=True)
async def _no_traces(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    async with no_traces(caplog):
        yield


def _breaks(url: str) -> bool:
    raise LookupError("CANARY")


@pytest.mark.parametrize(
    "browser", [_breaks, lambda url: False, lambda url: 0, "no-such-browser", "no-such-browser %s"]
)
async def test_a_browser_that_does_not_open_is_reported(browser: Any) -> None:
    """The login goes on, and the user opens the shown URL by hand."""
    reader = Reader()
    task = asyncio.create_task(login(FLOW, browser=browser, show=reader))
    await reader.line("No browser could be opened here.")

    assert await reader.go(GOOD) == 200
    assert (await task).value.get_secret_value() == TOKEN
    assert len(reader.texts) == 3


async def test_an_error_while_showing_the_browser_problem_does_not_end_the_login() -> None:
    """If even that message cannot be shown, the login can still be finished."""
    reader = Reader()

    def show(text: str) -> None:
        reader(text)
        if not text.startswith(("Log in", "http:")):
            raise BrokenPipeError

    task = asyncio.create_task(login(FLOW, browser=_breaks, show=show))
    await reader.line("No browser")

    assert await reader.go(GOOD) == 200
    assert (await task).value.get_secret_value() == TOKEN


async def test_no_browser_is_opened_if_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With browser=False the URL is shown and no program is started."""
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("webbrowser.get", opened.append)
    reader = Reader()
    task = asyncio.create_task(login(FLOW, browser=False, show=reader))

    assert await reader.go(GOOD) == 200
    await task
    assert reader.texts == ["Log in at this address:", await reader.start_url()]
    assert opened == []
    assert threads() == []


async def test_a_command_opens_the_browser(tmp_path: Path) -> None:
    """A command gets a URL that leads to the login in place of its %s."""
    reader = Reader()

    token = await login(FLOW, browser=command(tmp_path), show=reader)

    assert token.value.get_secret_value() == TOKEN
    opened, went = (tmp_path / "went").read_text().split()
    assert opened != await reader.start_url()
    assert went.startswith(FLOW.authorization_url)


@pytest.mark.parametrize("before", ["", "no-such-browser %s:"])
async def test_the_environment_names_the_browser(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: str
) -> None:
    """By default, the first working browser of $BROWSER is opened."""
    monkeypatch.setenv("BROWSER", before + command(tmp_path))
    # What the module has found out about this machine before.
    monkeypatch.setattr("webbrowser._tryorder", None)
    monkeypatch.setattr("webbrowser._browsers", {})
    reader = Reader()

    token = await login(FLOW, show=reader)

    assert reader.texts[0].endswith(", if no browser opens by itself:")
    assert token.value.get_secret_value() == TOKEN
    opened, went = (tmp_path / "went").read_text().split()
    assert opened != await reader.start_url()
    assert went.startswith(FLOW.authorization_url)


async def test_a_browser_is_opened_where_the_answer_is_pasted() -> None:
    """A redirect URI of another machine needs a browser too."""
    surfer, reader, paster = Surfer(), Reader(), Paster()
    task = asyncio.create_task(
        login(FLOW, redirect_uri=ELSEWHERE, browser=surfer, show=reader, paste=paster)
    )
    url = await reader.url()
    paster.lines.put_nowait(answer_to(url, GOOD))

    assert (await task).value.get_secret_value() == TOKEN
    join_threads()
    assert surfer.went == [url]


def test_a_browser_may_outlive_the_event_loop(caplog: pytest.LogCaptureFixture) -> None:
    """A blocking browser does not keep a program from ending, and its result is dropped."""
    _kept_ports._run(asyncio.sleep(0))
    files, left, began = open_files(), threading.Event(), threading.Event()

    def blocks(url: str) -> bool:
        began.set()
        return left.wait()

    async def main() -> None:
        asyncio.get_running_loop().slow_callback_duration = 60  # slow steps are normal
        with pytest.raises(LoginTimeoutError):
            await login(FLOW, browser=blocks, show=str, timeout=0.01)

    asyncio.run(main(), debug=True)
    [thread] = threads()
    assert began.wait()
    assert thread.daemon
    left.set()
    thread.join()
    release_ports()

    assert open_files() == files
    gc.collect()
    no_records(caplog)
