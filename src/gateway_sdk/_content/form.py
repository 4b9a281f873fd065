"""A form with files (RFC 7578). Code that reads files runs in a thread."""

import secrets
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TypeAlias

from gateway_sdk._content.files import OpenFile, Source, media_type_of, source_of
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


_NO_FILES: Final = "Multipart needs files: a mapping of names, with at least one file"
_SIZES: Final = (2, 3)
_SHORT: Final = 4096  # bytes of a part
_QUOTED: Final = {code: f"%{code:02X}" for code in (*range(0x20), ord('"'))} | {ord("\\"): r"\\"}
"""What cannot stand between the quotes of a name, as httpx writes it; ESC too, which it sends."""


def form_of(multipart: Multipart) -> tuple[str, Source]:
    """Check a form; return its media type, with the boundary, and what is sent."""
    boundary = secrets.token_hex(16)
    parts = list[bytes | Source]()
    try:
        for head, body in (*_fields_in(multipart.fields), *_files_in(multipart.files)):
            parts += [f"--{boundary}\r\n{head}\r\n\r\n".encode(), body, b"\r\n"]
    except UnicodeEncodeError:  # no cause: its text shows the value
        raise InvalidArgumentError("Multipart has half of a surrogate pair in it") from None
    parts.append(f"--{boundary}--\r\n".encode())
    lengths = [len(part) if isinstance(part, bytes) else part.length for part in parts]
    known = [length for length in lengths if length is not None]
    return f"multipart/form-data; boundary={boundary}", Source(
        sum(known) if len(known) == len(parts) else None,
        partial(_read, parts),
        ahead=all(isinstance(part, bytes) or part.ahead for part in parts),
    )


def _read(parts: list[Any]) -> Generator[bytes, None, None]:
    # A chunk from the thread costs 0.1 ms, so what stands between long parts is one.
    for is_short, group in groupby(parts, _is_short):
        if is_short:
            yield b"".join(group)
            continue
        for part in group:
            if isinstance(part, bytes):
                yield part
            else:
                yield from part.chunks()


def _is_short(part: bytes | Source) -> bool:
    return isinstance(part, bytes) and len(part) <= _SHORT


def _fields_in(fields: object) -> Iterator[tuple[str, bytes]]:
    if not isinstance(fields, Mapping):
        raise InvalidArgumentError("Multipart needs fields: a mapping of names to texts")
    for name, given in fields.items():
        texts: list[Any] = given if isinstance(given, list) else [given]
        if not isinstance(name, str) or not all(isinstance(text, str) for text in texts):
            raise InvalidArgumentError("a field of Multipart is a text, or a list of texts")
        for text in texts:
            yield _disposition(name), text.encode()


def _files_in(files: object) -> Iterator[tuple[str, bytes | Source]]:
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
            media_type = media_type or [media_type_of(label)]
        for text in media_type:
            head += f"\r\nContent-Type: {text}"
        yield head, file if isinstance(file, bytes) else source_of(file, 0)


def _disposition(name: str) -> str:
    return f'Content-Disposition: form-data; name="{name.translate(_QUOTED)}"'


def _labelled(part: object) -> tuple[Any, ...]:
    """Return a part as a tuple that begins with the name of its file."""
    own_name = getattr(part, "name", None)  # None, or a number, of a temporary file
    label = Path(own_name).name if isinstance(own_name, str) else "upload"
    named = part if isinstance(part, tuple) else (label, part)
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
