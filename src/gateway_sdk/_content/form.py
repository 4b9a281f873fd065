"""A form with files (RFC 7578). Code that reads files runs in a thread."""

import mimetypes
import secrets
from collections.abc import Callable, Generator, Iterator, Mapping, Sized
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from gateway_sdk._content.files import (
    BINARY,
    OpenFile,
    read_open,
    read_path,
    size_of,
    span_of,
)
from gateway_sdk._http.request import check_argument
from gateway_sdk.errors import InvalidArgumentError

File: TypeAlias = Path | bytes | OpenFile
FilePart: TypeAlias = File | tuple[str, File] | tuple[str, File, str]
"""A file, or (name, file), or (name, file, media type)."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Multipart:
    """A form with fields and files, as multipart/form-data.

    Attributes:
        fields: Texts by name; a list of texts repeats the name.
        files: Files by name in the form; a list of files repeats the name. A path is opened when
            it is sent; an open file is sent from its beginning, and stays open.
    """

    fields: Mapping[str, str | list[str]]
    files: Mapping[str, FilePart | list[FilePart]]

    def __repr__(self) -> str:
        return f"<Multipart of {_count(self.fields)} fields and {_count(self.files)} files>"


_NO_FILES: Final = "Multipart needs files: a mapping of names, with at least one file"
_SIZES: Final = (2, 3)
_QUOTED: Final = {code: f"%{code:02X}" for code in (*range(0x20), ord('"'))} | {ord("\\"): r"\\"}
"""What cannot stand between the quotes of a name, as httpx writes it; ESC too, which it sends."""


@dataclass(frozen=True, slots=True, repr=False)
class _File:
    length: int | None  # bytes; None if unknown
    chunks: Callable[[], Generator[bytes, None, None]]
    is_open: bool

    @classmethod
    def of(cls, file: Path | OpenFile) -> "_File":
        if isinstance(file, Path):
            size = size_of(file)
            return cls(size, partial(read_path, file, size), is_open=False)
        span = span_of(file, start=0)
        length = None if span is None else span[1]
        return cls(length, partial(read_open, file, span), is_open=True)


@dataclass(frozen=True, slots=True, repr=False)
class CheckedForm:
    content_type: str  # the media type, with the boundary
    length: int | None  # None if that of a file is unknown; that file cannot seek either
    ahead: bool  # whether reading ahead is safe, because no file in the form is open already
    _parts: list[bytes | _File]  # all that is sent, in its order

    @classmethod
    def of(cls, multipart: Multipart) -> "CheckedForm":
        boundary = secrets.token_hex(16)
        parts = list[bytes | _File]()
        try:
            for head, body in (*_fields_in(multipart.fields), *_files_in(multipart.files)):
                parts += [f"--{boundary}\r\n{head}\r\n\r\n".encode(), body, b"\r\n"]
        except UnicodeEncodeError:  # no cause: its text shows the value
            raise InvalidArgumentError("Multipart has half of a surrogate pair in it") from None
        parts.append(f"--{boundary}--\r\n".encode())
        lengths = [len(part) if isinstance(part, bytes) else part.length for part in parts]
        known = [length for length in lengths if length is not None]
        return cls(
            f"multipart/form-data; boundary={boundary}",
            sum(known) if len(known) == len(parts) else None,
            not any(isinstance(part, _File) and part.is_open for part in parts),
            parts,
        )

    def read(self) -> Generator[bytes, None, None]:
        for part in self._parts:
            if isinstance(part, bytes):
                yield part
            else:
                yield from part.chunks()


def _count(given: object) -> int:
    return len(given) if isinstance(given, Sized) else 0


def _fields_in(fields: object) -> Iterator[tuple[str, bytes]]:
    if not isinstance(fields, Mapping):
        raise InvalidArgumentError("Multipart needs fields: a mapping of names to texts")
    for name, given in fields.items():
        texts: list[Any] = given if isinstance(given, list) else [given]
        if not isinstance(name, str) or not all(isinstance(text, str) for text in texts):
            raise InvalidArgumentError("a field of Multipart is a text, or a list of texts")
        for text in texts:
            yield _disposition(name), text.encode()


def _files_in(files: object) -> Iterator[tuple[str, bytes | _File]]:
    given = list(files.items()) if isinstance(files, Mapping) else []
    pairs = [
        (name, file)
        for name, one_or_more in given
        for file in (one_or_more if isinstance(one_or_more, list) else [one_or_more])
    ]
    if not pairs:
        raise InvalidArgumentError(_NO_FILES)
    for name, part in pairs:
        if not isinstance(name, str):
            raise InvalidArgumentError("Multipart names its files by strings")
        label, file, *media_type = _labelled(part)
        head = _disposition(name)
        if label:
            head += f'; filename="{label.translate(_QUOTED)}"'
            media_type = media_type or [mimetypes.guess_type(label)[0] or BINARY]
        for text in media_type:
            head += f"\r\nContent-Type: {text}"
        yield head, file if isinstance(file, bytes) else _File.of(file)


def _disposition(name: str) -> str:
    return f'Content-Disposition: form-data; name="{name.translate(_QUOTED)}"'


def _labelled(part: object) -> tuple[Any, ...]:
    """Return a part as a tuple that begins with the name of its file."""
    own_name = "upload" if isinstance(part, bytes) else getattr(part, "name", "upload")
    named = part if isinstance(part, tuple) else (Path(str(own_name)).name, part)
    texts = (*named[:1], *named[2:])
    if len(named) not in _SIZES or not all(isinstance(text, str) for text in texts):
        raise InvalidArgumentError(
            "a file of Multipart is a file, (name, file) or (name, file, media type)"
        )
    if not isinstance(named[1], Path | bytes) and not hasattr(named[1], "read"):
        raise InvalidArgumentError("a file of Multipart is a Path, bytes or an open file")
    for media_type in named[2:]:
        check_argument("the media type of a file of Multipart", media_type)
    return named
