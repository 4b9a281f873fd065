import errno
import io
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import Mock

import pytest

from gateway_sdk.cli.output import make_console, progress
from gateway_sdk.cli.process import EXTRA_OF, CommandError, say, whole_output, write_out
from gateway_sdk.sandbox import Fault, Sandbox
from tests.cli.support import GATEWAY, Call

FULL = Path("/dev/full")


def test_data_is_utf_8_whatever_the_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Names of countries survive a pipe of a system whose encoding lacks their letters."""
    with (tmp_path / "out").open("w", encoding="ascii") as out:
        monkeypatch.setattr(sys, "stdout", out)
        write_out("São Tomé\n")

    assert (tmp_path / "out").read_bytes() == "São Tomé\n".encode()


def test_output_that_the_system_takes_in_parts_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with PYTHONUNBUFFERED on a disk that fills, which the next part is told."""
    parts: list[bytes] = []

    def write(data: bytes) -> int:
        parts.append(data[:2])
        return len(parts[-1])

    monkeypatch.setattr(sys, "stdout", Mock(**{"buffer.write": write}))
    write_out("abcde")

    assert parts == [b"ab", b"cd", b"e"]


@pytest.mark.posix
@pytest.mark.parametrize("buffering", [-1, 0])
def test_full_pipe_that_does_not_block_is_told(
    buffering: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program may have made it so, and what is missing then is no bug of ours."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with io.TextIOWrapper(open(writing, "wb", buffering)) as pipe:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdout", pipe)
        with pytest.raises(CommandError, match="cannot write the output"):
            write_out("x" * 10**6)
    os.close(reading)


@pytest.mark.posix
@pytest.mark.parametrize("write", [write_out, lambda text: make_console().print(text)])
def test_reader_that_leaves_ends_it_quietly(
    monkeypatch: pytest.MonkeyPatch, write: Callable[[str], None]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as pipe:  # noqa: PTH123 - a descriptor
        monkeypatch.setattr(sys, "stdout", pipe)
        with pytest.raises(SystemExit) as caught, whole_output():
            write("nobody reads this")

    assert caught.value.code == 141


def test_other_failures_are_not_taken_for_it() -> None:
    with pytest.raises(FileNotFoundError), whole_output():
        raise FileNotFoundError(errno.ENOENT, "no such file")


def test_data_need_a_standard_output(monkeypatch: pytest.MonkeyPatch, call_gateway: Call) -> None:
    monkeypatch.setattr(sys, "stdout", None)

    ended = call_gateway("countries", "austria", "--sandbox")

    assert ended == (1, "", "gateway: there is no standard output to write to\n")
    assert call_gateway("--version") == (0, "", "")


@pytest.mark.skipif(not FULL.exists(), reason="a disk that is always full is Linux's")
@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["--sandbox", "countries"], ["sandbox", "--port", "0"]]
)
@pytest.mark.parametrize("debug", [[], ["--debug"]])
def test_every_command_tells_of_a_full_disk(
    monkeypatch: pytest.MonkeyPatch,
    call_gateway: Call,
    arguments: list[str],
    debug: list[str],
) -> None:
    with FULL.open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        ended = call_gateway(*debug, *arguments)

    assert ended.status == 1
    assert ended.err.endswith("gateway: cannot write the output: No space left on device\n")


@pytest.mark.posix
@pytest.mark.parametrize("arguments", ["--help", "--version", "bulk --help", "nosuch"])
def test_a_reader_that_has_left_has_a_status(arguments: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)

    ended = subprocess.run(
        [*GATEWAY, *arguments.split()], stdout=writing, stderr=subprocess.PIPE, check=False
    )

    os.close(writing)
    assert ended.returncode == (2 if arguments == "nosuch" else 141)
    assert bool(ended.stderr) == (arguments == "nosuch")


@pytest.mark.posix
def test_head_leaves_no_trace() -> None:
    command = f"{shlex.join(GATEWAY)} --sandbox countries | head -n 1"

    ended = subprocess.run(command, shell=True, capture_output=True, check=False, text=True)  # noqa: S602 - a pipe

    assert ended.stdout.startswith("countryName\t")
    assert ended.stderr == ""


@pytest.mark.parametrize(
    ("module", "extra", "arguments"),
    [
        ("typer", "cli", ["--help"]),
        ("starlette", "sandbox", ["sandbox", "--port", "0"]),
        ("uvicorn", "sandbox", ["sandbox", "--port", "0"]),
        ("babel", "sandbox", ["demo"]),
        ("starlette", "sandbox", ["countries", "--sandbox"]),
        ("simplejson", "cli", ["countries"]),
    ],
)
def test_missing_extra_is_named(module: str, extra: str, arguments: list[str]) -> None:
    program = f"""
import sys
class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Lacking())
sys.argv = ["gateway", *{arguments!r}]
from gateway_sdk.cli import main
main()
"""

    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, text=True
    )

    assert ended.returncode == 2
    assert ended.stdout == ""
    advice = f"pip install 'gateway-sdk[{extra}]'"
    place = "the sandbox" if extra == "sandbox" and module != "uvicorn" else "this"
    assert ended.stderr == f"gateway: {place} needs the extra [{extra}]: {advice}\n"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_stream_may_be_closed(monkeypatch: pytest.MonkeyPatch, stream: str) -> None:
    """A program that was started without one goes on: a customer may have been created."""
    monkeypatch.setattr(sys, stream, None)

    with whole_output(), progress("") as show:
        show(1, 2)
        say("The customer is created.")


@pytest.mark.posix
@pytest.mark.parametrize("lost", ["by its reader", "on a full disk"])
@pytest.mark.parametrize(
    ("command", "status", "out"),
    [
        ("-v customer create ada.json", 0, '{\n  "customerId": "customer-0005"'),
        ("kyc webhook", 5, ""),
        ("countries --nosuch", 2, ""),
    ],
)
def test_messages_that_are_lost_change_nothing(
    served: Sandbox, tmp_path: Path, lost: str, command: str, status: int, out: str
) -> None:
    """A script is told what became of a write, and gets its reply."""
    (tmp_path / "ada.json").write_text('{"customerName": "Ada"}')
    served.faults.on("send_webhook", Fault.drop_after_read())
    reading, writing = os.pipe()
    os.close(reading)
    if lost == "on a full disk":
        os.close(writing)
        writing = os.open(FULL, os.O_WRONLY)

    ended = subprocess.run(
        [*GATEWAY, *command.split()],
        cwd=tmp_path,
        check=False,
        stdout=subprocess.PIPE,
        stderr=writing,
        text=True,
    )

    os.close(writing)
    assert (ended.returncode, ended.stdout[: len(out)]) == (status, out)
    assert bool(ended.stdout) == bool(out)


@pytest.mark.parametrize("module", EXTRA_OF)
def test_modules_of_extras_exist(module: str) -> None:
    assert find_spec(module)


@pytest.mark.posix
@pytest.mark.parametrize("module", ["gateway_sdk.cli.app", "pydantic", "gateway_sdk.cli.session"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_is_told_while_modules_are_imported(number: signal.Signals, module: str) -> None:
    """As on a busy machine, where that takes seconds."""
    program = f"""
import signal, sys
class Stopping:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal({number})
sys.meta_path.insert(0, Stopping())
sys.argv = ["gateway", "--sandbox", "wallet", "balance"]
from gateway_sdk.cli import main
main()
"""

    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, text=True
    )

    words = "Ctrl-C" if number is signal.SIGINT else number.name
    assert (ended.returncode, ended.stdout) == (128 + number, "")
    assert ended.stderr.strip() == f"gateway: stopped by {words}"
