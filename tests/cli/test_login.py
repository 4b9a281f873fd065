"""The commands of access tokens: `gateway login`, `status` and `logout`."""

import os
import re
import signal
import subprocess
import sys
import webbrowser
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import parse_qs, urlsplit

import pytest

from gateway_sdk.auth import Token
from gateway_sdk.auth.token import text_of
from gateway_sdk.cli.login import end_and_scope, has_no_browser
from tests.auth.visits import start
from tests.cli.logins import CANARY, Tab, browser_command, keep, kept, record_path
from tests.cli.support import Call, Settings, Start, StartInTerminal, Terminal
from tests.support.keyrings import locked_keyring

WORKER = """
import asyncio
from gateway_sdk import GatewaySession

async def work():
    async with GatewaySession.from_env(tenant_id="acme") as gateway:
        print((await gateway.wallet.order_history(page=1, take=5))["total"])

asyncio.run(work())
"""


@pytest.mark.posix
@pytest.mark.parametrize("arguments", [["--no-browser"], ["--paste"]])
def test_interruption_ends_the_wait_quietly(
    start_gateway: Start, settings: Settings, arguments: list[str]
) -> None:
    process = start_gateway("login", *arguments)
    assert process.stderr
    while "http://127.0.0.1:" not in (line := process.stderr.readline()):
        assert line

    process.send_signal(signal.SIGINT)
    shown, errors = process.communicate()

    assert (process.returncode, shown) == (130, "")
    assert errors.endswith("\ngateway: stopped by Ctrl-C\n")
    assert "Traceback" not in errors
    assert kept() is None


