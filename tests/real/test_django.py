"""`gateway login` in Chromium at an authorization server that is not ours."""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import find_chromium
from tests.support.ports import free_port

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="not tested, because no Chromium was found"
)
HERE = Path(__file__).parent
CLOSE = "Close its tab in the browser now."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port, folder = free_port(), tmp_path_factory.mktemp("django")
    command = [sys.executable, str(HERE / "django_server.py"), str(port), str(folder)]
    with subprocess.Popen(command, stdout=PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield f"http://127.0.0.1:{port}/o/authorize/"
        process.kill()


async def log_in(server: str, folder: Path, decision: str, *options: str) -> tuple[int | None, str]:
    """Return the status and the output of the command; Ctrl-C ends what keeps a port."""
    browser = [sys.executable, str(HERE / "consent.py"), str(CHROMIUM), decision]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from gateway_sdk.cli import main; main()", "login", *options,
        env={
            **os.environ,
            "GATEWAY_BASE_URL": "https://gateway.example.com",
            "GATEWAY_AUTH_URL": server,
            "GATEWAY_CLIENT_ID": "gateway-cli",
            "BROWSER": f"{shlex.join(browser)} %s",
            "XDG_STATE_HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
        },
        stdin=DEVNULL, stdout=PIPE, stderr=STDOUT,
    )  # fmt: skip
    assert process.stdout
    printed = ""
    while line := (await process.stdout.readline()).decode():
        printed += line
        if line.startswith(CLOSE):
            process.send_signal(signal.SIGINT)
    return await process.wait(), printed


@pytest.mark.parametrize(
    ("decision", "options", "status", "told"),
    [
        ("allow", ["--scope", "read write"], 0, ["Scope      read write\n", "You are logged in"]),
        ("allow", ["--redirect-uri", "PORT"], 0, ["Logged in.", "You are logged in"]),
        ("deny", [], 1, ["the login was refused (access_denied)", "You are not logged in"]),
        ("read", ["--scope", "read write"], 0, ["Scope      read (not granted: write)\n"]),
        (
            "look",
            ["--redirect-uri", "http://127.0.0.1:0/other", "--timeout", "20"],
            1,
            ["/other may not be registered", "Mismatching redirect URI"],
        ),
    ],
    ids=["a chance port", "a fixed port", "denied", "a narrowed scope", "not registered"],
)
async def test_a_login_at_django_oauth_toolkit(
    server: str, tmp_path: Path, decision: str, options: list[str], status: int, told: list[str]
) -> None:
    """Each ends as it should, and the person reads why in the terminal and in the browser."""
    fixed = f"http://127.0.0.1:{free_port()}/callback"
    options = [fixed if option == "PORT" else option for option in options]

    ended, printed = await log_in(server, tmp_path, decision, *options)

    assert ended == status, printed
    assert [text for text in told if text not in printed] == [], printed
    assert "access_token" not in printed


async def test_two_logins_at_once(server: str, tmp_path: Path) -> None:
    ended = await asyncio.gather(*(log_in(server, tmp_path, "allow") for _ in range(2)))

    assert [status for status, _ in ended] == [0, 0], ended
