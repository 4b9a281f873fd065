"""Open files that cannot be sent: refused before anything is, in words that show nothing."""

import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_sdk import InvalidArgumentError, Multipart, Outcome
from tests.http.uploads.servers import written
from tests.support.scripted import scripted
from tests.support.secrecy import CANARY, texts_of


class UploadFile:
    """What web frameworks hand over: it has a file inside, and is none."""

    def __init__(self) -> None:
        self.filename = CANARY
        self.file = io.BytesIO()

    async def read(self, size: int = -1) -> bytes:
        return self.file.read(size)


class Failing(io.BytesIO):
    """A file whose length cannot be told."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self._error = error

    def tell(self) -> int:
        raise self._error


def _closed(file: Any) -> Any:
    file.close()
    return file


def _spooled() -> Any:
    return tempfile.SpooledTemporaryFile()


def _text_in_disguise(folder: Path) -> Any:
    return tempfile.NamedTemporaryFile("w+", dir=folder)


FILES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "text": (
        lambda at: written(at, CANARY, b"x").open(encoding="utf-8"),
        "not open for reading bytes",
    ),
    "text in memory": (lambda _: io.StringIO(CANARY), "not open for reading bytes"),
    "a temporary text": (_text_in_disguise, "not open for reading bytes"),
    "write only": (lambda folder: (folder / CANARY).open("wb"), "not open for reading bytes"),
    "append only": (lambda folder: (folder / CANARY).open("ab"), "not open for reading bytes"),
    "closed": (lambda at: _closed(written(at, CANARY, b"x").open("rb")), "it is closed"),
    "closed in memory": (lambda _: _closed(io.BytesIO()), "it is closed"),
    "closed spool": (lambda _: _closed(_spooled()), "it is closed"),
    "a disk error": (lambda _: Failing(OSError(5, "I/O error", CANARY)), "unreadable file: I/O"),
    "no number": (lambda _: Failing(io.UnsupportedOperation(CANARY)), "UnsupportedOperation"),
    "an upload of a framework": (lambda _: UploadFile(), "lacks methods"),
}


@pytest.mark.parametrize("form", [False, True], ids=["alone", "in a form"])
@pytest.mark.parametrize("name", FILES)
async def test_an_open_file_that_cannot_be_sent_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, form: bool
) -> None:
    """It is a wrong argument, and the error shows neither its name nor what is in it."""
    make, problem = FILES[name]
    file = make(tmp_path)
    gateway, engine, _ = scripted(monkeypatch)

    with pytest.raises(InvalidArgumentError, match=problem) as caught:
        await gateway.aml.upload_document(Multipart({}, {"front": file}) if form else file)

    assert caught.value.outcome is Outcome.NOT_SENT
    assert CANARY not in texts_of(caught.value)
    assert not engine.requests
    if hasattr(file, "close"):
        file.close()


@pytest.mark.parametrize("name", ["passport.pdf", "scan.PDF", "unknown", "archive.tar.gz"])
async def test_the_media_type_of_an_open_file_follows_from_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """It is guessed as for a path, and what is given wins."""
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(200, json={}))
    with written(tmp_path, name, b"x").open("rb") as file:
        await gateway.aml.upload_document(file)
        file.seek(0)
        await gateway.aml.upload_document(tmp_path / name)
        file.seek(0)
        await gateway.aml.upload_document(file, content_type="image/x-own")
        await gateway.aml.upload_document(tmp_path / name, content_type="image/x-own")

    types = [request.headers["Content-Type"] for request in engine.requests]
    guessed = "application/pdf" if "pdf" in name.lower() else "application/octet-stream"
    assert types == [guessed, guessed, "image/x-own", "image/x-own"]


@pytest.mark.parametrize("form", [False, True], ids=["alone", "in a form"])
async def test_a_file_of_a_call_that_is_refused_stays_where_it_stands(
    monkeypatch: pytest.MonkeyPatch, form: bool
) -> None:
    """Looking at how long a file is does not move it."""
    file = io.BytesIO(b"scan")
    file.seek(2)
    gateway, _, _ = scripted(monkeypatch)

    with pytest.raises(InvalidArgumentError, match="content_type"):
        await gateway.aml.upload_document(Multipart({}, {"front": file}) if form else file, "")

    assert file.tell() == 2
