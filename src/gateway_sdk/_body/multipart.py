"""A form with files (RFC 7578), encoded by httpx. What reads files blocks: it runs in a thread."""

import secrets
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias, cast

import httpx

from gateway_sdk._body.file import size_of, span_of
from gateway_sdk.errors import InvalidArgumentError, UploadFailedError

File: TypeAlias = Path | bytes | BinaryIO
FilePart: TypeAlias = File | tuple[str, File] | tuple[str, File, str]
"""A file; or its name, and it; or its name, it, and its media type."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Multipart:
    """A form with fields and files, as multipart/form-data.

    Attributes:
        fields: Texts by their names; a list of texts repeats a name.
        files: Files by their names in the form; a list repeats a name. A path is opened when it
            is sent; an open file is sent from its beginning, and stays open.
    """

    fields: Mapping[str, str | list[str]]
    files: Mapping[str, FilePart | list[FilePart]]

    def __repr__(self) -> str:
        return f"<Multipart of {len(self.fields)} fields and {len(self.files)} files>"


@dataclass(frozen=True, slots=True, repr=False)
class Form:
    """A form that was looked over and can be sent.

    Attributes:
        content_type: The media type, with the boundary.
        length: Bytes; None if that of a file is not known.
        replayable: Whether it can be sent a second time.
    """

    content_type: str
    length: int | None
    replayable: bool
    _parts: tuple[tuple[str, FilePart], ...]
    _fields: Mapping[str, str | list[str]]

    @classmethod
    def of(cls, multipart: Multipart) -> "Form":
        """Look a form over.

        Raises:
            InvalidArgumentError: it is not what it should be, or a file cannot be read.
        """
        parts = tuple(_parts_of(multipart.files))
        fields = _checked_fields(multipart.fields)
        files = [_file_of(part) for _, part in parts]
        spans = [span_of(file) for file in files if not isinstance(file, Path | bytes)]
        for file in files:
            if isinstance(file, Path):
                size_of(file)
        content_type = f"multipart/form-data; boundary={secrets.token_hex(16)}"
        form = cls(content_type, None, None not in spans, parts, fields)
        with form._encoded() as request:
            length = request.headers.get("Content-Length")
        return replace(form, length=length and int(length))

    def read(self) -> Generator[bytes, None, None]:
        """Read the whole form, files included.

        Raises:
            UploadFailedError: a file has become shorter or longer.
            OSError: one cannot be read any more.
        """
        left = self.length
        with self._encoded() as request:
            for piece in cast("httpx.SyncByteStream", request.stream):
                if left is not None:
                    left -= len(piece)
                if left is not None and left < 0:
                    raise UploadFailedError(_CHANGED)
                yield piece
        if left:
            raise UploadFailedError(_CHANGED)

    @contextmanager
    def _encoded(self) -> Generator[httpx.Request, None, None]:
        """Let httpx encode the form; its files are open within."""
        with ExitStack() as stack:
            files = [(name, _opened(part, stack)) for name, part in self._parts]
            yield httpx.Request(
                "POST",
                "https://form.invalid",
                headers={"Content-Type": self.content_type},
                data=self._fields,
                files=files,
            )


_CHANGED: Final = "content is a form with a file that changed its size while it was sent"


def _parts_of(files: object) -> Iterator[tuple[str, FilePart]]:
    if not isinstance(files, Mapping) or not files:
        raise InvalidArgumentError("Multipart needs files: a mapping of names, with one at least")
    for name, given in files.items():
        if not isinstance(name, str):
            raise InvalidArgumentError("Multipart names its files by strings")
        for part in given if isinstance(given, list) else [given]:
            _check_part(part)
            yield name, part


def _check_part(part: object) -> None:
    named = part if isinstance(part, tuple) else ("", part)
    texts = (*named[:1], *named[2:])
    if len(named) not in _SIZES or not all(isinstance(text, str) for text in texts):
        raise InvalidArgumentError(
            "a file of Multipart is a file, (name, file) or (name, file, media type)"
        )
    if not isinstance(named[1], Path | bytes) and not hasattr(named[1], "read"):
        raise InvalidArgumentError("a file of Multipart is a Path, bytes or an open file")


_SIZES: Final = (2, 3)


def _checked_fields(fields: object) -> Mapping[str, str | list[str]]:
    if not isinstance(fields, Mapping):
        raise InvalidArgumentError("Multipart needs fields: a mapping of names to texts")
    for name, given in fields.items():
        texts = given if isinstance(given, list) else [given]
        if not isinstance(name, str) or not all(isinstance(text, str) for text in texts):
            raise InvalidArgumentError("a field of Multipart is a text, or a list of texts")
    return fields


def _file_of(part: FilePart) -> File:
    return part[1] if isinstance(part, tuple) else part


def _opened(part: FilePart, stack: ExitStack) -> Any:
    """Return a part as httpx takes it, with what is a path opened."""
    file = _file_of(part)
    if not isinstance(file, Path):
        return part
    opened = stack.enter_context(file.open("rb"))
    return (part[0], opened, *part[2:]) if isinstance(part, tuple) else (file.name, opened)
