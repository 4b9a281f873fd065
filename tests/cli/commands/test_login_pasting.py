import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway_sdk.auth.token import text_of
from gateway_sdk.sandbox import Visitor
from tests.cli.ended import Call, Settings, Start, StartInTerminal
from tests.cli.logins import Tab, browser_command, kept
from tests.cli.terminal import Terminal

ASKED = "press Enter."


def log_in_elsewhere(shown: str, visitor: Visitor | None = None) -> Tab:
    """Take the address from what a login shows to a browser on another machine."""
    tab = Tab(visitor)
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


def test_pasted_address_logs_in_and_is_not_shown(asked: tuple[Terminal, str]) -> None:
    """In a terminal the answer can be pasted, unseen; afterwards keys are seen again."""
    terminal, shown = asked
    tab = log_in_elsewhere(shown)

    terminal.type(f"{tab.answer}\n")
    status, shown = terminal.end()

    assert status == 0
    assert "Logged in." in shown
    assert tab.token not in shown
    assert tab.state not in shown.replace(tab.url, "")
    assert terminal.echoes
    assert text_of(kept()) == tab.token


def test_wrong_address_is_asked_for_again(asked: tuple[Terminal, str]) -> None:
    """An address that is not the answer is said to be none, and costs no login."""
    terminal, shown = asked
    tab = log_in_elsewhere(shown)

    terminal.type("https://elsewhere.test/\n")
    terminal.read_until("Not this one")
    terminal.type(f"{tab.answer}\n")

    assert terminal.end()[0] == 0


def test_interruption_while_pasting_restores_the_terminal(asked: tuple[Terminal, str]) -> None:
    """Ctrl-C is status 130, one line, and keys are seen again."""
    terminal, _ = asked

    terminal.interrupt()
    status, shown = terminal.end()

    assert status == 130
    assert shown.endswith("\r\ngateway: stopped by Ctrl-C\r\n")
    assert "Traceback" not in shown
    assert terminal.echoes


def test_end_of_input_ends_the_login(asked: tuple[Terminal, str]) -> None:
    """Ctrl-D instead of an address is an error of two lines."""
    terminal, _ = asked

    terminal.type("\x04")
    status, shown = terminal.end()

    assert status == 1
    assert shown.endswith("gateway: nothing was pasted\r\nLog in again.\r\n")


@pytest.mark.parametrize(
    "redirect_uri", ["http://127.0.0.1:0/callback", "http://localhost:0/other"]
)
def test_address_may_come_from_a_pipe(pasting: Pasting, redirect_uri: str) -> None:
    """What a program writes to standard input is taken as what a person pastes."""
    process, told = pasting("--redirect-uri", redirect_uri)
    tab = log_in_elsewhere(told)

    out, err = process.communicate(f"{tab.answer}\n")

    assert process.returncode == 0
    assert ASKED in told.splitlines()[2]
    assert err == ""
    assert tab.token not in out
    assert text_of(kept()) == tab.token


def test_scope_is_asked_for(pasting: Pasting) -> None:
    """The names of --scope are in the address to log in at; without it, there is no scope."""
    for arguments, scope in ([], ""), (["--scope", "write  read"], "&scope=read+write"):
        process, told = pasting(*arguments)
        process.communicate("\n")
        address = told.splitlines()[1]

        assert scope in address
        assert ("scope=" in address) is bool(scope)


def test_denial_may_be_pasted_too(pasting: Pasting) -> None:
    """An answer that says no ends the login as it does in a browser."""
    process, told = pasting()
    tab = log_in_elsewhere(told, Visitor(decision="deny"))

    _, err = process.communicate(f"{tab.answer}\n")

    assert process.returncode == 1
    assert err.startswith(
        "gateway: the login was refused (access_denied): “the user denied access”\n"
    )


def test_answer_may_go_to_another_machine(pasting: Pasting) -> None:
    """A redirect URI that nobody listens at works where the answer is pasted."""
    process, told = pasting("--redirect-uri", "https://app.test/callback")
    state = told.partition("state=")[2].split()[0]
    answer = f"access_token=token-1&token_type=Bearer&state={state}"

    process.communicate(f"https://app.test/callback#{answer}\n")

    assert process.returncode == 0
    assert text_of(kept()) == "token-1"


def test_browser_may_be_opened_beside(
    start_gateway: Start, settings: Settings, tmp_path: Path
) -> None:
    """Whoever names a browser gets it, and need not paste anything."""
    process = start_gateway("login", "--paste", "--browser", browser_command(tmp_path))
    assert process.stdout

    told = process.stdout.readline()

    assert told == "Logged in.\n"
    assert kept() is not None


def test_program_without_input_is_no_traceback(
    call_gateway: Call, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where standard input is closed, nothing can be pasted, and that is said."""
    monkeypatch.setattr(sys, "stdin", None)

    ended = call_gateway("login", "--paste")

    assert ended.status in {1, 2}
    assert ended.err.splitlines()[-2].startswith("gateway: ")
