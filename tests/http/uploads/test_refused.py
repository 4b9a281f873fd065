"""Files and forms that cannot be sent: refused before anything is, in words that show nothing."""

import gzip
import io
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import httpx
import pytest
from starlette.datastructures import UploadFile as Received

from gateway_sdk import InvalidArgumentError, Multipart, Outcome
from tests.http.uploads.servers import written
from tests.support.scripted import scripted
from tests.support.secrecy import CANARY, texts_of


class UploadFile:
    """It has a file inside, and is none; without a media type it is no framework's that we know."""

    def __init__(self) -> None:
        self.filename = CANARY
        self.file = io.BytesIO()

    async def read(self, size: int = -1) -> bytes:
        return self.file.read(size)


class Reading:
    """It has no more of a file."""

    def read(self, size: int = -1) -> bytes:
        return b""[:size]


class AsyncFile:
    """A stream of asyncio, or a file of anyio."""

    async def read(self, size: int = -1) -> bytes:
        return b""[:size]


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


def _temporary_text(folder: Path) -> Any:
    return tempfile.NamedTemporaryFile("w+", dir=folder)


def _cut_archive() -> Any:
    return gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(b"x" * 1000)[:-10]))


def _spooled() -> Any:
    return tempfile.SpooledTemporaryFile()


def _form(given: Any) -> Callable[[Path], Any]:
    return lambda _: Multipart(*given)


NO_BYTES = "not open for reading bytes"
FILES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "text": (lambda at: written(at, CANARY, b"x").open(encoding="utf-8"), NO_BYTES),
    "text in memory": (lambda _: io.StringIO(CANARY), NO_BYTES),
    "a temporary text": (_temporary_text, NO_BYTES),
    "write only": (lambda at: (at / CANARY).open("wb"), NO_BYTES),
    "closed": (lambda at: _closed(written(at, CANARY, b"x").open("rb")), "it is closed"),
    "closed in memory": (lambda _: _closed(io.BytesIO()), "it is closed"),
    "closed, and received": (lambda _: Received(_closed(io.BytesIO())), "it is closed"),
    "closed spool": (lambda _: _closed(_spooled()), "it is closed"),
    "a disk error": (lambda _: Failing(OSError(5, "I/O error", CANARY)), "unreadable file: I/O"),
    "cut, and compressed": (lambda _: _cut_archive(), "unreadable file: EOFError"),
    "no number": (lambda _: Failing(io.UnsupportedOperation(CANARY)), "UnsupportedOperation"),
    "an upload of a framework": (lambda _: UploadFile(), "it is asynchronous: give its Path"),
    "read() alone": (lambda _: Reading(), "lacks methods"),
}

GOOD = {"front": b"x"}
NO_FIELD = "needs fields: a mapping of names to texts"
NO_FILE = NO_TUPLE = r"a file is a pathlib\.Path, bytes or an open file"
HALF = "half of a surrogate pair"
FORMS: dict[str, tuple[Any, Any, str]] = {
    "fields: None": (None, GOOD, "needs fields"),
    "fields: list": ([(CANARY, CANARY)], GOOD, "needs fields"),
    "fields: number": ({CANARY: 5}, GOOD, NO_FIELD),
    "fields: bytes": ({CANARY: b"x"}, GOOD, NO_FIELD),
    "fields: list of numbers": ({CANARY: ["a", 5]}, GOOD, NO_FIELD),
    "fields: name": ({5: CANARY}, GOOD, NO_FIELD),
    "fields: half a pair": ({"a": CANARY + "\ud800"}, GOOD, HALF),
    "fields: half a pair in a name": ({CANARY + "\ud800": "a"}, GOOD, HALF),
    "files: None": ({}, None, "needs files"),
    "files: none": ({}, {}, "at least one file"),
    "files: an empty list and a field": ({"a": "b"}, {CANARY: []}, "at least one file"),
    "files: list": ({}, [(CANARY, b"x")], "needs files"),
    "files: name": ({}, {5: b"x"}, NO_FILE),
    "files: text": ({}, {CANARY: CANARY}, NO_FILE),
    "files: None within": ({}, {CANARY: None}, NO_FILE),
    "files: empty tuple": ({}, {CANARY: ()}, NO_TUPLE),
    "files: tuple of one": ({}, {CANARY: (b"x",)}, NO_TUPLE),
    "files: tuple of four": ({}, {CANARY: ("a", b"x", "b/c", {})}, NO_TUPLE),
    "files: no name": ({}, {CANARY: (None, b"x")}, NO_TUPLE),
    "files: no media type": ({}, {CANARY: ("a", b"x", None)}, NO_TUPLE),
    "files: text in a tuple": ({}, {CANARY: ("a", CANARY)}, NO_FILE),
    "files: empty media type": ({}, {"a": ("a", b"x", "")}, "media type .* is empty"),
    "files: a header": ({}, {"a": ("a", b"x", f"a/b\r\nX: {CANARY}")}, "media type .* line break"),
    "files: half a pair": ({}, {"a": (CANARY + "\ud800", b"x")}, HALF),
    "files: missing": ({}, {"a": Path("/nonexistent") / CANARY}, "unreadable file: "),
    "files: missing, named": ({}, {"a": ("b", Path("/nonexistent") / CANARY)}, "unreadable file: "),
    "files: folder": ({}, {"a": [b"x", Path("/")]}, "no regular file"),
    "files: device": ({}, {"a": Path("/dev/null")}, "no regular file; a pipe has to be given open"),
    "files: asynchronous": ({}, {"a": AsyncFile()}, "it is asynchronous: give its Path"),
    "files: another path": ({}, {"a": PurePath(CANARY)}, NO_FILE),
}
CASES: dict[str, tuple[Callable[[Path], Any], str]] = {
    **FILES,
    "another path": (lambda at: PurePath(at, CANARY), r"not .*: give pathlib\.Path\(content\)"),
    **{name: (_form(given), problem) for name, (*given, problem) in FORMS.items()},
}


