import io
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Annotated, Any, NoReturn

import pytest
import typer
from annotated_types import Ge, Le
from pydantic import TypeAdapter, ValidationError

from gateway_sdk.cli import app, main, process
from gateway_sdk.cli.app import reworded
from gateway_sdk.cli.output import console
from gateway_sdk.errors import ConnectionFailedError, GatewayError
from tests.cli.ended import Ended

Call = Callable[..., Ended]
Run = Callable[..., subprocess.CompletedProcess[str]]

COMMANDS = (
    "countries",
    "rates",
    "bulk",
    "bulk rates",
    "bulk export",
    "fleet",
    "fleet init",
    "fleet plan",
    "fleet worker",
    "fleet status",
    "fleet collect",
    "fleet failed",
    "fleet unknown",
    "fleet retry",
    "fleet delete",
    "customer",
    "customer create",
    "customer example",
    "customer revise",
    "wallet",
    "wallet orders",
    "wallet history",
    "wallet balance",
    "wallet cancel",
    "aml",
    "aml upload",
    "aml update",
    "aml status",
    "kyc",
    "kyc webhook",
    "demo",
    "sandbox",
    "login",
    "status",
    "logout",
    "profiles",
)


def _replace_app(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(**_: str) -> NoReturn:
        raise error

    monkeypatch.setitem(sys.modules, "gateway_sdk.cli.app", SimpleNamespace(app=fail))


def test_module_missing_by_mistake_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import of ours that fails is a bug, with its traceback."""
    _replace_app(monkeypatch, ModuleNotFoundError("No module named 'x'", name="x"))

    with pytest.raises(ModuleNotFoundError):
        main()


def test_interruption_before_the_command_begins_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the command line is being imported ends with status 130."""
    _replace_app(monkeypatch, KeyboardInterrupt())

    with pytest.raises(SystemExit) as caught:
        main()

    assert caught.value.code == 130


@pytest.fixture
def broken_app() -> typer.Typer:
    """Provide an app like ours with one command that fails and one that is interrupted."""
    broken = typer.Typer(cls=app._Group, pretty_exceptions_enable=False)
    broken.callback()(app.gateway)

    @broken.command()
    def fail() -> None:
        raise ConnectionFailedError("connection refused")

    @broken.command()
    def interrupt() -> None:
        raise KeyboardInterrupt

    return broken


def test_error_of_a_session_is_two_lines(
    broken_app: typer.Typer, capsys: pytest.CaptureFixture[str]
) -> None:
    """What went wrong and what to do next are on standard error, without a traceback."""
    with pytest.raises(SystemExit) as caught:
        broken_app(["fail"])

    assert caught.value.code == 1
    assert capsys.readouterr().err.splitlines() == [
        "gateway: connection refused",
        "Is it running, and is GATEWAY_BASE_URL right? `gateway sandbox` starts one here.",
    ]


def test_interruption_is_one_line(
    broken_app: typer.Typer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C ends a command with status 130, on a line below the terminal's ^C."""
    with pytest.raises(SystemExit) as caught:
        broken_app(["interrupt"])

    assert caught.value.code == 130
    assert capsys.readouterr().err == "\ngateway: stopped by Ctrl-C\n"


def test_debugging_shows_the_error_itself(broken_app: typer.Typer) -> None:
    """With --debug the error goes up as it is, with its traceback."""
    with pytest.raises(GatewayError):
        broken_app(["--debug", "fail"])


def test_version_is_printed(run_gateway: Run) -> None:
    """The version is a line of its own."""
    ended = run_gateway("--version")

    assert (ended.returncode, ended.stdout) == (0, "gateway-sdk 0.1.0\n")


@pytest.mark.parametrize("arguments", [[*command.split(), "--help"] for command in ("", *COMMANDS)])
def test_help_fits_80_columns(call_gateway: Call, arguments: list[str]) -> None:
    """The help of the app and of each command is plain text in 80 columns."""
    ended = call_gateway(*arguments)

    assert (ended.status, ended.err) == (0, "")
    assert "Usage: gateway" in ended.out
    assert "\x1b" not in ended.out
    assert max(len(line) for line in ended.out.splitlines()) <= 80


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (int, "x", "write a whole number"),
        (float, "x", "write a number"),
        (bool, "x", "write 1 or 0"),
        (Annotated[int, Ge(1)], "0", "write at least 1"),
        (Annotated[int, Le(9)], "10", "write at most 9"),
    ],
)
def test_words_of_pydantic_become_those_of_the_command_line(
    kind: Any, given: str, words: str
) -> None:
    """As the installed version of pydantic writes them; newer versions of typer show them."""
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(given)

    error = typer.BadParameter("Input should be another one")
    error.__cause__ = caught.value
    assert reworded(error).message == words


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("gateway cou", ["countries"]),
        ("gateway wallet ", ["balance", "cancel", "history", "orders"]),
        ("gateway --sandbox rates --p", ["--parquet", "--plot", "--png"]),
        ("gateway rates eu", ["eur"]),
        ("gateway rates EUR USD,j", ["USD,jmd", "USD,jod", "USD,jpy"]),
        ("gateway rates EUR USD ZA", ["ZAR"]),
        ("gateway bulk rates --base U", ["UAH", "UGX", "USD", "UYU", "UZS"]),
        ("gateway bulk rates --symbols EUR,US", ["EUR,USD"]),
    ],
)
def test_shells_complete_commands_and_options(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    offered: list[str],
) -> None:
    """What bash asks when somebody presses Tab is answered, options in front included."""
    monkeypatch.setenv("_GATEWAY_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))

    with pytest.raises(SystemExit) as caught:
        app.app([], prog_name="gateway")

    assert caught.value.code == 0
    assert sorted(capsys.readouterr().out.split()) == offered


def test_help_loads_neither_sandbox_nor_chart() -> None:
    """What a command needs is loaded when it runs, and not before."""
    program = (
        "import sys; import gateway_sdk.cli.app;"
        "heavy = {'authlib', 'babel', 'keyring', 'matplotlib', 'pyarrow', 'redis', 'simplejson',"
        " 'starlette', 'uvicorn'};"
        "sys.exit(bool(heavy & sys.modules.keys()))"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(("columns", "used"), [("30", 40), ("60", 60), ("80", 80), ("300", 110)])
def test_width_stays_readable(monkeypatch: pytest.MonkeyPatch, columns: str, used: int) -> None:
    """A terminal is used as wide as it is, but for very narrow and very wide ones."""
    monkeypatch.setenv("COLUMNS", columns)

    assert console.make_console().width == used


def test_importing_the_command_does_not_run_it() -> None:
    """Only `python -m` runs the command line."""
    assert import_module("gateway_sdk.cli.__main__").main is main


def test_what_an_encoding_lacks_is_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A curve on a terminal without blocks is no failure."""
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="ascii"))

    process.tolerate_any_encoding()
    sys.stdout.write("BGN ▄")
    sys.stdout.flush()

    assert written.getvalue() == b"BGN ?"


def test_streams_that_are_no_text_files_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A standard output that somebody replaced, or that is closed, is taken as it is."""
    monkeypatch.setattr("sys.stdout", None)

    process.tolerate_any_encoding()


@pytest.mark.parametrize("arguments", [[*command.split(), "-h"] for command in ("", *COMMANDS)])
def test_help_names_what_is_meant_and_no_type(call_gateway: Call, arguments: list[str]) -> None:
    """A switch takes no value, and a value is called by its meaning; -h is --help."""
    ended = call_gateway(*arguments)

    assert ended.status == 0
    assert not re.search(r"<\w+|\b(?:INTEGER|TEXT|PATH|FLOAT)\b", ended.out)


def test_summaries_are_those_of_the_commands() -> None:
    """The help of the whole says what the help of each command begins with."""
    for name, summary in app.SUMMARIES.items():
        assert (app.load(name).help or "").splitlines()[0] == summary


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_and_argument_is_described(call_gateway: Call, command: str) -> None:
    """What takes a value names it, and no part of a docstring is left in the text."""
    text, _, shown = call_gateway(*command.split(), "--help").out.partition("\nOptions:\n")

    options = re.findall(r"^  (?:-\w, )?(--[a-z-]+(?: \S+)?)  +\S", shown, re.MULTILINE)
    switches = {"--json", "--csv", "--plot", "--all", "--yes", "--help", "--watch", "--check"}
    switches.add("--retry-failed")
    switches |= {"--browser", "--no-browser", "--paste", "--partial", "--try"}
    assert {option for option in options if " " not in option} <= switches
    assert len(options) == len(re.findall(r"^  -", shown, re.MULTILINE))
    assert "Args:" not in text


def test_version_and_help_import_no_more_than_they_need() -> None:
    """Neither waits for the SDK, nor for what rich draws with."""
    program = (
        "import sys; from gateway_sdk.cli import main; sys.argv = ['gateway', {!r}]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {{'asyncio', 'httpx', 'pydantic', 'rich.markdown', 'gateway_sdk.session'}}\n"
        "sys.exit(bool(heavy & sys.modules.keys()))"
    )

    for option in ("--version", "--help"):
        command = [sys.executable, "-c", program.format(option)]
        assert subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("option", [["--profile", "nobody"], ["--profile=nobody"]])
def test_options_for_every_command_may_stand_anywhere(
    call_gateway: Call, place: int, option: list[str]
) -> None:
    """Before a group, between it and its command, and after the command."""
    words = ["wallet", "orders"]
    words[place:place] = option

    assert "there is no profile 'nobody'" in call_gateway(*words).err
