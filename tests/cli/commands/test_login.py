import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gateway_sdk.auth.token import text_of
from gateway_sdk.cli.config import read_profiles
from gateway_sdk.sandbox import Visitor
from tests.cli.ended import Ended
from tests.cli.logins import Tab, browser_command, kept, record_path
from tests.cli.terminal import Terminal

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[str]]
Call = Callable[..., Ended]
Settings = Mapping[str, str]
LetBrowse = Callable[[Callable[[str], bool]], None]

MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
WORKER = """
import asyncio
from gateway_sdk import GatewaySession

async def work():
    async with GatewaySession.from_env(tenant_id="acme") as gateway:
        print((await gateway.wallet.order_history(page=1, take=5))["total"])

asyncio.run(work())
"""


def test_login_serves_a_worker_until_the_logout(
    run_gateway: Run, settings: Settings, tmp_path: Path
) -> None:
    """One process logs in with a browser, another works with its token, status and logout tell."""
    logged_in = run_gateway("login", BROWSER=browser_command(tmp_path), **settings)
    text = text_of(kept())
    worker = subprocess.run(
        [sys.executable, "-c", WORKER], capture_output=True, check=False, text=True
    )
    there = run_gateway("status", **settings)
    gone = [run_gateway(command, **settings) for command in ("logout", "status", "logout")]

    assert (logged_in.returncode, worker.returncode, there.returncode) == (0, 0, 0)
    assert worker.stdout.strip().isdecimal()
    assert [ended.returncode for ended in gone] == [0, 1, 0]
    assert "There is no access token here" in gone[0].stdout
    assert "There is no access token here" in gone[2].stdout
    for ended in (logged_in, worker, there, *gone):
        assert text not in ended.stdout + ended.stderr


def test_login_says_what_there_is_now(call_gateway: Call, settings: Settings, tab: Tab) -> None:
    """For which gateway, until when, where it is kept, and who uses it; the address goes aside."""
    ended = call_gateway("login")

    assert ended.status == 0
    assert re.fullmatch(
        "Logged in.\n\n"
        f"Gateway    {settings['GATEWAY_BASE_URL']}\n"
        f"Until      {MOMENT}, in 60 min\n"
        f"Kept in    {record_path()}\n\n"
        r"GatewaySession\.from_env\(\) uses it from now on, with the same settings\.\n",
        ended.out,
    )
    start = tab.url.rpartition("/")[0]
    assert ended.err.startswith(f"Log in at this address, if no browser opens by itself:\n{start}/")


def test_login_shows_neither_token_nor_state(
    call_gateway: Call, settings: Settings, tab: Tab
) -> None:
    """Neither is shown anywhere; nor is the address that the browser got, which works once."""
    ended = call_gateway("login")

    shown = ended.out + ended.err
    assert len(tab.token) == len(tab.state) == 43
    assert text_of(kept()) == tab.token
    assert tab.token not in shown
    assert tab.state not in shown
    assert tab.url not in shown


def test_end_that_is_not_known_is_said(
    call_gateway: Call, settings: Settings, let_browse: LetBrowse
) -> None:
    """A token without an end is good until it is refused."""
    let_browse(Visitor(token="unstated"))

    ended = call_gateway("login")

    assert ended.status == 0
    assert "\nUntil      the gateway refuses it: " in ended.out


