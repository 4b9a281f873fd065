from collections.abc import Callable
from pathlib import Path

import pytest

from gateway_sdk.sandbox import Sandbox
from tests.cli.ended import Ended
from tests.cli.interruptions import interrupt
from tests.cli.terminal import Terminal

Call = Callable[..., Ended]
RunInTerminal = Callable[..., tuple[int, str]]

UNSURE = "Check before you repeat it: it may have been done already."


@pytest.fixture
def passport(tmp_path: Path) -> Path:
    path = tmp_path / "passport.pdf"
    path.write_bytes(b"%PDF")
    return path


def test_interrupted_upload_has_to_be_looked_into(
    call_gateway: Call, served: Sandbox, passport: Path
) -> None:
    """Ctrl-C says that it may be there."""
    ended = interrupt(call_gateway, served, "upload_document", "aml", "upload", str(passport))

    assert ended == (130, "", f"\ngateway: stopped by Ctrl-C\n{UNSURE}\n")


def test_upload_in_a_terminal_has_a_bar(
    run_in_terminal: RunInTerminal, served: Sandbox, tmp_path: Path
) -> None:
    """Bytes and rate are shown while it lasts, and the bar is gone at the end."""
    path = tmp_path / "scan.bin"
    path.write_bytes(bytes(3_000_000))

    status, shown = run_in_terminal("aml", "upload", path)

    assert status == 0
    assert "Uploading" in shown
    assert "/3.0 MB" in shown
    assert "\x1b[2K" in shown
    assert shown.index("The document is uploaded.") > shown.rindex("Uploading")


def test_typing_a_document_is_announced(
    start_in_terminal: Callable[..., Terminal], served: Sandbox
) -> None:
    """Whoever reads from the terminal is told how to end it."""
    terminal = start_in_terminal("aml", "upload", "-")
    terminal.read_until("until Ctrl-D at the start of a line.")

    terminal.type("scan\n\x04")
    status, shown = terminal.end()

    assert status == 0
    assert '"size": 5' in shown


def test_file_in_place_of_a_status_is_told(
    call_gateway: Call, served: Sandbox, passport: Path
) -> None:
    """The way out is an option of the command line, and no class of Python; a word is sent."""
    ended = call_gateway("aml", "status", "document-0001", passport)
    absent = call_gateway("aml", "status", "document-0001", "no/such/file" * 1000)

    assert (ended.status, ended.out) == (2, "")
    assert ended.err.splitlines() == [
        f"gateway: {passport} is a file",
        "To send its content, give --file.",
        "Nothing was sent.",
    ]
    assert absent.status == 3
    assert [call.operation for call in served.received] == ["change_document_status"]
