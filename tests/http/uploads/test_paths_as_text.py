"""A path that is given as a str: refused, for it would be stored in place of the document."""

import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from gateway_sdk import GatewaySession, InvalidArgumentError, Outcome, operations
from tests.support.recorder import Recorder
from tests.support.secrecy import CANARY, texts_of

ODD = "tab\there.pdf" if os.name == "posix" else "a;b.pdf"
NAMES = "approved", f"{CANARY}.pdf", "name with space.pdf", ODD
Call = Callable[[GatewaySession, Any], Awaitable[Any]]

DOCUMENTS: dict[str, Call] = {
    "upload": lambda gateway, text: gateway.aml.upload_document(text),
    "update": lambda gateway, text: gateway.aml.update_document("d-1", text),
    "send": lambda gateway, text: gateway.send(operations.UPLOAD_DOCUMENT, body=text),
}
OTHERS: dict[str, Call] = {
    "status": lambda gateway, text: gateway.aml.change_document_status("d-1", text),
    "webhook": lambda gateway, text: gateway.kyc.send_webhook(text),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a folder that is the working one and the user's home, with files in it."""
    for name in NAMES:
        (tmp_path / name).write_bytes(b"scan")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


async def _refused(call: Call, text: str) -> None:
    recorder = Recorder()
    with pytest.raises(InvalidArgumentError) as caught:
        await call(recorder.session(), text)

    assert "names an existing file: give pathlib.Path(...)" in str(caught.value)
    assert ".encode()" in str(caught.value)
    assert CANARY not in texts_of(caught.value)
    assert caught.value.outcome is Outcome.NOT_SENT
    assert recorder.sent == []


async def _sent(call: Call, text: str) -> None:
    recorder = Recorder()
    await call(recorder.session(), text)

    assert [request.content for request in recorder.sent] == [text.encode()]


WRITINGS: dict[str, Callable[[Path], str]] = {
    "whole": str,
    "name": lambda path: path.name,
    "below": lambda path: f"./{path.name}",
    "home": lambda path: f"~/{path.name}",
}


@pytest.mark.parametrize("write", WRITINGS.values(), ids=WRITINGS)
@pytest.mark.parametrize("call", DOCUMENTS.values(), ids=DOCUMENTS)
async def test_path_of_a_file_is_refused(
    call: Call, folder: Path, write: Callable[[Path], str]
) -> None:
    """Also one word; the bytes of the text are the way out."""
    for name in NAMES:
        await _refused(call, write(folder / name))
    if os.name == "posix":  # on Windows it is one word, "nul"
        await _refused(call, os.devnull)  # no regular file; a pipe is none either
    await call(Recorder().session(), b"approved")


@pytest.mark.parametrize("call", OTHERS.values(), ids=OTHERS)
async def test_word_that_is_a_file_by_chance_is_a_status(call: Call, folder: Path) -> None:
    """A status is sent, whatever lies in the working folder."""
    await _sent(call, "approved")


@pytest.mark.parametrize("call", DOCUMENTS.values(), ids=DOCUMENTS)
@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "/",
        "~nobody-4711/scan.pdf",
        "missing.pdf",
        "./missing.pdf",
        "https://gateway.test/approved",
        "./approved\n",
        "./approved\0",
        "~5000 EUR\0 for Jane Roe",
        "approved/below",
        "a" * 300 + ".pdf",
        "/" * 5000 + "etc/missing",
        "Dear Sir, my passport is in ./approved.",
    ],
    ids=lambda text: repr(text)[:20],
)
async def test_text_that_names_no_file_is_sent(call: Call, text: str, folder: Path) -> None:
    await _sent(call, text)


async def test_files_are_looked_up_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lookup blocks, so it runs in a thread; what can be no path needs none."""
    threads: list[threading.Thread] = []

    def look(_: str) -> bool:
        threads.append(threading.current_thread())
        return False

    monkeypatch.setattr("os.path.exists", look)
    for text in ("passport", "two\nlines", "a" * 5000):
        await Recorder().session().aml.upload_document(text)

    (thread,) = threads
    assert thread is not threading.current_thread()


async def test_a_text_is_told_to_no_user_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows "~" would be looked up there as a name, on another machine perhaps."""
    monkeypatch.setattr("os.path.expanduser", Mock(side_effect=AssertionError))
    await _sent(DOCUMENTS["upload"], "~5000 EUR for Jane Roe")
