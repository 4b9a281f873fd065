"""Forms that cannot be sent: refused before anything is, in words that show nothing."""

import io
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_sdk import (
    GatewaySession,
    InvalidArgumentError,
    Multipart,
    Outcome,
    UploadFailedError,
)
from tests.http.uploads.servers import written
from tests.support.scripted import scripted
from tests.support.secrecy import CANARY, texts_of

GOOD = {"front": b"x"}
WRONG: dict[str, tuple[Any, Any, str]] = {
    "fields: None": (None, GOOD, "needs fields"),
    "fields: list": ([(CANARY, CANARY)], GOOD, "needs fields"),
    "fields: number": ({CANARY: 5}, GOOD, "a field of Multipart is a text"),
    "fields: None within": ({CANARY: None}, GOOD, "a field of Multipart is a text"),
    "fields: bytes": ({CANARY: b"x"}, GOOD, "a field of Multipart is a text"),
    "fields: list of numbers": ({CANARY: ["a", 5]}, GOOD, "a field of Multipart is a text"),
    "fields: name": ({5: CANARY}, GOOD, "a field of Multipart is a text"),
    "fields: half a pair": ({"a": CANARY + "\ud800"}, GOOD, "half of a surrogate pair"),
    "fields: half a pair in a name": ({CANARY + "\ud800": "a"}, GOOD, "half of a surrogate pair"),
    "files: None": ({}, None, "needs files"),
    "files: none": ({}, {}, "at least one file"),
    "files: an empty list": ({}, {CANARY: []}, "at least one file"),
    "files: an empty list and a field": ({"a": "b"}, {CANARY: []}, "at least one file"),
    "files: list": ({}, [(CANARY, b"x")], "needs files"),
    "files: name": ({}, {5: b"x"}, "names its files by strings"),
    "files: text": ({}, {CANARY: CANARY}, "is a Path, bytes or an open file"),
    "files: number": ({}, {CANARY: 5}, "is a Path, bytes or an open file"),
    "files: None within": ({}, {CANARY: None}, "is a Path, bytes or an open file"),
    "files: empty tuple": ({}, {CANARY: ()}, "is a file, .name, file."),
    "files: tuple of one": ({}, {CANARY: (b"x",)}, "is a file, .name, file."),
    "files: tuple of four": ({}, {CANARY: ("a", b"x", "b/c", {})}, "is a file, .name, file."),
    "files: no name": ({}, {CANARY: (None, b"x")}, "is a file, .name, file."),
    "files: no media type": ({}, {CANARY: ("a", b"x", None)}, "is a file, .name, file."),
    "files: text in a tuple": ({}, {CANARY: ("a", CANARY)}, "is a Path, bytes or an open file"),
    "files: empty media type": ({}, {"a": ("a", b"x", "")}, "media type .* is empty"),
    "files: media type with a header": (
        {},
        {"a": ("a", b"x", f"a/b\r\nX: {CANARY}")},
        "media type .* line break",
    ),
    "files: half a pair": ({}, {"a": (CANARY + "\ud800", b"x")}, "half of a surrogate pair"),
    "files: missing": ({}, {"a": Path("/nonexistent") / CANARY}, "unreadable file: "),
    "files: missing, named": ({}, {"a": ("b", Path("/nonexistent") / CANARY)}, "unreadable file: "),
    "files: folder": ({}, {"a": [b"x", Path("/")]}, "no regular file"),
    "files: device": ({}, {"a": Path("/dev/null")}, "no regular file"),
    "files: text in memory": ({}, {"a": io.StringIO(CANARY)}, "not open for reading bytes"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_form_that_is_wrong_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The error says what is wrong, and shows no name, no path and no content."""
    fields, files, problem = WRONG[name]
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(200))

    with pytest.raises(InvalidArgumentError, match=problem) as caught:
        await gateway.aml.upload_document(Multipart(fields, files))

    assert caught.value.outcome is Outcome.NOT_SENT
    assert CANARY not in texts_of(caught.value)
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


async def test_the_media_type_of_a_form_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one would lack the boundary, without which nobody can read the form."""
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(200))

    with pytest.raises(InvalidArgumentError, match="content_type follows from Multipart"):
        await gateway.aml.upload_document(Multipart({}, GOOD), content_type="multipart/form-data")

    assert not engine.requests


@pytest.mark.parametrize("form", [False, True], ids=["alone", "in a form"])
async def test_a_file_that_is_gone_when_it_is_sent(tmp_path: Path, form: bool) -> None:
    """A file that vanishes between being measured and being sent ends the call, unnamed."""
    path = written(tmp_path, CANARY, b"scan")

    class Vanishing(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            path.unlink()
            await request.aread()
            raise AssertionError

    gateway = GatewaySession("https://g.test", access_token="t", transport=Vanishing())
    with pytest.raises(UploadFailedError, match="FileNotFoundError") as caught:
        await gateway.aml.upload_document(Multipart({}, {"front": path}) if form else path)

    assert CANARY not in texts_of(caught.value)