def test_login_tells_a_shell_what_programs_and_commands_lack(
    call_gateway: Call, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A command is the browser; what is printed is done; a worker and a command use the login."""
    monkeypatch.setenv("GATEWAY_ACCESS_TOKEN", CANARY)
    for variable in settings:
        monkeypatch.delenv(variable)
    pairs = zip(("--base-url", "--auth-url", "--client-id"), settings.values(), strict=True)
    options = [*chain.from_iterable(pairs)]

    told = call_gateway("login", "--browser", browser_command(tmp_path), *options).out
    token = text_of(kept())
    asked = call_gateway("countries", "austria", *options, GATEWAY_ACCESS_TOKEN="")
    for command, variable, text in re.findall(r"\n  (\w+) (\w+)=?(.*)", told):
        monkeypatch.setenv(variable, "" if command == "unset" else text)
    worker = subprocess.run(
        [sys.executable, "-c", WORKER], capture_output=True, check=False, text=True
    )
    status = call_gateway("status", "--try").status

    exports = "".join(f"  export {name}={text}\n" for name, text in settings.items())
    assert told.endswith(f"in their shell:\n  unset GATEWAY_ACCESS_TOKEN\n{exports}")
    assert (worker.stdout.strip().isdecimal(), worker.stderr) == (True, "")
    assert (asked.status, status) == (0, 0)
    assert token not in told


def test_ctrl_c_ends_the_wait_that_keeps_the_port(
    start_in_terminal: StartInTerminal, settings: Settings
) -> None:
    terminal = start_in_terminal("login", "--no-browser", "--timeout", "3")
    start(re.findall(r"http://127\S+", terminal.read_until("http://127"))[0])
    terminal.read_until("Close its tab in the browser now.")
    terminal.interrupt()
    status, _ = terminal.end()

    assert status == 1


def test_a_port_is_kept_until_its_time_has_passed(
    call_gateway: Call, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[bool] = []
    monkeypatch.setattr("gateway_sdk.cli.login.kept_ports", {"a place": ()})
    monkeypatch.setattr("gateway_sdk.cli.login.wait_for_kept_ports", lambda: waits.append(True))
    monkeypatch.setattr(os, "isatty", lambda descriptor: descriptor == 2)

    ended = call_gateway("login", "--no-browser", "--timeout", "0.1")

    assert (ended.status, waits) == (1, [True])
    assert "Close its tab in the browser now." in ended.err


def test_time_out_ends_at_once_if_nobody_came(
    start_in_terminal: StartInTerminal, settings: Settings
) -> None:
    """No tab of the login is open, so its port need not be kept."""
    status, shown = start_in_terminal("login", "--no-browser", "--timeout", "0.5").end()

    assert status == 1
    assert "Close its tab" not in shown


TEXT_BROWSER = "#!/bin/sh\ntouch $HOME/opened\n"


@pytest.fixture
def without_browser(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Path:
    """Be where only text browsers are; return the file that one of them leaves."""
    (tmp_path / "bin").mkdir()
    for name in ("lynx", "w3m", "www-browser"):
        (tmp_path / "bin" / name).write_text(TEXT_BROWSER)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TERM", "xterm")
    for variable in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "SSH_CONNECTION"):
        monkeypatch.delenv(variable, raising=False)
    for name, text in getattr(request, "param", {}).items():
        monkeypatch.setenv(name, text)
    return tmp_path / "opened"


SSH = {"SSH_CONNECTION": "10.0.0.1 50000 10.0.0.2 22"}
everywhere = pytest.mark.parametrize(
    "without_browser",
    [
        {},
        SSH,
        pytest.param({"BROWSER": "w3m"}, marks=pytest.mark.full),
        pytest.param({**SSH, "DISPLAY": ":10"}, marks=pytest.mark.full),
    ],
    indirect=True,
)


@pytest.mark.posix
@everywhere
def test_without_a_browser_the_address_is_pasted(
    without_browser: Path, start_in_terminal: StartInTerminal, settings: Settings
) -> None:
    """As over ssh: no text browser takes the terminal, and what is pasted is not shown."""
    terminal = start_in_terminal("login")
    shown = terminal.read_until(ASKED)
    terminal.wait_until_unseen()
    tab = log_in_elsewhere(shown)
    terminal.type(f"\x1b[200~<{tab.answer}>\x1b[201~\n")
    status, shown = terminal.end()

    assert (status, without_browser.exists()) == (0, False)
    assert shown.startswith("No browser is opened here: log in with one on any machine.\r\n")
    assert "Logged in." in shown
    assert tab.token not in shown
    assert tab.state not in shown.replace(tab.url, "")
    assert terminal.echoes
    assert text_of(kept()) == tab.token


@pytest.mark.posix
@everywhere
def test_without_a_browser_and_a_terminal_paste_is_advised(
    without_browser: Path, start_gateway: Start, settings: Settings
) -> None:
    process = start_gateway("login", "--timeout", "0.1")
    _, errors = process.communicate()

    assert (process.returncode, without_browser.exists()) == (1, False)
    assert errors.splitlines()[0].endswith(" on any machine: in a terminal, with --paste.")
    assert errors.splitlines()[1] == "Log in at this address:"


def test_port_that_is_taken_comes_with_the_way_out(call_gateway: Call, settings: Settings) -> None:
    taken = settings["GATEWAY_BASE_URL"]

    ended = call_gateway("login", "--redirect-uri", f"{taken}/callback")

    assert (ended.status, ended.out) == (2, "")
    first, second = ended.err.splitlines()
    assert first.startswith(f"gateway: port {taken.rpartition(':')[2]} of 127.0.0.1 is in use")
    assert second == "Port 0 in --redirect-uri takes a free port."


def test_login_that_fails_leaves_the_token_that_is_there(
    call_gateway: Call, settings: Settings, tab: Tab
) -> None:
    """The store is tried out with another token; --no-browser only shows the address."""
    keep()

    ended = call_gateway("login", "--no-browser", "--timeout", "0.1")

    assert (ended.status, tab.url) == (1, "")
    assert ended.err.startswith("Log in at this address:\nhttp://127.0.0.1:")
    assert text_of(kept()) == CANARY
    assert list(record_path().parent.iterdir()) == [record_path()]


@pytest.mark.parametrize("command", ["status", "logout", "login"])
def test_store_that_hangs_is_not_waited_for(
    call_gateway: Call, settings: Settings, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("GATEWAY_TOKEN_STORE", "keyring")
    monkeypatch.setattr("gateway_sdk.cli.login.STORE_TIMEOUT", 0.1)
    with locked_keyring():
        ended = call_gateway(command)

    told = "gateway: the token store has not answered for 0.1 s\nIs GATEWAY_TOKEN_STORE right"
    assert (ended.status, ended.err.startswith(told)) == (1, True)


@pytest.mark.parametrize(
    ("granted", "asked", "told"),
    [
        ("", "", None),
        ("read write", "", "read write"),
        ("read write", " write  read", "read write"),
        ("read", "read write delete", "read (not granted: delete write)"),
        ("", "read", "none (not granted: read)"),
        ("read more", "read", "more read"),
    ],
)
def test_narrower_scope_than_asked_is_told(granted: str, asked: str, told: str | None) -> None:
    assert dict(end_and_scope(Token("x", scope=granted), asked)).get("Scope") == told


ASKED = "press Enter."


def log_in_elsewhere(shown: str) -> Tab:
    """Take the address from what a login shows to a browser on another machine."""
    tab = Tab()
    tab(next(line.strip() for line in shown.splitlines() if "state=" in line))
    return tab


Pasting = Callable[..., tuple[subprocess.Popen[str], str]]


@pytest.fixture
def pasting(start_gateway: Start, settings: Settings) -> Pasting:
    """Provide a login that waits for an address in a pipe, and what it has shown."""

    def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
        process = start_gateway("login", "--paste", *arguments)
        assert process.stderr
        return process, "".join(process.stderr.readline() for _ in range(3))

    return start


@pytest.fixture
def asked(start_in_terminal: StartInTerminal, settings: Settings) -> tuple[Terminal, str]:
    """Provide a login in a terminal that waits for an address, and what it has shown."""
    terminal = start_in_terminal("login", "--paste")
    shown = terminal.read_until(ASKED)
    terminal.wait_until_unseen()
    return terminal, shown


def test_interruption_while_pasting_restores_the_terminal(asked: tuple[Terminal, str]) -> None:
    terminal, _ = asked

    terminal.interrupt()
    status, shown = terminal.end()

    assert status == 130
    assert shown.endswith("\r\ngateway: stopped by Ctrl-C\r\n")
    assert "Traceback" not in shown
    assert terminal.echoes


@pytest.mark.parametrize("redirect_uri", ["http://localhost:0/other", "https://app.test/callback"])
def test_address_may_come_from_a_pipe(pasting: Pasting, redirect_uri: str) -> None:
    """A program may paste, too; then nobody needs to listen at the redirect URI."""
    process, told = pasting("--redirect-uri", redirect_uri)
    query = parse_qs(urlsplit(next(line for line in told.split() if "state=" in line)).query)
    answer = f"access_token=token-1&token_type=Bearer&state={query['state'][0]}"

    out, err = process.communicate(f"{query['redirect_uri'][0]}#{answer}\n")

    assert process.returncode == 0
    assert ASKED in told.splitlines()[2]
    assert err == ""
    assert "token-1" not in out
    assert text_of(kept()) == "token-1"


def test_a_desktop_whose_browser_python_does_not_find_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a terminal, where nobody can paste, the login itself says so."""
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setattr("gateway_sdk.cli.login.default_browser", lambda: str)
    monkeypatch.setattr(webbrowser, "get", Mock(side_effect=webbrowser.Error))

    for is_terminal in (True, False):
        monkeypatch.setattr(os, "isatty", lambda _, it=is_terminal: it)
        assert has_no_browser() is is_terminal