@pytest.mark.parametrize("name", CASES)
async def test_what_cannot_be_sent_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """Alone and in a form; the error shows no name, no path and no content."""
    make, problem = CASES[name]
    given = make(tmp_path)
    gateway, engine, _ = scripted(monkeypatch)

    for content in [given, Multipart({}, {"front": given})] if name in FILES else [given]:
        with pytest.raises(InvalidArgumentError, match=problem) as caught:
            await gateway.aml.upload_document(content)
        assert caught.value.outcome is Outcome.NOT_SENT
        assert CANARY not in texts_of(caught.value)

    assert not engine.requests
    if hasattr(given, "closed"):
        given.close()


@pytest.mark.parametrize("name", ["passport.pdf", "scan.PDF", "unknown", "archive.tar.gz"])
async def test_the_media_type_of_an_open_file_follows_from_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(200, json={}))
    path = written(tmp_path, name, b"x")
    for media_type in (None, "image/x-own"):
        with path.open("rb") as file:
            await gateway.aml.upload_document(file, media_type)
        await gateway.aml.upload_document(path, media_type)

    types = [request.headers["Content-Type"] for request in engine.requests]
    guessed = "application/pdf" if "pdf" in name.lower() else "application/octet-stream"
    assert types == [guessed, guessed, "image/x-own", "image/x-own"]


@pytest.mark.parametrize("form", [False, True], ids=["alone", "in a form"])
async def test_a_file_of_a_call_that_is_refused_stays_where_it_stands(
    monkeypatch: pytest.MonkeyPatch, form: bool
) -> None:
    """The media type of a form is its own: another one would lack the boundary."""
    file = io.BytesIO(b"scan")
    file.seek(2)
    gateway, engine, _ = scripted(monkeypatch)

    problem = "content_type follows from Multipart" if form else "content_type is empty"
    with pytest.raises(InvalidArgumentError, match=problem):
        await gateway.aml.upload_document(Multipart({}, {"front": file}) if form else file, "")

    assert file.tell() == 2
    assert not engine.requests


@pytest.mark.posix
async def test_a_file_whose_name_is_no_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A name that is no UTF-8 cannot stand in a form, unless another one is given for it."""
    path = Path(f"{tmp_path}/{CANARY}-\udcff")
    path.write_bytes(b"scan")  # noqa: ASYNC240 - a few bytes
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(200))

    with pytest.raises(InvalidArgumentError, match="half of a surrogate pair") as caught:
        await gateway.aml.upload_document(Multipart({}, {"front": path}))
    await gateway.aml.upload_document(Multipart({}, {"front": ("scan", path)}))

    assert CANARY not in texts_of(caught.value)
    assert b"scan" in engine.bodies[0]
