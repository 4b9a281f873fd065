"""A login: what is shown and opened, and the result of each response, delivered or pasted."""

import asyncio
import errno
import io
import logging
import os
import shutil
import socket
import sys
import threading
import time
import webbrowser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway_sdk._peer import is_established
from gateway_sdk._terminal import default_browser
from gateway_sdk.auth import LoopbackReceiver, PasteFromTerminal, Token, login
from gateway_sdk.auth._login.login import _first_token
from gateway_sdk.auth.token import text_of
from gateway_sdk.errors import (
    ConfigurationError,
    LoginError,
    LoginTimeoutError,
    ReceiverUnavailableError,
)
from tests.auth.visits import (
    DENIED,
    ELSEWHERE,
    FLOW,
    FOREIGN,
    GRANTED,
    TOKEN,
    Paster,
    Reader,
    Surfer,
    answer_to,
    asked_in,
    command,
    go,
    join_threads,
    release_ports,
    start,
    threads,
)

pytestmark = pytest.mark.usefixtures("traceless")

HERE = "http://127.0.0.1:0/callback"
REFUSED = "the login was refused (access_denied)"
PASTE_IT = "Then paste the whole address of the page that you are sent to, and press Enter."
everywhere = pytest.mark.parametrize("redirect_uri", [HERE, ELSEWHERE])


async def must_be_closed(url: str) -> None:
    release_ports()
    place = asked_in(url)[0].split("/")[2]
    if place.startswith("127.0.0.1:"):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*place.split(":"))


class Case:
    def __init__(self, redirect_uri: str = HERE, seconds: float = 60, **options: Any) -> None:
        self.reader, self.paster = Reader(), Paster()
        options = {"browser": False, "show": self.reader, "paste": self.paster, **options}
        coroutine = login(FLOW, redirect_uri=redirect_uri, timeout=seconds, **options)
        self.task = asyncio.create_task(coroutine)

    async def paste(self, *answers: str) -> None:
        url = await self.reader.url()
        for answer in answers:
            self.paster.lines.put_nowait(answer_to(url, answer))

    async def must_be_over(self) -> None:
        """Require that the input is not read any more, and that no port is open."""
        assert not self.paster.is_reading
        await must_be_closed(await self.reader.url())


# --- by a browser -----------------------------------------------------------------------------


async def test_a_browser_logs_in(caplog: pytest.LogCaptureFixture) -> None:
    """The user reads another URL than the browser gets, and never the state; nothing is logged."""
    surfer, reader = Surfer(FOREIGN, GRANTED), Reader()
    token = await login(FLOW, browser=surfer, show=reader)
    assert (text_of(token), token.expires_at) == (TOKEN, token.obtained_at + 3600)
    assert 0 <= time.time() - token.obtained_at < 60
    await must_be_closed(surfer.went[0])
    assert reader.texts == [
        "Log in at this address, if no browser opens by itself:",
        await reader.start_url(),
    ]
    assert not set(reader.texts) & {*surfer.opened, *surfer.went}
    _, state = asked_in(surfer.went[0])
    assert logging.getLogger().level == logging.NOTSET
    assert any(record.name == "asyncio" for record in caplog.records)
    assert not any(secret in caplog.text for secret in (state, TOKEN, "CANARY"))


async def test_what_is_shown_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    surfer = Surfer(GRANTED)
    await login(FLOW, browser=surfer)
    printed = capsys.readouterr()
    assert printed.out == ""
    place = surfer.opened[0].rpartition("/")[0]
    assert [line.rpartition("/")[0] for line in printed.err.splitlines()[1:]] == [place]


async def test_a_port_in_use_is_an_error_before_anything_is_shown() -> None:
    reader = Reader()
    async with LoopbackReceiver() as other:
        with pytest.raises(ReceiverUnavailableError):
            await login(FLOW, redirect_uri=other.redirect_uri, browser=Surfer(), show=reader)
    assert reader.texts == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"redirect_uri": ELSEWHERE}, "redirect_uri is not http on this machine.* pass paste="),
        ({"timeout": 0}, "timeout must be a number of seconds, more than 0"),
        (
            {"timeout": 0, "redirect_uri": ELSEWHERE},
            "timeout must be a number of seconds, more than 0",
        ),
    ],
)
async def test_invalid_arguments_are_refused_at_once(options: dict[str, Any], problem: str) -> None:
    reader = Reader()
    with pytest.raises(ConfigurationError, match=problem):
        await login(FLOW, browser=Surfer(), show=reader, **options)
    assert reader.texts == []


def _breaks(url: str) -> bool:
    raise LookupError("CANARY")


