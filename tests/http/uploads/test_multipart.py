"""Forms: byte for byte what httpx would send, at their own length."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_sdk import Multipart
from gateway_sdk._content.files import form_of
from tests.http.uploads.kinds import LARGE
from tests.http.uploads.servers import Unseekable, session, taking, written
from tests.support.secrecy import CANARY

BIG = LARGE[: 3 * 2**20 + 7]


class Named(io.BytesIO):
    def __init__(self, content: bytes, name: object) -> None:
        super().__init__(content)
        self.name = name


def _moved(content: bytes) -> io.BytesIO:
    file = io.BytesIO(content)
    file.seek(3)
    return file


Made = tuple[Mapping[str, Any], Mapping[str, Any]]
FORMS: dict[str, Callable[[Path], Made]] = {
    "bytes": lambda _: ({}, {"front": b"scan"}),
    "no bytes": lambda _: ({}, {"front": b""}),
    "big bytes": lambda _: ({}, {"front": BIG}),
    "a field": lambda _: ({"kind": "scan"}, {"front": b"scan"}),
    "a field twice": lambda _: ({"kind": ["a", "b"], "x": []}, {"front": b"scan"}),
    "an empty field": lambda _: ({"kind": "", "": "x"}, {"front": b"scan"}),
    "a field with lines": lambda _: ({"a\r\nb": 'c\r\n"d"\\'}, {"front": b"scan"}),
    "a field in Greek": lambda _: ({"όνομα": "Ἀριστοτέλης"}, {"front": b"scan"}),
    "a name": lambda _: ({}, {"front": ("passport.pdf", b"scan")}),
    "a name in Greek": lambda _: ({}, {"front": ("Ἀριστοτέλης.jpg", b"scan")}),
    "a name with quotes": lambda _: ({}, {'a"b': ('c"d\\e\r\nf\x00.txt', b"scan")}),
    "an empty name": lambda _: ({}, {"front": ("", b"scan")}),
    "a media type": lambda _: ({}, {"front": ("passport", b"scan", "image/x-own; q=1")}),
    "a file in memory": lambda _: ({}, {"front": io.BytesIO(BIG)}),
    "a file in its middle": lambda _: ({}, {"front": _moved(b"scan of both sides")}),
    "a file with a name": lambda _: ({}, {"front": Named(b"scan", "folder/passport.pdf")}),
    "a file with a name of its own": lambda _: ({}, {"front": ("a.png", Named(b"scan", "b.pdf"))}),
    "a file twice": lambda _: _twice(io.BytesIO(BIG)),
    "a pipe": lambda _: ({"kind": "scan"}, {"front": Unseekable(BIG)}),
    "paths": lambda folder: _paths(written(folder, "passport.pdf", BIG)),
    "all of it": lambda _: (
        {"kind": "scan", "page": ["1", "2"]},
        {
            "front": [("a.pdf", io.BytesIO(BIG)), b"x", ("b", b"y", "image/png")],
            "back": ("c", io.BytesIO(b"")),
        },
    ),
}


def _twice(file: io.BytesIO) -> Made:
    return {}, {"front": [file, ("again.pdf", file)]}


def _paths(path: Path) -> Made:
    return {"kind": "scan"}, {"front": path, "back": [("b", path), ("c", path, "d/e")]}


def _opened(part: Any) -> Any:
    """Return what httpx takes in place of a path: the open file."""
    if isinstance(part, tuple):
        return tuple(_opened(item) for item in part)
    return Named(part.read_bytes(), part.name) if isinstance(part, Path) else part


def as_httpx_takes(files: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return files in the list of pairs in which httpx repeats a name."""
    return [
        (name, _opened(part))
        for name, parts in files.items()
        for part in (parts if isinstance(parts, list) else [parts])
    ]


@pytest.mark.parametrize("name", FORMS)
async def test_a_form_is_what_httpx_would_send(tmp_path: Path, name: str) -> None:
    async with taking() as (url, taker):
        async with session(url) as gateway:
            await gateway.aml.upload_document(Multipart(*FORMS[name](tmp_path)))
        ours = taker.uploads[0]
        fields, files = FORMS[name](tmp_path)
        async with httpx.AsyncClient() as client:
            await client.post(
                url,
                data=dict(fields),
                files=as_httpx_takes(files),
                headers={"Content-Type": ours.framing[0]},
            )
        theirs = taker.uploads[1]

    assert ours.whole
    assert ours.body == theirs.body
    assert ours.framing == theirs.framing


async def test_many_fields_are_one_chunk() -> None:
    """Each chunk costs a turn of a thread."""
    told, form = [], Multipart({str(n): "x" for n in range(1000)}, {"front": b"scan"})
    async with taking() as (url, taker), session(url) as gateway:
        await gateway.aml.upload_document(form, on_progress=lambda *at: told.append(at))

    assert taker.uploads[0].body.count(b"form-data") == 1001
    assert len(told) <= 3


@pytest.mark.parametrize(
    ("part", "name", "media_type"),
    [
        (("orders.json.gz", b"x"), "orders.json.gz", "application/octet-stream"),
        (Named(b"x", 3), "upload", "application/octet-stream"),
        (Named(b"x", None), "upload", "application/octet-stream"),
        (("data:a/b\r\nX: y\r\n,c.pdf", b"x"), "data:a/b%0D%0AX: y%0D%0A,c.pdf", "application/pdf"),
    ],
    ids=["compressed", "a descriptor", "without a name", "a URL of data"],
)
def test_the_name_of_a_file_decides_its_media_type_and_nothing_else(
    part: Any, name: str, media_type: str
) -> None:
    _, form = form_of(Multipart({}, {"front": part}))
    head = b"".join(form.chunks()).partition(b"\r\n\r\n")[0].decode()

    disposition = f'Content-Disposition: form-data; name="front"; filename="{name}"'
    assert head.splitlines()[1:] == [disposition, f"Content-Type: {media_type}"]


def test_each_form_has_a_boundary_of_its_own() -> None:
    """Nobody who knows one form can guess what would end a part of another."""
    types = {form_of(Multipart({}, {"front": b"x"}))[0] for _ in range(20)}

    assert len(types) == 20


def test_a_form_shows_nothing_of_what_is_in_it() -> None:
    """Its names and contents are often those of a person."""
    given = Multipart({CANARY: CANARY}, {CANARY: (CANARY, b"x")})

    assert CANARY not in f"{given!r}{form_of(given)!r}"
