"""The body of a request: sent in pieces, with progress, and again where possible."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from contextvars import Context
from dataclasses import dataclass, field
from types import AsyncGeneratorType
from typing import Final, TypeAlias, cast

import httpx

from gateway_sdk._config import LOGGER
from gateway_sdk._http.body.context import InContext
from gateway_sdk._http.body.file import Piece
from gateway_sdk.errors import UploadFailedError

OnProgress: TypeAlias = Callable[[int, int | None], object]
"""Called with the bytes sent so far and the total, which is None for a stream."""

PIECE: Final = 64 * 1024
"""Bytes handed over at once: small enough for progress and cancellation to be prompt."""


@dataclass(slots=True, eq=False)
class Body(httpx.AsyncByteStream):
    """A body with its length; it says whether it can be sent a second time.

    Attributes:
        pieces: Starts from the beginning each time it is called.
        content_type: The media type, for the header.
        length: Bytes; None if unknown until the end.
        replayable: Whether `pieces` can start again.
        whole: The whole content, if it is bytes; a small one is sent in one piece.
        on_progress: Called with the bytes that were sent; the number never falls. Its errors are
            logged and change nothing.
        context: Where the content is read, so that the user's code sees nothing of what observers
            set in the context of a call; None for that of the call.
    """

    pieces: Callable[[], AsyncGenerator[Piece, None]]
    content_type: str
    length: int | None
    replayable: bool
    whole: bytes | None = None
    on_progress: OnProgress | None = None
    context: Context | None = None
    _reported: int = -1
    _sending: list["AsyncGeneratorType[bytes, None] | InContext"] = field(default_factory=list)

    @property
    def can_be_sent(self) -> bool:
        """Whether the whole body can be sent: it was not started, or it can restart."""
        return self.replayable or not self._sending

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Start to send the body.

        Raises:
            UploadFailedError: the content raised an error. It is the `__context__` and not in
                the text, because its text may show the content. Or the content was sent before
                and cannot be sent again: the user's own transport repeats requests.
        """
        if self.whole is not None and self.on_progress is None and len(self.whole) <= PIECE:
            return _Once(self.whole)
        if not self.can_be_sent:
            raise UploadFailedError("the content was sent once, and cannot be sent again")
        sending = cast("AsyncGeneratorType[bytes, None]", self._send())
        stepped = sending if self.context is None else InContext(sending, self.context)
        self._sending.append(stepped)
        return stepped

    async def aclose(self) -> None:
        """Release the content, also after an incomplete sending."""
        for sending in self._sending:
            if not sending.ag_running:  # else the user's transport reads it in another task
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
            self._report(sent)  # also for an empty document, which has no piece
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
    """Call the user's progress function; its errors are logged and change nothing."""
    try:
        on_progress(*how_far)
    except Exception:  # noqa: BLE001 - it is logged
        LOGGER.exception("on_progress failed")


class _Once(AsyncIterator[bytes]):
    """Gives one piece; nested generators would take 5 µs."""

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
    """Cut the content into pieces, so that progress and cancellation are prompt."""
    if len(content) <= PIECE:
        yield bytes(content)  # no copy if it is bytes
        return
    view = memoryview(content)
    for start in range(0, len(content), PIECE):
        yield bytes(view[start : start + PIECE])
