import errno
import os
import re
import signal
from pathlib import Path

import pytest
from PIL import Image

from gateway_sdk.cli import sandbox as commands
from gateway_sdk.cli.process import CommandError
from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Fault, Sandbox
from gateway_sdk.sandbox._reference_data import country_list
from tests.cli.support import Call, Start, StartInTerminal

# By the release of babel: Bulgaria had another currency until 2026.
USED = {country["currency"] for country in country_list().records}
SHOWN = 29 + ("BGN" in USED)
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9|10)\d(?:;|m)")


@pytest.mark.posix  # wine lacks what NumPy needs
def test_piped_demo_shows_and_writes_everything(start_gateway: Start, tmp_path: Path) -> None:
    process = start_gateway("demo", "--out", tmp_path / "out")
    out, err = process.communicate()

    assert (process.returncode, err) == (0, "")
    assert "\x1b" not in out
    assert "Fetching" not in out
    _check_text(out)
    _check_rates(tmp_path / "out" / "rates.csv")
    _check_chart(tmp_path / "out" / "rates.png")
    assert len(list((tmp_path / "out").iterdir())) == 2


def _check_text(text: str) -> None:
    lines = [line.rstrip() for line in text.splitlines()]
    rows = [line for line in lines if re.match(r"[A-Z]{3}  +\d", line)]
    assert lines[0] == "Gateway demo: a year of exchange rates, asked from a gateway"
    login = "as ada@example.com, by the implicit flow; a script plays the browser"
    assert f"Login      {login}" in lines
    assert f"Countries  234, which use {len(USED)} currencies" in lines
    assert "Range      2025-10-30 to 2026-10-30, the last twelve months that it has" in lines
    assert len(rows) == SHOWN
    assert rows[0].split()[:4] == ["TRY", "48.496", "55.8015", "+15.1"]
    assert rows[-1].split()[:4] == ["NOK", "11.6648", "10.312", "-11.6"]
    assert rows[-1].endswith("  Norway, 1 more")  # Svalbard and Jan Mayen
    assert re.search(rf"^Rates      \d{{4}} daily rates of {SHOWN} currencies$", text, re.MULTILINE)
    assert "No rates   121 currencies, of which the ECB published none in this range" in lines
    assert "failed" not in text.lower()
    paths = [line for line in lines if "rates." in line]
    assert max(len(line) for line in lines if line not in paths) <= 80
    assert len(paths) == 2


def _check_rates(path: Path) -> None:
    rows = path.read_text(encoding="utf-8").splitlines()
    assert rows[0] == "base,symbol,date,rate"
    assert "EUR,USD,2026-10-30,1.1172" in rows
    assert "EUR,GBP,2025-10-30,0.8801" in rows
    assert len({row.split(",")[1] for row in rows[1:]}) == SHOWN


def _check_chart(path: Path) -> None:
    with Image.open(path) as image:
        assert (image.format, image.size) == ("PNG", (1600, 1000))


def test_terminal_has_progress_and_colours(
    start_in_terminal: StartInTerminal, tmp_path: Path
) -> None:
    status, shown = start_in_terminal("demo", "--out", tmp_path).end()

    assert status == 0
    assert "Fetching" in shown
    assert COLOUR.search(shown)
    lines = CONTROL.sub("", shown).splitlines()
    table = [line for line in lines if re.match(r"[A-Z]{3}  +\d", line)]
    assert len(table) == SHOWN
    assert max(len(line) for line in table) <= 80


@pytest.mark.posix
def test_interruption_ends_the_demo_quietly(start_gateway: Start, tmp_path: Path) -> None:
    process = start_gateway("demo", "--out", tmp_path)
    assert process.stdout
    while "Range" not in process.stdout.readline():
        pass

    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()

    assert (process.returncode, errors) == (130, "\ngateway: stopped by Ctrl-C\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.posix  # wine lacks what NumPy needs
def test_rates_that_cannot_be_written_are_told(
    call_gateway: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def export(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(commands, "export", export)
    ended = call_gateway("demo", "--out", tmp_path)

    why = f"gateway: cannot write {tmp_path}/rates.csv: No space left on device"
    assert ended.status == 1
    assert ended.err.splitlines()[-1] == why


@pytest.mark.posix  # wine lacks what NumPy needs
def test_job_with_broken_calls_fails_and_shows_what_it_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sandbox = Sandbox()
    sandbox.revoke(SANDBOX_ACCESS_TOKEN)  # that of the demo comes from a login
    # A refusal that is not retried, when others have come.
    sandbox.faults.anywhere(Fault.status(403), at=30)
    monkeypatch.setattr(commands, "Sandbox", lambda: sandbox)

    with pytest.raises(CommandError, match="should not have") as caught:
        commands.demo(tmp_path)

    assert caught.value.status == 1
    assert "Failed     1 ForbiddenError 403, such as " in capsys.readouterr().out
    assert (tmp_path / "rates.png").exists()
