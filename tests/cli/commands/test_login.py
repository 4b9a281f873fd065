import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gateway_sdk.auth.token import text_of
from gateway_sdk.cli.config import read_profiles
from tests.cli.ended import Ended
from tests.cli.logins import Tab, browser_command, kept
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


@pytest.mark.posix
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


@pytest.mark.posix
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
