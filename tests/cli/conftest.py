import logging
import os
import subprocess
import sys
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from gateway_sdk.auth._login import server
from gateway_sdk.cli import main
from gateway_sdk.cli.arguments import GIVEN
from gateway_sdk.sandbox import AUTHORIZE_PATH, SANDBOX_CLIENT_ID, Sandbox
from tests.cli.logins import Tab
from tests.cli.support import GATEWAY, Ended, Terminal

# What a developer's own shell may have set, and what would change what is printed.
MOODS = ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TERM", "CI")


@pytest.fixture(autouse=True)
def strange_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Keep the files and the settings of whoever runs the tests out of them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("WIN_PD_OVERRIDE_LOCAL_APPDATA", str(tmp_path / "local"))
    for name in os.environ:
        if name.startswith("GATEWAY_"):
            monkeypatch.delenv(name)
    # What it would open, if a test forgot to say so.
    monkeypatch.setenv("BROWSER", "false %s")
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    # The port of a login that ended is not kept for minutes here.
    monkeypatch.setattr(server, "KEPT_SECONDS", 0.1)
    # A process has one command.
    monkeypatch.setattr("gateway_sdk.cli.session._SENT", set())
    GIVEN.clear()
    # What --verbose changes for the rest of its process.
    names = ("gateway_sdk", "gateway_sdk.bulk")
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger, [*logger.handlers], logger.level) for logger in loggers]
    yield
    for logger, handlers, level in before:
        logger.handlers[:] = handlers
        logger.setLevel(level)


def environment(**more: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if name not in MOODS}
    return {**plain, "PYTHONIOENCODING": "utf-8", "TERM": "xterm-256color", **more}


@pytest.fixture
def start_in_terminal() -> Iterator[Callable[..., Terminal]]:
    """Provide the command line as a process in a terminal of 80 columns, at which a test sits."""
    if os.name == "nt":
        pytest.skip("Windows has no pseudo-terminals that a test could sit at")
    opened: list[Terminal] = []

    def start(*arguments: str | Path, **more: str) -> Terminal:
        opened.append(Terminal([*GATEWAY, *arguments], environment(**more)))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


@pytest.fixture
def start_gateway() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Provide the command line as a process that runs on; none outlives its test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str | Path, **more: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*GATEWAY, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            # Python holds back what it pipes until there is much of it.
            env=environment(PYTHONUNBUFFERED="1", **more),
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def call_gateway(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ended]:
    """Provide the command line in this process, 80 columns wide and without colours."""

    def call(*arguments: str | Path, **more: str) -> Ended:
        for name, text in {**dict.fromkeys(MOODS, ""), "COLUMNS": "80", **more}.items():
            monkeypatch.setenv(name, text)
        monkeypatch.setattr(sys, "argv", ["gateway", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        return Ended(int(caught.value.code or 0), *capsys.readouterr())

    return call


@pytest.fixture
def served(gateway_sandbox: Sandbox, gateway_env: Mapping[str, str]) -> Sandbox:
    """Provide a sandbox that another thread serves and that the environment points at."""
    return gateway_sandbox


@pytest.fixture
def settings(gateway_url: str, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """Put the settings of a login at that sandbox into the environment, and provide them."""
    found = {
        "GATEWAY_BASE_URL": gateway_url,
        "GATEWAY_AUTH_URL": gateway_url + AUTHORIZE_PATH,
        "GATEWAY_CLIENT_ID": SANDBOX_CLIENT_ID,
    }
    for name, text in found.items():
        monkeypatch.setenv(name, text)
    return found


@pytest.fixture
def tab(monkeypatch: pytest.MonkeyPatch) -> Tab:
    """Provide a browser in this process that hands over what it is sent to."""
    tab = Tab()
    monkeypatch.setattr(webbrowser, "open", tab.hand_over)
    return tab
