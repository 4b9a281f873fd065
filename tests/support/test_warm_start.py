"""A program that starts warm is like one of a new interpreter in all that our tests look at."""

import marshal
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import warm_start

ECHO = """
import asyncio, os, sys
print(sys.argv[1:], os.environ["WHO"], os.getcwd(), __name__, sys.path[0] in ("", os.getcwd()))
print(sys.stdin.read(), file=sys.stderr)
asyncio.run(asyncio.sleep(0))
sys.exit(int(sys.argv[1]))
"""
WAIT = "import sys, time\nprint('waits', flush=True)\ntime.sleep(3600)\n"


@pytest.fixture(scope="module")
def warm() -> Iterator[list[str]]:
    with warm_start.serve() as command:
        yield command


@pytest.fixture(params=["warm", "new"])
def command(request: pytest.FixtureRequest, warm: list[str]) -> list[str]:
    """Provide the command of Python in both ways."""
    return warm if request.param == "warm" else [sys.executable]


def run(command: list[str], folder: Path, text: str, *arguments: str) -> tuple[int, str, str]:
    """Run a program that gets a line."""
    (folder / "program.py").write_text(text, encoding="utf-8")
    ended = subprocess.run(
        [*command, *arguments], cwd=folder, input="é", capture_output=True, encoding="utf-8",
        check=False, env={"WHO": "ada", "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize(
    "start", [["program.py"], ["-m", "program"], ["-W", "error", "program.py"]]
)
def test_a_program_gets_what_it_is_given(
    command: list[str], tmp_path: Path, start: list[str]
) -> None:
    """Arguments, environment, folder and input; its output and its status come back."""
    said = f"['3', 'é'] ada {tmp_path} __main__ True\n"

    assert run(command, tmp_path, ECHO, *start, "3", "é") == (3, said, "é\n")


def test_an_error_is_status_1_with_its_traceback(command: list[str], tmp_path: Path) -> None:
    """As Python ends a program."""
    status, out, err = run(command, tmp_path, "print(1)\n1 / 0", "program.py")

    assert (status, out) == (1, "1\n")
    assert err.endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize(("options", "status"), [(["-W", "error"], 1), ([], 0)])
def test_warnings_are_errors_if_that_is_said(
    command: list[str], tmp_path: Path, options: list[str], status: int
) -> None:
    """As for any program of Python."""
    warn = "import warnings; warnings.warn('old', DeprecationWarning)"

    ended = run(command, tmp_path, warn, *options, "program.py")

    assert ended[0] == status
    assert "DeprecationWarning: old" in ended[2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_end_a_program(command: list[str], tmp_path: Path, number: signal.Signals) -> None:
    """The status tells by which; the end of its output tells that the program itself has ended."""
    (tmp_path / "program.py").write_text(WAIT, encoding="utf-8")
    with subprocess.Popen(
        [*command, "program.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"waits\n"
        process.send_signal(number)

        assert process.stdout.read() == b""
        assert process.wait() == -number


def test_a_client_that_is_killed_at_once_does_not_end_the_server(tmp_path: Path) -> None:
    """It may be gone before it is told the program's id."""
    (tmp_path / "program.py").write_text(WAIT, encoding="utf-8")
    request = marshal.dumps(
        {
            "folder": os.fsencode(tmp_path),
            "variables": dict(os.environb),
            "arguments": [b"program.py"],
        }
    )
    with warm_start.serve() as command, Path(os.devnull).open("r+b", buffering=0) as nowhere:
        for _ in range(5):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(command[-1])
                socket.send_fds(client, [len(request).to_bytes(4, "big")], [nowhere.fileno()] * 3)
                client.sendall(request)

        assert run(command, tmp_path, "print(1)", "program.py")[:2] == (0, "1\n")
