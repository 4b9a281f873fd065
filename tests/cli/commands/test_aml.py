from collections.abc import Callable
from pathlib import Path

from gateway_sdk.sandbox import Sandbox
from tests.cli.ended import Ended
from tests.cli.terminal import Terminal

Call = Callable[..., Ended]
RunInTerminal = Callable[..., tuple[int, str]]


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
