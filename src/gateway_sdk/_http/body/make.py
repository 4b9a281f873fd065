"""Make a body of the user's content: bytes, text, JSON, files, a form, a stream."""

import asyncio
import mimetypes
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

from gateway_sdk._config import is_async
from gateway_sdk._http.body.body import Body, OnProgress
from gateway_sdk._http.body.file import (
    OpenFile,
    may_be_path,
    names_file,
    read_open,
    read_path,
    size_of,
    span_of,
)
from gateway_sdk._http.body.multipart import Form, Multipart
from gateway_sdk._http.body.thread import from_thread, in_thread
from gateway_sdk._http.headers import check_header_value
from gateway_sdk._http.request import encode_json
from gateway_sdk.errors import ConfigurationError, InvalidArgumentError, UploadFailedError
from gateway_sdk.operations import UPDATE_DOCUMENT, UPLOAD_DOCUMENT, Content, Operation

BodyContent: TypeAlias = (
    bytes
    | bytearray
    | memoryview
    | str
    | Path
    | OpenFile
    | Multipart
    | AsyncIterable[bytes]
    | Mapping[str, Any]
    | list[Any]
    | BaseModel
)
"""The content of operations with any type of entity body: a `str` is text, a `Path` or an open file
is a file, a mapping, list or model is JSON. A `str` that names an existing file is refused."""

BINARY: Final = "application/octet-stream"
JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"


async def make_body(
    operation: Operation[Any],
    content: object,
    content_type: str | None,
    on_progress: OnProgress | None,
) -> Body | None:
    """Make the body of an operation; None for a request without a body.

    Raises:
        InvalidArgumentError: the content is of a wrong type, or cannot be read.
    """
    if operation.content is Content.ANY and content is not None:
        if isinstance(content, str):
            # A status may happen to be the name of a file, so only texts that look like a path
            # are refused there.
            await _refuse_path(content, plain_words=operation in (UPDATE_DOCUMENT, UPLOAD_DOCUMENT))
        return await _any_body(content, content_type, on_progress)
    if content_type is not None or on_progress is not None:
        raise InvalidArgumentError("content_type and on_progress need a document as content")
    if operation.content is Content.NONE and content is not None:
        raise InvalidArgumentError("the operation takes no body")
    if operation.content is Content.JSON and content is None:
        raise InvalidArgumentError("the body is missing")
    return None if content is None else _of_bytes(encode_json(content), JSON)


async def _refuse_path(text: str, *, plain_words: bool) -> None:
    """Refuse the path of a file as a str: the gateway would store the path as the document."""
    if may_be_path(text, plain_words=plain_words) and await asyncio.to_thread(names_file, text):
        raise InvalidArgumentError(
            "content is a str that names an existing file: give pathlib.Path(...) to send the "
            "file, or bytes, as from .encode(), to send the text itself"
        )


async def _any_body(
    content: object, content_type: str | None, on_progress: OnProgress | None
) -> Body:
    """Make a body of any of the types in `BodyContent`."""
    body = await _body_of(content)
    if content_type is not None:
        if isinstance(content, Multipart):
            raise InvalidArgumentError("content_type follows from Multipart: leave it out")
        body.content_type = _check_content_type(content_type)
    if on_progress is not None and not callable(on_progress):
        raise InvalidArgumentError("on_progress must be a function of (sent, total)")
    if is_async(on_progress):
        raise InvalidArgumentError("on_progress must be a plain function, not async")
    body.on_progress = on_progress
    return body


async def _body_of(content: Any) -> Body:  # noqa: PLR0911 - one for each kind
    match content:
        case bytes() | bytearray() | memoryview():
            return _of_bytes(bytes(content), BINARY)
        case str():
            return _of_text(content)
        case Mapping() | list() | BaseModel():
            return _of_bytes(encode_json(content), JSON)
        case Path():
            return await _of_file(content)
        case Multipart():
            return await _of_form(content)
        case AsyncIterable():
            return _of_stream(content)
        case _ if callable(getattr(content, "read", None)):
            return await _of_open_file(content)
        case _:
            raise InvalidArgumentError(
                "content must be bytes, a str (text), a Path or open file, a Multipart, a mapping, "
                "list or model (JSON) or an async iterable of bytes, "
                f"not {type(content).__name__}"
            )


def _of_bytes(content: bytes, content_type: str) -> Body:
    async def pieces() -> AsyncGenerator[bytes, None]:
        yield content

    return Body(pieces, content_type, len(content), replayable=True, whole=content)


def _of_text(text: str) -> Body:
    try:
        return _of_bytes(text.encode(), TEXT)
    except UnicodeEncodeError:
        raise InvalidArgumentError("content is text with half of a surrogate pair") from None


async def _of_file(path: Path) -> Body:
    """Make a body of a file, which is opened each time that it is sent."""
    length = await in_thread(size_of, path)
    return Body(
        lambda: from_thread(lambda: read_path(path, length), ahead=True),
        _guess(path.name),
        length,
        replayable=True,
    )


async def _of_open_file(file: OpenFile) -> Body:
    """Make a body of the rest of an open file; it can be sent again if the file can seek."""
    span = await in_thread(span_of, file)
    return Body(
        lambda: from_thread(lambda: read_open(file, span), ahead=False),
        _guess(getattr(file, "name", None)),
        None if span is None else span[1],
        replayable=span is not None,
    )


async def _of_form(multipart: Multipart) -> Body:
    form = await in_thread(Form.of, multipart)
    return Body(
        lambda: from_thread(form.read, ahead=form.ahead),
        form.content_type,
        form.length,
        replayable=form.length is not None,
    )


def _guess(name: object) -> str:
    """Guess a media type by the name of a file; the name of an open file may be a number."""
    guessed, compression = mimetypes.guess_type(name) if isinstance(name, str) else (None, None)
    return guessed if guessed and not compression else BINARY


def _of_stream(content: AsyncIterable[Any]) -> Body:
    async def pieces() -> AsyncGenerator[bytes, None]:
        iterator = aiter(content)
        try:
            async for piece in iterator:
                if not isinstance(piece, bytes | bytearray | memoryview):
                    raise UploadFailedError("content is a stream, but not of bytes")
                yield bytes(piece)
        finally:
            if isinstance(iterator, AsyncGenerator):
                await iterator.aclose()

    return Body(pieces, BINARY, length=None, replayable=False)


def _check_content_type(content_type: object) -> str:
    try:
        return check_header_value("content_type", content_type)
    except ConfigurationError as error:
        raise InvalidArgumentError(str(error)) from None
