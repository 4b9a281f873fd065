import hashlib
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway_sdk.sandbox import Fault, Sandbox
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


def test_document_is_uploaded(call_gateway: Call, served: Sandbox, passport: Path) -> None:
    """The media type follows from the name; without a terminal there is no bar."""
    ended = call_gateway("aml", "upload", passport)

    assert json.loads(ended.out) == {
        "documentId": "document-0001",
        "size": 4,
        "sha256": hashlib.sha256(b"%PDF").hexdigest(),
        "contentType": "application/pdf",
        "status": "uploaded",
    }
    assert (ended.status, ended.err) == (0, "The document is uploaded.\n")


def test_document_is_read_from_standard_input(
    call_gateway: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its media type has to be said, if it matters."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"scan")))

    ended = call_gateway("aml", "upload", "-", "--content-type", "image/png", "--sandbox")

    assert json.loads(ended.out)["size"] == 4
    assert json.loads(ended.out)["contentType"] == "image/png"


def test_document_is_updated_and_its_status_changed(
    call_gateway: Call, served: Sandbox, passport: Path
) -> None:
    """A status is a text, or whatever a file holds."""
    (passport.parent / "status.json").write_text('{"status": "approved"}', encoding="utf-8")
    assert call_gateway("aml", "upload", passport).status == 0
    passport.write_bytes(b"longer")

    updated = call_gateway("aml", "update", "document-0001", passport)
    changed = call_gateway("aml", "status", "document-0001", "checked")
    approved = call_gateway(
        "aml", "status", "document-0001", "--file", passport.parent / "status.json"
    )

    assert json.loads(updated.out)["size"] == 6
    assert json.loads(changed.out)["status"] == "checked"
    assert json.loads(approved.out)["status"] == "approved"
    assert [ended.err for ended in (updated, changed, approved)] == [
        "The document is updated.\n",
        "The status is changed.\n",
        "The status is changed.\n",
    ]


def test_status_may_be_json_on_the_command_line(call_gateway: Call, served: Sandbox) -> None:
    """Whoever knows what the gateway takes says which media type it is."""
    served.faults.on("change_document_status", Fault.status(418), at=1)

    arguments = ('{"status": "approved"}', "--content-type", "application/json")
    call_gateway("aml", "status", "document-0001", *arguments)

    assert served.received[0].operation == "change_document_status"


@pytest.mark.parametrize("given", [[], [""], ["approved", "--file", "status.json"]])
def test_status_is_a_value_or_a_file(call_gateway: Call, given: list[str]) -> None:
    """Neither and both are refused."""
    ended = call_gateway("aml", "status", "document-0001", *given)

    assert ended == (2, "", "gateway: give the new status, or --file\n")


@pytest.mark.parametrize(
    "command",
    [
        ["upload", "nothing.pdf"],
        ["update", "document-0001", "nothing.pdf"],
        ["status", "document-0001", "--file", "nothing.pdf"],
    ],
)
def test_missing_document_is_named(
    call_gateway: Call, served: Sandbox, tmp_path: Path, command: list[str]
) -> None:
    """Whoever typed its name reads it again, with the reason; nothing is sent."""
    ended = call_gateway("aml", *command)

    assert ended == (
        2,
        "",
        "gateway: cannot read nothing.pdf: No such file or directory\nNothing was sent.\n",
    )
    assert not served.received


def test_wrong_media_type_is_refused(call_gateway: Call, served: Sandbox, passport: Path) -> None:
    """What no header can carry is told before anything is sent."""
    ended = call_gateway("aml", "upload", passport, "--content-type", "a\nb")

    assert (ended.status, ended.out) == (2, "")
    assert "content_type" in ended.err
    assert not served.received


def test_lost_reply_of_an_upload_has_to_be_looked_into(
    call_gateway: Call, served: Sandbox, passport: Path
) -> None:
    """The status is 5, and the last line says what not to do."""
    served.faults.on("upload_document", Fault.drop_after_read(), at=1)

    ended = call_gateway("aml", "upload", passport)

    assert (ended.status, ended.out) == (5, "")
    assert ended.err.splitlines()[-1] == UNSURE


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


def test_webhook_is_called(call_gateway: Call, served: Sandbox, tmp_path: Path) -> None:
    """With an event or with none; there is no reply to print."""
    event = tmp_path / "event.json"
    event.write_text("{}", encoding="utf-8")

    for arguments in ([], [event], [event, "--content-type", "text/plain"]):
        ended = call_gateway("kyc", "webhook", *arguments)
        assert ended == (0, "", "The gateway has acknowledged it.\n")

    assert [call.operation for call in served.received] == ["send_webhook"] * 3


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


def test_media_type_of_nothing_is_refused(call_gateway: Call) -> None:
    """It describes a file."""
    ended = call_gateway("kyc", "webhook", "--content-type", "text/plain")

    assert (ended.status, ended.out) == (2, "")
    assert "--content-type needs a file" in ended.err
