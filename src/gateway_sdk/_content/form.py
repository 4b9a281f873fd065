"""A form with files (RFC 7578), encoded by httpx. Code that reads files runs in a thread."""

import io
import secrets
from collections.abc import Callable, Generator, Iterator, Mapping, Sized
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import httpx

from gateway_sdk._content.chunks import Chunk
from gateway_sdk._content.files import OpenFile, read_open, read_path, size_of, span_of
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


@dataclass(frozen=True, slots=True, repr=False)
class CheckedForm:
    content_type: str  # the media type, with the boundary
    length: int | None  # None if that of a file is unknown; that file cannot seek either
    ahead: bool  # whether reading ahead is safe, because no file in the form is open already
    _fields: Mapping[str, str | list[str]]
    _parts: tuple[tuple[str, tuple[Any, ...]], ...]  # as httpx takes them

    @classmethod
    def of(cls, multipart: Multipart) -> "CheckedForm":
        fields = _checked_fields(multipart.fields)
        given = tuple(_parts_of(multipart.files))
        if not given:
            raise InvalidArgumentError(_NO_FILES)
        ahead = all(isinstance(file, Path | bytes) for _, (_, file, *_) in given)
        parts = tuple(
            (name, (label, file if isinstance(file, bytes) else _File.of(file), *media_type))
            for name, (label, file, *media_type) in given
        )
        content_type = f"multipart/form-data; boundary={secrets.token_hex(16)}"
        form = cls(content_type, None, ahead, fields, parts)
        try:
            with ExitStack() as stack:
                length = form._encoded(stack).headers.get("Content-Length")
        except UnicodeEncodeError:  # no cause: its text shows the value
            raise InvalidArgumentError("Multipart has half of a surrogate pair in it") from None
        return replace(form, length=length and int(length))

    def read(self) -> Generator[Chunk, None, None]:
        with ExitStack() as stack:
            yield from cast("httpx.SyncByteStream", self._encoded(stack).stream)

    def _encoded(self, stack: ExitStack) -> httpx.Request:
        """Let httpx encode the form, with the boundary of the media type."""
        # Each file is opened when it is reached; leaving the stack closes it.
        return httpx.Request(
            "POST",
            "https://form.invalid",
            headers={"Content-Type": self.content_type},
            data=self._fields,
            files=[
                (name, (label, _opened(file, stack), *media_type))
                for name, (label, file, *media_type) in self._parts
            ],
        )


@dataclass(frozen=True, slots=True, repr=False)
class _File:
    length: int | None  # bytes; None if unknown
    chunks: Callable[[], Generator[Chunk, None, None]]

    @classmethod
    def of(cls, file: Path | OpenFile) -> "_File":
        if isinstance(file, Path):
            size = size_of(file)
            return cls(size, partial(read_path, file, size))
        span = span_of(file, start=0)
        return cls(None if span is None else span[1], partial(read_open, file, span))


class _Reading:
    """The view of a file that httpx has while it is sent once."""

    # From the file itself, httpx would take the length of the descriptor: 0 for a pipe, and the
    # compressed length for a file that decompresses.

    def __init__(self, file: _File, chunks: Generator[Chunk, None, None]) -> None:
        self._length = file.length
        self._chunks = chunks

    def tell(self) -> int:
        """Return position 0; raise if the length is unknown."""
        if self._length is None:
            raise io.UnsupportedOperation
        return 0

    def seek(self, _: int, whence: int = io.SEEK_SET) -> int:
        """Return the length, if httpx asks for it; the position does not change."""
        return self._length or 0 if whence == io.SEEK_END else 0

    def read(self, _: int) -> Chunk:
        return next(self._chunks, b"")


_NO_FILES: Final = "Multipart needs files: a mapping of names, with at least one file"
_SIZES: Final = (2, 3)


def _count(given: object) -> int:
    return len(given) if isinstance(given, Sized) else 0


def _parts_of(files: object) -> Iterator[tuple[str, tuple[Any, ...]]]:
    if not isinstance(files, Mapping):
        raise InvalidArgumentError(_NO_FILES)
    for name, given in files.items():
        if not isinstance(name, str):
            raise InvalidArgumentError("Multipart names its files by strings")
        for part in given if isinstance(given, list) else [given]:
            yield name, _labelled(part)


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


def _checked_fields(fields: object) -> Mapping[str, str | list[str]]:
    """Return a copy of the fields, so that all attempts send the same."""
    if not isinstance(fields, Mapping):
        raise InvalidArgumentError("Multipart needs fields: a mapping of names to texts")
    checked: dict[str, str | list[str]] = {}
    for name, given in fields.items():
        texts = list(given) if isinstance(given, list) else [given]
        if not isinstance(name, str) or not all(isinstance(text, str) for text in texts):
            raise InvalidArgumentError("a field of Multipart is a text, or a list of texts")
        checked[name] = texts
    return checked


def _opened(file: Any, stack: ExitStack) -> Any:
    if isinstance(file, bytes):
        return file
    return _Reading(file, stack.enter_context(closing(file.chunks())))
