"""A body on its way: in pieces, with progress, and as often as it can be sent."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from types import AsyncGeneratorType
from typing import Final, TypeAlias, cast

import httpx

from gateway_sdk._config import LOGGER
from gateway_sdk._http.body.file import Piece
from gateway_sdk.errors import UploadFailedError

OnProgress: TypeAlias = Callable[[int, int | None], object]
"""Called with the bytes sent so far and the total, which is None for a stream."""

PIECE: Final = 64 * 1024
"""Bytes handed over at once: small enough for progress and cancellation to be prompt."""


@dataclass(slots=True, eq=False)
class Body(httpx.AsyncByteStream):
    """A body that knows how long it is and whether it can be sent a second time.

    Attributes:
        pieces: Starts from the beginning each time it is called.
        content_type: The media type, for the header.
        length: Bytes; None if it is known only at the end.
        replayable: False if what was read is gone.
        whole: All of it, if it is there as bytes. What is small then goes the short way.
        on_progress: Told how far it got; never told a smaller number than before. What it raises
            is logged and changes nothing.
    """

    pieces: Callable[[], AsyncGenerator[Piece, None]]
    content_type: str
    length: int | None
    replayable: bool
    whole: bytes | None = None
    on_progress: OnProgress | None = None
    _reported: int = -1
    _sending: list["AsyncGeneratorType[bytes, None]"] = field(default_factory=list)

    @property
    def can_be_sent(self) -> bool:
        """Whether it is all there: it was never begun, or it can begin anew."""
        return self.replayable or not self._sending

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Begin to send it.

        Raises:
            UploadFailedError: the content raised an error, which is its `__context__`, for its
                text may show what was sent. Or it was begun already and is gone: a transport of
                the user's repeats by itself.
        """
        if self.whole is not None and self.on_progress is None and len(self.whole) <= PIECE:
            return _Once(self.whole)
        if not self.can_be_sent:
            raise UploadFailedError("the content was sent once, and cannot be sent again")
        sending = self._send()
        self._sending.append(cast("AsyncGeneratorType[bytes, None]", sending))
        return sending

    async def aclose(self) -> None:
        """Let go of the content, wherever the sending stopped."""
        for sending in self._sending:
            if not sending.ag_running:  # else a transport of the user's reads it in another task
                await sending.aclose()

    async def _send(self) -> AsyncGenerator[bytes, None]:
        sent = 0
        try:
            async with aclosing(self.pieces()) as pieces:
                async for piece in pieces:
                    for part in _cut(piece):
                        yield part
                        sent += len(part)
                        if sent:
                            self._report(sent)
            self._report(sent)  # nothing at all is the end of an empty document
        except UploadFailedError:
            raise
        except Exception as error:  # noqa: BLE001 - it is the user's, and may be anything
            raise UploadFailedError(
                f"the content raised {type(error).__name__} while it was sent"
            ) from None

    def _report(self, sent: int) -> None:
        if self.on_progress and sent > self._reported:
            self._reported = sent
            tell_progress(self.on_progress, sent, self.length)


def tell_progress(on_progress: Callable[..., object], *how_far: object) -> None:
    """Call a progress function of the user's; what it raises is logged and decides nothing."""
    try:
        on_progress(*how_far)
    except Exception:  # noqa: BLE001 - it is logged
        LOGGER.exception("on_progress failed")


class _Once(AsyncIterator[bytes]):
    """Gives one piece; three generators, one in another, would take 5 µs."""

    __slots__ = ("_piece",)

    def __init__(self, piece: bytes) -> None:
        self._piece: bytes | None = piece

    async def __anext__(self) -> bytes:
        """Return the piece, once."""
        piece, self._piece = self._piece, None
        if piece is None:
            raise StopAsyncIteration
        return piece


def _cut(content: Piece) -> Iterator[bytes]:
    """Cut into pieces of a size that lets progress and cancellation be prompt."""
    if len(content) <= PIECE:
        yield bytes(content)  # which is the same object if it is bytes
        return
    view = memoryview(content)
    for start in range(0, len(content), PIECE):
        yield bytes(view[start : start + PIECE])
