"""A path that is given as a str: refused, for it would be stored in place of the document."""

import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gateway_sdk import GatewaySession, InvalidArgumentError, Outcome, operations
from gateway_sdk._content.files import may_be_path, names_file
from tests.support.recorder import Recorder
from tests.support.secrecy import CANARY, texts_of

ODD = "tab\there.pdf" if os.name == "posix" else "a;b.pdf"
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
EVERY = DOCUMENTS | OTHERS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a folder that is the working one and the user's home, with two files in it."""
    (tmp_path / f"{CANARY}.pdf").write_bytes(b"scan")
    (tmp_path / "approved").write_bytes(b"")
    (tmp_path / "name with space.pdf").write_bytes(b"scan")
    (tmp_path / ODD).write_bytes(b"scan")
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
    "address": lambda path: path.as_uri(),
}


@pytest.mark.parametrize("write", WRITINGS.values(), ids=WRITINGS)
@pytest.mark.parametrize("call", EVERY.values(), ids=EVERY)
async def test_path_of_a_file_is_refused(
    call: Call, folder: Path, write: Callable[[Path], str]
) -> None:
    for name in (f"{CANARY}.pdf", "name with space.pdf", ODD):
        await _refused(call, write(folder / name))
    if os.name == "posix":  # on Windows it is one word, "nul"
        await _refused(call, os.devnull)  # not a regular file, but no document either


@pytest.mark.parametrize("call", DOCUMENTS.values(), ids=DOCUMENTS)
async def test_plain_word_that_is_a_file_is_no_document(call: Call, folder: Path) -> None:
    """A document that is one word is refused if it names a file; its bytes are the way out."""
    await _refused(call, "approved")
    await call(Recorder().session(), b"approved")


@pytest.mark.parametrize("call", OTHERS.values(), ids=OTHERS)
async def test_plain_word_that_is_a_file_by_chance_is_a_status(call: Call, folder: Path) -> None:
    """A status is sent, whatever lies in the working folder."""
    await _sent(call, "approved")


@pytest.mark.parametrize("call", EVERY.values(), ids=EVERY)
@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "/",
        "~",
        "~/",
        "~nobody-4711/scan.pdf",
        "missing.pdf",
        "./missing.pdf",
        "file://",
        "file:///missing.pdf",
        "file://[/approved",
        "https://gateway.test/approved",
        "./approved\n",
        "./approved\r\n",
        "./approved\0",
        "approved/below",
        "a" * 300 + ".pdf",
        "/" * 5000 + "etc/passwd",
        "Dear Sir, my passport is in ./approved.",
    ],
    ids=lambda text: repr(text)[:20],
)
async def test_text_that_names_no_file_is_sent(call: Call, text: str, folder: Path) -> None:
    await _sent(call, text)


async def test_files_are_looked_up_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lookup blocks, so it runs in a thread; what can be no path is not looked up at all."""
    asked: list[tuple[str, threading.Thread]] = []

    def look(text: str) -> bool:
        asked.append((text, threading.current_thread()))
        return False

    monkeypatch.setattr("gateway_sdk._content.files.names_file", look)
    gateway = Recorder().session()

    await gateway.aml.upload_document("passport")
    await gateway.aml.upload_document("two\nlines")
    await gateway.aml.upload_document("a" * 4097)
    await gateway.aml.change_document_status("d-1", "approved")

    ((text, thread),) = asked
    assert text == "passport"
    assert thread is not threading.current_thread()


@settings(max_examples=3 * settings().max_examples)
@given(st.one_of(st.text(), st.text(alphabet="~/.:[]\\%?#file\0\n\ud800", max_size=12)))
def test_lookup_never_raises(text: str) -> None:
    assert may_be_path(text, plain_words=True) in (True, False)
    assert names_file(text) in (True, False)
