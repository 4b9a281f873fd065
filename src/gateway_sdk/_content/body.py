"""The body of a request: made of the user's content, sent in chunks, and again where possible."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from copy import copy
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from types import AsyncGeneratorType
from typing import Any, Final, TypeAlias, cast
from weakref import WeakSet

import httpx
from pydantic import BaseModel

from gateway_sdk._checks import is_async
from gateway_sdk._content import files
from gateway_sdk._content.files import BINARY, CHUNK, Multipart, OpenFile, ReceivedFile, Source
from gateway_sdk._http.request import (
    JSON,
    OnProgress,
    PreparedRequest,
    RequestTemplate,
    check_argument,
    encode_json,
    framing,
)
from gateway_sdk._python import telling
from gateway_sdk._waiting import OwnCancellation, raise_if_cancelled
from gateway_sdk.errors import InvalidArgumentError, UploadFailedError
from gateway_sdk.operations import UPDATE_DOCUMENT, UPLOAD_DOCUMENT

BodyContent: TypeAlias = (
    bytes
    | bytearray
    | memoryview
    | str
    | Path
    | OpenFile
    | ReceivedFile
    | Multipart
    | AsyncIterable[bytes]
    | Mapping[str, Any]
    | list[Any]
    | BaseModel
)
"""The content of operations with any type of entity body: a `str` is text, a `Path`, an open or a
received file is a file, a mapping, list or model is JSON. As a document, a `str` is refused without
a content type, because most are meant as paths."""

TEXT: Final = "text/plain; charset=utf-8"

_TURN: Final = 2**20
"""Bytes after which the event loop gets a turn, which costs about 30 µs: content that never waits,
sent to a server that is fast, would hold the loop until its end."""


@dataclass(slots=True, eq=False, repr=False)
class Body(httpx.AsyncByteStream):
    chunks: Callable[[], AsyncGenerator[bytes, None]]  # from the beginning each time
    content_type: str
    length: int | None  # bytes; None if unknown until the end: then it can be read only once
    whole: bytes | None = None  # a small one is sent in one chunk
    on_progress: OnProgress | None = None
    _reported: int = -1
    _begun: AsyncGenerator[bytes, None] | None = None
    _sending: list[AsyncGenerator[bytes, None]] = field(default_factory=list)

    @property
    def can_be_sent(self) -> bool:
        return self.length is not None or not self._sending

    async def begin(self) -> None:
        """Wait for the first chunk of what can be read only once, before a connection does."""
        # Servers close a connection that is silent for some seconds: the stream would be lost.
        if self.length is None:
            self._begun, own = self._begin(), OwnCancellation()
            await anext(self._begun)
            await own.raise_that_of_others()

    async def end(self) -> None:
        if self._begun is not None and not self._sending:
            await self._begun.aclose()

    def __aiter__(self) -> AsyncIterator[bytes]:
        if not self.can_be_sent:
            raise UploadFailedError("the content was sent once, and cannot be sent again")
        self._sending.append(self._begun or self._send())
        return self._sending[-1]

    async def aclose(self) -> None:
        for chunks in self._sending:
            # If it runs, the user's transport reads it in another task.
            if not cast("AsyncGeneratorType[bytes, None]", chunks).ag_running:
                await chunks.aclose()

    async def _begin(self) -> AsyncGenerator[bytes, None]:
        """Yield nothing when the first chunk is there, then all chunks."""
        async with aclosing(self._send()) as chunks:
            first = await anext(chunks, b"")
            yield b""
            yield first
            async for chunk in chunks:
                yield chunk

    async def _send(self) -> AsyncGenerator[bytes, None]:
        sent, pause = 0, _TURN
        try:
            async with aclosing(self.chunks()) as chunks:
                async for given in chunks:
                    for chunk in files.cut(given):
                        yield chunk
                        sent += len(chunk)
                        self._report(sent)
                        if sent >= pause:
                            pause = sent + _TURN
                            await asyncio.sleep(0)
            self._report(sent)  # also for an empty document, which has no chunk
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the user's, any one
            raise_if_cancelled(error)
            if isinstance(error, UploadFailedError) and error.operation is None:
                raise copy(error) from None  # the user may raise the same one in another call
            raise UploadFailedError(
                f"the content raised {type(error).__name__} while it was sent"
            ) from None

    def _report(self, sent: int) -> None:
        if self.on_progress and sent > self._reported:
            self._reported = sent
            self.on_progress(sent, self.length)


async def prepare_document(
    template: RequestTemplate,
    target: bytes,
    content: Any,
    *,
    content_type: str | None,
    on_progress: OnProgress | None,
) -> PreparedRequest:
    is_document = template.operation in (UPDATE_DOCUMENT, UPLOAD_DOCUMENT)
    if is_document and isinstance(content, str) and content_type is None:
        raise InvalidArgumentError(
            "is a str, which would be stored as the document: give pathlib.Path(...) to send a "
            "file, or content_type='text/plain; charset=utf-8' with it to send the text",
            field="content",
        )
    body = await _body_of(content)
    if content_type is None:
        content_type = body.content_type  # of a file that a web framework received, its client's
    elif isinstance(content, Multipart):
        raise InvalidArgumentError("follows from Multipart: leave it out", field="content_type")
    body.content_type = check_argument("content_type", content_type)
    if on_progress is not None and (not callable(on_progress) or is_async(on_progress)):
        problem = "must be a plain function of (sent, total)"
        raise InvalidArgumentError(problem, field="on_progress")
    body.on_progress = None if on_progress is None else telling(on_progress)
    fields = framing(template.operation.method, body.length, body.content_type)
    small = body.whole if on_progress is None and (body.length or 0) <= CHUNK else None
    sent = body if small is None else small
    return PreparedRequest(template, target, sent, body.length, fields)


async def _body_of(content: Any) -> Body:
    match content:
        case bytes() | bytearray() | memoryview():
            return _of_bytes(bytes(content), BINARY)
        case str():
            try:
                return _of_bytes(content.encode(), TEXT)
            except UnicodeEncodeError:
                problem = "is text with half of a surrogate pair"
                raise InvalidArgumentError(problem, field="content") from None
        case Mapping() | list() | BaseModel():
            return _of_bytes(encode_json(content, "content"), JSON)
        case Multipart():
            content_type, form = await files.in_few_threads(files.form_of, content)
            return _of_source(form, content_type)
        case AsyncIterable():
            return _of_stream(content)
        case _ if isinstance(content, Path) or callable(getattr(content, "read", None)):
            source = await files.in_few_threads(files.source_of, content)
            name, media_type = files.name_and_type_of(content)
            return _of_source(source, media_type or files.media_type_of(name))
        case _:
            hint = ": give pathlib.Path(content)" if isinstance(content, PathLike) else ""
            raise InvalidArgumentError(
                "must be bytes, a str (text), a Path or open file, a Multipart, a mapping, list or "
                f"model (JSON) or an async iterable of bytes, not {type(content).__name__}{hint}",
                field="content",
            )


def _of_bytes(content: bytes, content_type: str) -> Body:
    async def chunks() -> AsyncGenerator[bytes, None]:
        yield content

    return Body(chunks, content_type, len(content), whole=content)


def _of_source(source: Source, content_type: str) -> Body:
    return Body(
        lambda: files.from_thread(source.chunks, ahead=source.ahead),
        content_type,
        source.length,
        whole=b"".join(source.chunks()) if source.in_memory else None,
    )


_begun: Final[WeakSet[AsyncIterable[Any]]] = WeakSet()
"""Streams that a call has begun to read: what is left of one is not the document."""


def _of_stream(content: AsyncIterable[Any]) -> Body:
    with suppress(TypeError):  # one of a class of the user's may have no hash
        if content in _begun:
            problem = "is the stream of an earlier call: make a new one"
            raise InvalidArgumentError(problem, field="content")

    async def chunks() -> AsyncGenerator[bytes, None]:
        iterator = aiter(content)
        # One that is its own iterator, and a file, have one position for all calls.
        if iterator is content or hasattr(content, "read"):
            with suppress(TypeError):  # or takes no weak reference
                _begun.add(content)
        is_empty = True
        try:
            async for chunk in iterator:
                if not isinstance(chunk, bytes | bytearray | memoryview):
                    raise UploadFailedError("content is a stream, but not of bytes")
                is_empty = False
                yield bytes(chunk)
            if is_empty and await _position_of(content):
                raise UploadFailedError("content is at its end: seek(0), or open it again")
        finally:
            if isinstance(iterator, AsyncGenerator):
                await iterator.aclose()

    return Body(chunks, BINARY, length=None)


async def _position_of(stream: Any) -> int:
    """Return the position of an asynchronous file; 0 of a pipe, and of other streams."""
    with suppress(AttributeError, OSError, TypeError, ValueError):
        return int(await stream.tell())
    return 0
