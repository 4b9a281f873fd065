import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from gateway_sdk.cli.demo import show as demo
from gateway_sdk.cli.failure import CommandError
from gateway_sdk.errors import ServerError
from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Fault, Sandbox, Visitor
from tests.cli.ended import Ended
from tests.cli.logins import Tab

Run = Callable[..., subprocess.CompletedProcess[str]]
RunInTerminal = Callable[..., tuple[int, str]]
Start = Callable[..., subprocess.Popen[str]]
Call = Callable[..., Ended]
LetBrowse = Callable[[Callable[[str], bool]], None]

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9|10)\d(?:;|m)")


def test_piped_demo_shows_and_writes_everything(run_gateway: Run, tmp_path: Path) -> None:
    """In a pipe the whole job comes out as plain text, with both files and status 0."""
    ended = run_gateway("demo", "--out", tmp_path / "out", "--concurrency", "8")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert "\x1b" not in ended.stdout
    assert "Fetching" not in ended.stdout
    _check_text(ended.stdout)
    _check_lines(tmp_path / "out" / "rates.jsonl")
    _check_chart(tmp_path / "out" / "rates.png")
    assert len(list((tmp_path / "out").iterdir())) == 2


def _check_text(text: str) -> None:
    lines = [line.rstrip() for line in text.splitlines()]
    rows = [line for line in lines if re.match(r"[A-Z]{3} ", line)]
    assert lines[0] == "Gateway demo: a year of exchange rates, asked from a gateway"
    login = "as ada@example.com, by the implicit flow; a script plays the browser"
    assert f"Login      {login}" in lines
    assert "Countries  234, which use 152 currencies" in lines
    assert "Range      2025-10-30 to 2026-10-30, the last twelve months that it has" in lines
    bulgaria = "BGN  Bulgaria                      1.9558    1.9558    0.0 %  ▄▄▄▄ to 2025-12-31"
    assert rows[9] == bulgaria
    assert len(rows) == 30
    assert rows[0].startswith("TRY  Türkiye                      48.4960   55.8015  +15.1 %  ▁")
    assert rows[-1].startswith("NOK  Norway and 1 more            11.6648   10.3120  −11.6 %  ▇")  # noqa: RUF001
    assert "Calls      153 in all: 33 succeeded, 120 failed" in lines
    assert "No rates   RUB: known to the gateway, but not quoted in this range" in lines
    assert "Failed     120 × NotFoundError: the gateway answered 404 Not Found" in lines  # noqa: RUF001
    paths = [line for line in lines if "rates." in line]
    assert max(len(line) for line in lines if line not in paths) <= 80
    assert len(paths) == 2


def _check_lines(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found: dict[str, dict[str, Any]] = {line["currency"]: line for line in lines}
    assert len(lines) == len(found) == 152
    assert found["USD"]["rates"]["2026-10-30"] == 1.1172
    assert found["GBP"]["rates"]["2025-10-30"] == 0.8801
    assert found["USD"]["countries"][0] == "United States"
    assert max(found["BGN"]["rates"]) == "2025-12-31"
    assert {code: found[code]["state"] for code in ("AED", "BGN", "EUR", "RUB", "USD")} == {
        "AED": "failed",
        "BGN": "ended",
        "EUR": "base",
        "RUB": "silent",
        "USD": "current",
    }
    assert found["AED"]["error"]["type"] == "NotFoundError"


def _check_chart(path: Path) -> None:
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    with Image.open(path) as image:
        assert image.size == (1600, 1000)


def test_terminal_has_progress_and_colours(run_in_terminal: RunInTerminal, tmp_path: Path) -> None:
    """In a terminal of 80 columns there is a progress bar, and no line runs over."""
    status, shown = run_in_terminal("demo", "--out", tmp_path)

    assert status == 0
    assert "Fetching" in shown
    assert COLOUR.search(shown)
    table = [line for line in CONTROL.sub("", shown).splitlines() if re.match(r"[A-Z]{3} ", line)]
    assert len(table) == 30
    assert max(len(line) for line in table) == 80


def test_colours_can_be_refused(run_in_terminal: RunInTerminal, tmp_path: Path) -> None:
    """NO_COLOR leaves a terminal without any colour."""
    status, shown = run_in_terminal("demo", "--out", tmp_path, NO_COLOR="1")

    assert status == 0
    assert COLOUR.search(shown) is None


def test_interruption_ends_the_demo_quietly(start_gateway: Start, tmp_path: Path) -> None:
    """Ctrl-C in the midst of the calls is status 130, without a traceback."""
    process = start_gateway("demo", "--out", tmp_path)
    assert process.stdout
    while "Range" not in process.stdout.readline():
        pass

    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()

    assert (process.returncode, errors) == (130, "\ngateway: stopped by Ctrl-C\n")
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_written_is_told_before_any_work(
    run_gateway: Run, tmp_path: Path
) -> None:
    """A folder below a regular file is one line, status 2, and no call."""
    (tmp_path / "file").touch()

    ended = run_gateway("demo", "--out", tmp_path / "file" / "out")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        f"gateway: cannot write into {tmp_path}/file/out: Not a directory;"
        " choose another folder with --out\n"
    )


def _show_with(faulty: Sandbox, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(demo, "Sandbox", lambda: faulty)
    demo.show(folder, concurrency=4)


def test_job_with_broken_calls_fails_and_shows_what_it_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A call that should not have failed makes the job fail, after its report and files."""
    sandbox = Sandbox()
    # A refusal that is not retried.
    sandbox.faults.anywhere(Fault.status(403), at=9)

    with pytest.raises(CommandError, match="should not have") as caught:
        _show_with(sandbox, monkeypatch, tmp_path)

    assert caught.value.status == 1
    assert "1 × ForbiddenError: the gateway answered 403 Forbidden" in capsys.readouterr().out  # noqa: RUF001
    assert (tmp_path / "rates.png").exists()


def test_job_without_countries_is_an_error_of_the_session(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without the list of countries there is nothing to show, and the error goes up."""
    sandbox = Sandbox()
    sandbox.faults.anywhere(Fault.status(501))

    with pytest.raises(ServerError):
        _show_with(sandbox, monkeypatch, tmp_path)


def test_token_of_the_demo_comes_from_a_login(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The job works at a sandbox whose ready token is refused."""
    sandbox = Sandbox()
    sandbox.revoke(SANDBOX_ACCESS_TOKEN)

    _show_with(sandbox, monkeypatch, tmp_path)

    assert (tmp_path / "rates.png").exists()


def test_user_may_log_in_by_their_own_browser(
    call_gateway: Call, let_browse: LetBrowse, tmp_path: Path
) -> None:
    """With --browser the user is shown the address, and the token is theirs."""
    tab = Tab()
    let_browse(tab.hand_over)

    ended = call_gateway("demo", "--browser", "--out", tmp_path)

    assert ended.status == 0
    assert ended.err == f"Log in at this address, if no browser opens by itself:\n{tab.url}\n"
    assert "\nLogin      in your browser, by the implicit flow\n" in ended.out
    assert tab.state not in ended.out
    assert tab.token not in ended.out + ended.err


def test_user_who_does_not_log_in_gets_no_demo(
    call_gateway: Call, let_browse: LetBrowse, tmp_path: Path
) -> None:
    """Who says no at the login page reads that, and nothing is written."""
    let_browse(Visitor(decision="deny"))

    ended = call_gateway("demo", "--browser", "--out", tmp_path)

    assert ended.status == 1
    assert "the login was refused (access_denied)" in ended.err
    assert list(tmp_path.glob("rates*")) == []