@pytest.mark.parametrize("is_shown", [True, False])
@pytest.mark.parametrize("browser", [_breaks, lambda url: 0, "no-such-browser", "no-such %s"])
async def test_a_browser_that_does_not_open_is_reported(browser: Any, is_shown: bool) -> None:
    """The login goes on, though that cannot be shown: the user opens the shown URL by hand."""
    reader = Reader()

    def show(text: str) -> None:
        reader(text)
        if not is_shown and not text.startswith(("Log in", "http:")):
            raise BrokenPipeError

    task = asyncio.create_task(login(FLOW, browser=browser, show=show))
    await reader.line("No browser could be opened here.")
    assert await reader.go(GRANTED) == 200
    assert text_of(await task) == TOKEN
    assert len(reader.texts) == 3


async def test_no_browser_is_opened_if_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("webbrowser.get", opened.append)
    case = Case(paste=None)
    assert await case.reader.go(GRANTED) == 200
    await case.task
    assert case.reader.texts == ["Log in at this address:", await case.reader.start_url()]
    assert opened == []
    assert threads() == []


@pytest.mark.parametrize("before", [None, "", f"no-such-browser %s{os.pathsep}"])
async def test_a_command_opens_the_browser(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: str | None
) -> None:
    """By default, it is the first that works of $BROWSER; %s is an address that leads on."""
    if before is not None:
        monkeypatch.setenv("BROWSER", before + command(tmp_path))
        # What the module has found out about this machine before.
        monkeypatch.setattr("webbrowser._tryorder", None)
        monkeypatch.setattr("webbrowser._browsers", {})
    reader = Reader()
    browser = command(tmp_path) if before is None else None
    assert text_of(await login(FLOW, browser=browser, show=reader)) == TOKEN
    assert reader.texts[0].endswith(", if no browser opens by itself:")
    opened, went = (tmp_path / "went").read_text().split()
    assert opened != await reader.start_url()
    assert went.startswith(FLOW.authorization_url)


def test_a_browser_may_outlive_the_event_loop() -> None:
    """A blocking browser does not keep a program from ending, and its result is dropped."""
    left, began = threading.Event(), threading.Event()

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


# --- by pasting, alone or beside a browser ----------------------------------------------------


@everywhere
async def test_a_pasted_address_logs_in(redirect_uri: str) -> None:
    """Each URL of another login before it is reported as wrong, and not shown."""
    surfer = Surfer()
    case = Case(redirect_uri, browser=surfer if redirect_uri == ELSEWHERE else False)
    for line in ("", "CANARY", "https://evil.test/#CANARY"):
        case.paster.lines.put_nowait(line)
    await case.paste(FOREIGN, "", GRANTED)
    assert text_of(await case.task) == TOKEN
    await case.must_be_over()
    join_threads()
    url = await case.reader.url()
    if redirect_uri == HERE:
        at = f"{await case.reader.start_url()} or, on another machine, at this address:"
    else:
        at = "this address, if no browser opens by itself:"
        assert surfer.went == [url]
    assert case.reader.texts[:3] == [f"Log in at {at}", url, PASTE_IT]
    told = [text for text in case.reader.texts[3:] if not text.startswith("No browser")]
    assert len(told) == 5
    for text in told:
        assert text.startswith(("Not this one: the response ", "Not this one: the URL "))
        assert text.endswith(". Paste the whole address, up to its end.")
        assert "CANARY" not in text


@pytest.mark.parametrize("is_pasted", [False, True])
async def test_a_browser_may_be_faster_than_pasting(is_pasted: bool) -> None:
    """Then reading the input stops; a response that comes both ways at once gives one token."""
    case = Case()
    delivering = asyncio.create_task(case.reader.go(GRANTED))
    if is_pasted:
        await case.paste(GRANTED)
    assert text_of(await case.task) == TOKEN
    await asyncio.wait([delivering])
    if delivering.exception() is None:
        assert delivering.result() in {200, 400}
    await case.must_be_over()


@pytest.mark.parametrize("order", [1, -1])
async def test_a_token_counts_more_than_an_error(order: int) -> None:
    token = Token(TOKEN)

    async def works() -> Token:
        return token

    async def fails() -> Token:
        raise LoginError("nothing was pasted")

    ways = [works(), fails()][::order]
    assert await _first_token(ways, None) is token


@everywhere
@pytest.mark.parametrize("ends_input", [False, True])
async def test_a_pasted_response_without_a_token_ends_the_login(
    redirect_uri: str, ends_input: bool
) -> None:
    """With the same error as from a browser; a user who ends the input gives up the login."""
    case = Case(redirect_uri)
    if ends_input:
        case.paster.lines.put_nowait(None)
    else:
        await case.paste(DENIED)
    with pytest.raises(LoginError) as caught:
        await case.task
    assert str(caught.value) == ("nothing was pasted" if ends_input else REFUSED)
    await case.must_be_over()


