import io
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from gateway_sdk.cli import app, main, process
from gateway_sdk.cli.process import Status
from tests.cli.support import Call

MANUAL = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
COMMANDS = [
    f"{group} {member}".rstrip()
    for group in app.SUMMARIES
    for member in ("", *getattr(app.load(group), "commands", ()))
]


def _replace_app(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(**_: str) -> NoReturn:
        raise error

    monkeypatch.setitem(sys.modules, "gateway_sdk.cli.app", SimpleNamespace(app=fail))


@pytest.mark.parametrize("module", [None, "rich.tabel", "gateway_sdk.cli.nonsense"])
def test_module_missing_by_mistake_is_shown_as_it_is(
    monkeypatch: pytest.MonkeyPatch, module: str | None
) -> None:
    _replace_app(monkeypatch, ModuleNotFoundError("a mistake", name=module))

    with pytest.raises(ModuleNotFoundError):
        main()


def test_interruption_before_the_command_begins_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the command line is being imported ends with status 130."""
    _replace_app(monkeypatch, KeyboardInterrupt())

    with pytest.raises(SystemExit) as caught:
        main()

    assert caught.value.code == 130


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("gateway cou", ["countries"]),
        ("gateway wallet ", sorted(app.load("wallet").commands)),
        ("gateway --sandbox rates --p", ["--png"]),
    ],
)
def test_shells_complete_commands_and_options(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    offered: list[str],
) -> None:
    monkeypatch.setenv("_GATEWAY_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))

    with pytest.raises(SystemExit) as caught:
        app.app([], prog_name="gateway")

    assert caught.value.code == 0
    assert sorted(capsys.readouterr().out.split()) == offered


def test_what_an_encoding_lacks_is_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="ascii"))
    monkeypatch.setattr("sys.stderr", None)

    process.tolerate_any_stream()
    sys.stdout.write("BGN ▄")
    sys.stdout.flush()

    assert written.getvalue() == b"BGN ?"


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_describes_all_that_there_is(call_gateway: Call, command: str) -> None:
    """In 80 columns of plain text; a value is called by its meaning, and a switch has none."""
    ended = call_gateway(*command.split(), "-h")

    assert (ended.status, ended.err) == (0, "")
    assert call_gateway(*command.split(), "--help") == ended
    assert ended.out.startswith(f"Usage: gateway {command}".rstrip())
    assert "\x1b" not in ended.out
    assert max(map(len, ended.out.splitlines())) <= 80
    assert not re.search(r"<\w+|\b(?:INTEGER|TEXT|PATH|FLOAT)\b|--no-(?!browser)", ended.out)
    if command in app.SUMMARIES:
        assert " ".join(ended.out.split()).partition(app.SUMMARIES[command])[1]
    shown = ended.out.partition("\nOptions:\n")[2]
    described = re.findall(r"^  (?:-\w, )?--[a-z-]+(?: / --\w+| \S+)?  +\S", shown, re.MULTILINE)
    alone = re.findall(r"^  (?:-\w, )?--[a-z-]+ \S+\n {10,}\S", shown, re.MULTILINE)
    assert len(described) + len(alone) == len(re.findall(r"^  -", shown, re.MULTILINE))


def test_what_is_used_most_is_the_first_of_bulk(call_gateway: Call) -> None:
    commands = call_gateway("bulk", "--help").out.partition("\nCommands:\n")[2]
    assert commands.split()[0] == "rates"


def test_version_and_help_import_no_more_than_they_need() -> None:
    program = (
        "import sys; from gateway_sdk.cli import main; sys.argv = ['gateway', {!r}]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {{'asyncio', 'authlib', 'httpx', 'matplotlib', 'pyarrow', 'pydantic', 'redis',"
        " 'rich.markdown', 'simplejson', 'starlette', 'gateway_sdk.session'}}\n"
        "sys.exit(bool(heavy & sys.modules.keys()))"
    )

    for option in ("--version", "--help"):
        command = [sys.executable, "-c", program.format(option)]
        assert subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0


def test_manual_lists_every_status() -> None:
    listed = {int(status) for status in re.findall(r"^\| (\d+)[^|]*\|", MANUAL, re.MULTILINE)}

    assert listed == {*Status, 0}


def test_manual_lists_every_command() -> None:
    table = MANUAL.partition("## Which gateway")[0]
    listed = {
        " ".join(re.findall(r"[a-z]+", words)) for words in re.findall(r"`gateway ([a-z ]+)", table)
    }

    groups = {command.split()[0] for command in COMMANDS if " " in command}
    assert listed == set(COMMANDS) - groups
