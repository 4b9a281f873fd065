"""Bodies of requests: bytes, text, JSON, a file or a stream, sent in pieces."""

import asyncio
import mimetypes
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx
from pydantic import BaseModel

from gateway_sdk._file import read_pieces, size_of
from gateway_sdk._options import check_header_value
from gateway_sdk._wire.request import encode_json
from gateway_sdk.errors import ConfigurationError, InvalidArgumentError, UploadFailedError
from gateway_sdk.operations import Content, Operation

BodyContent: TypeAlias = (
    bytes
    | bytearray
    | memoryview
    | str
    | Path
    | AsyncIterable[bytes]
    | Mapping[str, Any]
    | list[Any]
    | BaseModel
)
"""What the operations with any type of entity body take: a `str` is text, a `Path` is a file, a
mapping, list or model is JSON."""
OnProgress = Callable[[int, int | None], object]
"""Called with the bytes sent so far and the total, which is None for a stream."""

PIECE: Final = 64 * 1024
"""Bytes handed over at once: small enough for progress and cancellation to be prompt."""

BINARY: Final = "application/octet-stream"
JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"


@dataclass(slots=True, eq=False)
class Body(httpx.AsyncByteStream):
    """A body that knows how long it is and whether it can be sent a second time.

    Attributes:
        pieces: Starts from the beginning each time it is called.
        content_type: The media type, for the header.
        length: Bytes; None if it is known only at the end.
        replayable: False if what was read is gone.
        on_progress: Told how far it got; never told a smaller number than before.
    """

    pieces: Callable[[], AsyncGenerator[bytes, None]]
    content_type: str
    length: int | None
    replayable: bool
    on_progress: OnProgress | None = None
    _reported: int = 0
    _sending: list[AsyncGenerator[bytes, None]] = field(default_factory=list[Any])

    @property
    def can_be_sent(self) -> bool:
        """Whether it is all there: it was never begun, or it can begin anew."""
        return self.replayable or not self._sending

    def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Begin to send it.

        Raises:
            UploadFailedError: the content, or the one who is told of progress, raised an error.
                What it raised is its `__context__`, for its text may show what was sent.
        """
        self._sending.append(self._send())
        return self._sending[-1]

    async def aclose(self) -> None:
        """Let go of the content, wherever the sending stopped."""
        for sending in self._sending:
            await sending.aclose()

    async def _send(self) -> AsyncGenerator[bytes, None]:
        sent = 0
        try:
            async with aclosing(self.pieces()) as pieces:
                async for piece in pieces:
                    for part in _cut(piece):
                        yield part
                        sent += len(part)
                        self._report(sent)
        except UploadFailedError:
            raise
        except Exception as error:  # noqa: BLE001 - it is the user's, and may be anything
            raise UploadFailedError(
                f"the content raised {type(error).__name__} while it was sent"
            ) from None

    def _report(self, sent: int) -> None:
        if self.on_progress and sent > self._reported:
            self._reported = sent
            self.on_progress(sent, self.length)


async def make_body(
    operation: Operation[Any],
    content: object,
    content_type: str | None,
    on_progress: OnProgress | None,
) -> Body | None:
    """Make the body that an operation takes; None if it is sent without one.

    Raises:
        InvalidArgumentError: the content is not what the operation takes, or cannot be read.
    """
    if operation.content is Content.ANY and content is not None:
        return await _any_body(content, content_type, on_progress)
    if content_type is not None or on_progress is not None:
        raise InvalidArgumentError("content_type and on_progress need a document as content")
    if operation.content is Content.NONE and content is not None:
        raise InvalidArgumentError("the operation takes no body")
    if operation.content is Content.JSON and content is None:
        raise InvalidArgumentError("the body is missing")
    return None if content is None else _of_bytes(encode_json(content), JSON)


async def _any_body(
    content: object, content_type: str | None, on_progress: OnProgress | None
) -> Body:
    """Make a body of whatever an operation with any type of entity body was given."""
    body = await _body_of(content)
    if content_type is not None:
        body.content_type = _check_content_type(content_type)
    if on_progress is not None and not callable(on_progress):
        raise InvalidArgumentError("on_progress must be a function of (sent, total)")
    body.on_progress = on_progress
    return body


async def _body_of(content: Any) -> Body:
    match content:
        case bytes() | bytearray() | memoryview():
            return _of_bytes(bytes(content), BINARY)
        case str():
            return _of_text(content)
        case Mapping() | list() | BaseModel():
            return _of_bytes(encode_json(content), JSON)
        case Path():
            return await _of_file(content)
        case AsyncIterable():
            return _of_stream(content)
        case _:
            raise InvalidArgumentError(
                "content must be bytes, a str (text), a Path (file), a mapping, list or model "
                f"(JSON) or an async iterable of bytes, not {type(content).__name__}"
            )


def _of_bytes(content: bytes, content_type: str) -> Body:
    async def pieces() -> AsyncGenerator[bytes, None]:
        yield content

    return Body(pieces, content_type, len(content), replayable=True)


def _of_text(text: str) -> Body:
    try:
        return _of_bytes(text.encode(), TEXT)
    except UnicodeEncodeError:
        raise InvalidArgumentError("content is text with half of a surrogate pair") from None


async def _of_file(path: Path) -> Body:
    """Make a body of a file; it is opened when it is sent, and anew each time."""
    length = await asyncio.to_thread(size_of, path)
    guessed, compression = mimetypes.guess_type(path.name)
    content_type = guessed if guessed and not compression else BINARY
    return Body(lambda: read_pieces(path, length), content_type, length, replayable=True)


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


def _cut(content: bytes) -> Iterator[bytes]:
    """Cut into pieces of a size that lets progress and cancellation be prompt."""
    if len(content) <= PIECE:
        yield content
        return
    view = memoryview(content)
    for start in range(0, len(content), PIECE):
        yield bytes(view[start : start + PIECE])


def _check_content_type(content_type: object) -> str:
    try:
        return check_header_value("content_type", content_type)
    except ConfigurationError as error:
        raise InvalidArgumentError(str(error)) from None