async def test_a_login_without_an_input_fails_as_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is held like others: the browser is open, and each call would open one more."""
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(LoginError, match="pasting needs a terminal"):
        await Case(ELSEWHERE, paste=PasteFromTerminal()).task


@pytest.mark.parametrize(
    ("redirect_uri", "options"), [(HERE, {}), (ELSEWHERE, {}), (HERE, {"paste": None})]
)
async def test_a_login_times_out(redirect_uri: str, options: dict[str, Any]) -> None:
    case = Case(redirect_uri, seconds=0.01, **options)
    with pytest.raises(LoginTimeoutError, match=r"^the login was not finished within 0\.01 s: no "):
        await case.task
    if not options:
        await case.must_be_over()


@everywhere
async def test_a_cancelled_login_stops_everything(redirect_uri: str) -> None:
    case = Case(redirect_uri)
    await case.paster.asked.wait()
    case.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await case.task
    await case.must_be_over()
    with pytest.raises(TimeoutError) as caught:  # the caller's own
        async with asyncio.timeout(0.01):
            await Case(redirect_uri).task
    assert type(caught.value) is TimeoutError


@everywhere
async def test_what_pasting_raises_ends_the_login(redirect_uri: str) -> None:

    async def paste() -> str:
        raise error

    error = TimeoutError("theirs")
    with pytest.raises(TimeoutError, match="theirs") as caught:
        await Case(redirect_uri, paste=paste).task
    assert caught.value is error


@everywhere
@pytest.mark.parametrize("last", range(4))
async def test_what_showing_raises_ends_the_login(redirect_uri: str, last: int) -> None:
    shown: list[str] = []

    def show(text: str) -> None:
        if len(shown) == last:
            raise BrokenPipeError
        shown.append(text)

    case = Case(redirect_uri, show=show)
    case.paster.lines.put_nowait("wrong")
    with pytest.raises(BrokenPipeError):
        await case.task
    assert len(shown) == last
    assert not case.paster.is_reading


def test_a_browser_with_windows_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)

    assert default_browser() is webbrowser.open


def test_a_browser_of_text_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is one, `webbrowser.open` would go on to it."""
    opened: list[str] = []

    def get(name: str | None) -> Any:
        def open_it(_: str) -> bool:
            opened.append(found)
            return True

        found = name or "lynx"
        return SimpleNamespace(name=found, open=open_it)

    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(webbrowser, "get", get)
    monkeypatch.setenv("BROWSER", os.pathsep.join(("w3m", "firefox")))
    opens = default_browser()

    assert opens is not None
    assert opens("http://127.0.0.1")
    assert opened == ["firefox"]


def test_a_system_that_does_not_know_the_state_of_a_connection_is_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(socket, "TCP_INFO", raising=False)

    assert is_established(None)


async def test_a_machine_without_a_browser_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway_sdk.auth._login.login.default_browser", lambda: None)
    told: list[str] = []

    with pytest.raises(LoginTimeoutError):
        await login(FLOW, show=told.append, timeout=0.01)

    assert "No browser with windows was found here." in told


class Full(io.StringIO):
    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("kind", ["none", "closed", "full"])
async def test_a_login_needs_no_standard_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    """As in a program with windows only."""
    with (tmp_path / "err").open("w") as file:
        if kind == "closed":
            file.close()
        shown: Any = {"none": None, "full": Full()}.get(kind, file)
        monkeypatch.setattr(sys, "stderr", shown)
        assert text_of(await login(FLOW, browser=Surfer(GRANTED))) == TOKEN


async def test_a_browser_that_fails_when_it_ends_has_opened() -> None:
    loop, reader = asyncio.get_running_loop(), Reader()
    visited: asyncio.Future[tuple[str, str]] = loop.create_future()

    def browser(url: str) -> bool:
        loop.call_soon_threadsafe(visited.set_result, start(url))
        raise LoginError("its status is 1")

    task = asyncio.create_task(login(FLOW, browser=browser, show=reader))
    leads_to, cookie = await visited
    await asyncio.to_thread(go, answer_to(leads_to, GRANTED), cookie)

    assert text_of(await task) == TOKEN
    assert "No browser could be opened here." not in reader.texts


async def test_an_error_of_a_login_that_a_browser_raises_ends_it() -> None:
    def browser(_: str) -> bool:
        raise LoginError("the browser is broken")

    with pytest.raises(LoginError, match="the browser is broken"):
        await login(FLOW, browser=browser, show=str)
