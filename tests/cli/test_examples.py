"""Every example below a command's help works as it stands."""

import io
import json
import re
import shlex
from importlib.resources import files
from pathlib import Path

import pytest

from gateway_sdk import cli
from gateway_sdk.cli import app
from gateway_sdk.sandbox import Sandbox
from tests.cli.support import Call
from tests.cli.test_journals import leave_unknown

EXAMPLES = files(cli).joinpath("examples.txt").read_text("utf-8").splitlines()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a folder with the files that examples name, and work there."""
    monkeypatch.chdir(tmp_path)
    Path("ada.json").write_text('{"customerName": "Ada"}', encoding="utf-8")
    Path("changes.json").write_text('{"customerStatus": "active"}', encoding="utf-8")
    for name in ("passport.pdf", "passport.bin", "event.json"):
        Path(name).write_bytes(b"scan")
    Path("status.json").write_text(json.dumps({"status": "approved"}), encoding="utf-8")
    Path("done.json").write_text('{"customerId": "c-1"}', encoding="utf-8")
    leave_unknown(Path("run.db"))
    return tmp_path


def arguments_of(line: str) -> list[str]:
    """Do with an example what a shell does, but for what stands behind a pipe or a bracket."""
    command = re.split(r" [|<>] ", line)[0]
    return shlex.split(command)[1:]


@pytest.mark.parametrize(
    "line",
    # Charts need NumPy, for which wine lacks functions.
    [pytest.param(it, marks=[pytest.mark.posix] * ("--png" in it)) for it in EXAMPLES],
)
@pytest.mark.usefixtures("folder")
def test_example_works(
    call_gateway: Call, served: Sandbox, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    arguments = arguments_of(line)
    if "<" in line:
        given = Path(line.split(" < ")[1]).read_bytes()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
    if arguments[:1] == ["aml"]:
        assert call_gateway("aml", "upload", "passport.pdf").status == 0
    if arguments[:2] == ["bulk", "export"]:
        job = ("--base", "EUR", "--symbols", "USD", "--start", "2026-10-01")
        assert call_gateway("bulk", "rates", *job, "--out", "rates.csv").status == 0
    if arguments[:2] == ["wallet", "cancel"] and "--yes" not in arguments:
        arguments.append("--yes")

    ended = call_gateway(*arguments)

    assert ended.status == 0, ended.err
    for file in re.findall(r"--png (\S+)", line):
        assert Path(file).stat().st_size


def test_help_shows_the_examples_of_a_command() -> None:
    shown = "\n".join(
        command.epilog or ""
        for group in map(app.load, app.SUMMARIES)
        for command in getattr(group, "commands", {"": group}).values()
    )

    assert sorted(re.findall(r"^ +(gateway .*)", shown, re.MULTILINE)) == sorted(EXAMPLES)
    assert "gateway wallet balance --csv" in app.load("wallet").epilog