@pytest.mark.usefixtures("tab")
def test_settings_from_options_are_told_to_workers(
    call_gateway: Call, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was given as an option has to be set for sessions, in a form to be copied."""
    for name in settings:
        monkeypatch.delenv(name)
    base_url, auth_url, client_id = settings.values()

    ended = call_gateway(
        "login", "--base-url", base_url, "--auth-url", auth_url, "--client-id", client_id
    )

    assert ended.status == 0
    assert ended.out.endswith(
        "uses it from now on, with the same settings:\n"
        + "".join(f"  export {name}={text}\n" for name, text in settings.items())
    )
    assert call_gateway("status", **settings).status == 0


@pytest.mark.usefixtures("tab")
def test_token_in_the_environment_goes_before_that_of_a_login(
    call_gateway: Call, settings: Settings
) -> None:
    """Nobody is told that sessions use the new token while they use another one."""
    ended = call_gateway("login", GATEWAY_ACCESS_TOKEN="another")

    assert ended.status == 0
    assert "from_env() uses it once GATEWAY_ACCESS_TOKEN is unset, with" in ended.out
    assert "another" not in ended.out


def test_scope_that_is_not_granted_is_told(
    call_gateway: Call, settings: Settings, tmp_path: Path
) -> None:
    """The authorization server grants no scope: the interface has none."""
    command = browser_command(tmp_path)
    ended = call_gateway("login", "--scope", "read", "--browser", command)

    assert "\nScope      none (not granted: read)\n" in ended.out


def test_browser_may_be_a_command(call_gateway: Call, settings: Settings, tmp_path: Path) -> None:
    """A command with %s in it is what opens the address."""
    ended = call_gateway("login", "--browser", browser_command(tmp_path, "any", "minute"))

    assert ended.status == 0
    assert re.search(r"Until .*, in \d\d s\n", ended.out)


def test_no_browser_is_opened_on_request(call_gateway: Call, settings: Settings, tab: Tab) -> None:
    """With --no-browser the address is shown, and that is all."""
    ended = call_gateway("login", "--no-browser", "--timeout", "0.1")

    assert ended.status == 1
    assert tab.url == ""
    assert ended.err.startswith("Log in at this address:\nhttp://127.0.0.1:")


@pytest.mark.parametrize("arguments", [["--no-browser"], ["--paste"]])
def test_interruption_ends_the_wait_quietly(
    start_gateway: Start, settings: Settings, arguments: list[str]
) -> None:
    """Ctrl-C while nobody logs in is status 130, without a traceback, and keeps nothing."""
    process = start_gateway("login", *arguments)
    assert process.stderr
    while "http://127.0.0.1:" not in (line := process.stderr.readline()):
        assert line

    process.send_signal(signal.SIGINT)
    if arguments == ["--no-browser"]:  # a browser of this machine may have the login's tab
        while not process.stderr.readline().startswith("Close its tab"):
            pass
        process.send_signal(signal.SIGINT)
    shown, errors = process.communicate()

    assert (process.returncode, shown) == (130, "")
    assert errors.endswith("\ngateway: stopped by Ctrl-C\n")
    assert "Traceback" not in errors
    assert kept() is None


def test_login_in_a_terminal_fits_and_is_coloured(
    start_in_terminal: Callable[..., Terminal], settings: Settings, tmp_path: Path
) -> None:
    """In 80 columns no line runs over but for addresses and paths; the heading is bold."""
    terminal = start_in_terminal(
        "login", BROWSER=browser_command(tmp_path), GATEWAY_ACCESS_TOKEN="another"
    )

    status, shown = terminal.end()

    lines = COLOUR.sub("", shown).splitlines()
    assert status == 0
    assert "\x1b[1mLogged in.\x1b[0m" in shown
    assert "\x1b[1mGatewaySession" in shown
    assert max(len(line) for line in lines if "://" not in line and "/" not in line) <= 80


def test_logins_are_for_one_gateway(call_gateway: Call, settings: Settings, tab: Tab) -> None:
    """Who asks for another gateway's token does not find this one's."""
    call_gateway("login")

    assert call_gateway("status").status == 0
    assert call_gateway("status", "--base-url", "https://other.test").status == 1


@pytest.mark.usefixtures("tab")
@pytest.mark.parametrize("name", ["default", "staging"])
def test_login_is_remembered(
    call_gateway: Call, settings: Settings, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Later commands need no settings but the profile's name, and no token is among them."""
    for variable in settings:
        monkeypatch.delenv(variable)
    chosen = [] if name == "default" else ["--profile", name]
    options = [
        *("--base-url", settings["GATEWAY_BASE_URL"], "--auth-url", settings["GATEWAY_AUTH_URL"]),
        *("--client-id", settings["GATEWAY_CLIENT_ID"], "--tenant", "acme"),
    ]

    logged_in = call_gateway("login", *options, *chosen)
    asked = call_gateway("wallet", "orders", "--take", "1", *chosen)
    status = call_gateway("status", *chosen)
    out = call_gateway("logout", *chosen)

    assert (logged_in.status, asked.status, status.status, out.status) == (0, 0, 0, 0)
    assert f"\nProfile    {name}\n" in logged_in.out
    assert f"Gateway    {settings['GATEWAY_BASE_URL']} (profile {name})\n" in status.out
    assert f"Tenant     acme (profile {name})\n" in status.out
    assert set(read_profiles()[name]) == {"base_url", "auth_url", "client_id", "tenant_id"}


@pytest.mark.usefixtures("settings", "tab")
def test_login_by_the_environment_alone_is_not_remembered(call_gateway: Call) -> None:
    """What the environment says is said there already."""
    assert "Profile" not in call_gateway("login").out
    assert read_profiles() == {}
