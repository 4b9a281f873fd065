"""Decode the body of a reply: gzip, charset, JSON. No I/O here."""

import codecs
import json
import math
import re
import zlib
from collections.abc import Callable, Iterable
from typing import Any, Final

from pydantic_core import from_json

ParseFloat = Callable[[str], Any]

_GZIP: Final = zlib.MAX_WBITS | 16
_GZIP_MAGIC: Final = b"\x1f"
_CHARSET: Final = re.compile(r'charset\s*=\s*"?([^\s";]+)', re.IGNORECASE)


_ODD_NUMBER: Final = "holds a number that cannot be taken as it is"
_ZERO, _E, _SPACE = b"0e "
_KINDS: Final = dict.fromkeys(b"0123456789", _ZERO) | dict.fromkeys(b"eE", _E)
_SHAPE: Final = bytes(_KINDS.get(byte, _SPACE) for byte in range(256))
"""Replaces every digit by 0 and every exponent by e, to find numbers that may be too large."""


class ContentError(Exception):
    """The body cannot be decoded; the text says why, without any part of the body."""


class BodyReader:
    """Collect the pieces of a body, decompressed, up to a limit.

    A broken or oversized body raises no error here, because the status decides what it means.
    `problem` says what is wrong with the body; None if it is good.
    """

    def __init__(self, content_encoding: str, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._fed = False
        self._gunzip = None
        self.problem: str | None = None
        match content_encoding.strip().lower():
            case "" | "identity":
                pass
            case "gzip" | "x-gzip":
                self._gunzip = zlib.decompressobj(_GZIP)
            case _:
                self.problem = "has a content-encoding that was not asked for"

    def feed(self, piece: bytes) -> bool:
        """Add the next piece, and tell whether more pieces are needed."""
        self._fed = self._fed or bool(piece)
        if self._gunzip is None:
            self._take(piece)
        else:
            self._take_compressed(piece)
        return self._size <= self._limit

    def finish(self) -> bytes:
        """Return the body, after the last piece."""
        if self._gunzip and self._fed and not self._gunzip.eof:
            self.problem = self.problem or "ends in the middle of its compression"
        return b"".join(self._parts)

    def _take_compressed(self, piece: bytes) -> None:
        """Decompress up to the limit only: a compressed body may be a thousand times larger."""
        try:
            while piece and self._gunzip and self._size <= self._limit:
                if self._gunzip.eof:  # a second gzip member or padding: ignored
                    if not piece.startswith(_GZIP_MAGIC):
                        return
                    self._gunzip = zlib.decompressobj(_GZIP)
                self._take(self._gunzip.decompress(piece, self._limit - self._size + 1))
                piece = self._gunzip.unused_data
        except zlib.error:
            self.problem = "is not compressed as its content-encoding says"

    def _take(self, piece: bytes) -> None:
        room = self._limit - self._size
        self._parts.append(piece[:room])
        self._size += len(piece)
        if self._size > self._limit:
            self.problem = f"is larger than max_reply_bytes ({self._limit})"


def media_type(content_type: str) -> tuple[str, str | None]:
    """Split a Content-Type into the type in lower case and the charset, if it declares one."""
    essence, _, parameters = content_type.partition(",")[0].partition(";")  # the first of two
    charset = _CHARSET.search(parameters)
    return essence.strip().lower(), charset[1] if charset else None


def is_json(essence: str) -> bool:
    """Tell whether a media type is JSON (RFC 8259, 11; RFC 6839, 3.1)."""
    return essence == "application/json" or essence.endswith("+json")


def decode_text(body: bytes, charset: str | None) -> str:
    """Decode text in its declared charset, or in UTF-8, without a byte order mark.

    Raises:
        ContentError: the charset is unknown or the bytes are not in it.
    """
    try:
        return body.decode(charset or "utf-8").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    except (LookupError, ValueError):
        raise ContentError("is not in the charset that it declares") from None


def utf8_json(body: bytes, charset: str | None) -> bytes:
    """Return JSON of any Unicode encoding as UTF-8 without a byte order mark.

    Raises:
        ContentError: the charset is unknown or the bytes are not in it.
    """
    charset = charset or json.detect_encoding(body)
    if charset.lower() in ("utf-8", "utf8", "utf-8-sig"):
        return body.removeprefix(codecs.BOM_UTF8)
    return decode_text(body, charset).encode("utf-8", "surrogatepass")


def decode_json(data: bytes, parse_float: ParseFloat | None) -> Any:
    """Decode JSON more strictly than `json.loads` does.

    It refuses NaN, Infinity, numbers that would become infinite, more than 200 levels, integers
    of more than 4300 digits, and lone surrogates: such values cannot be written as JSON again, or
    cause errors later.

    Args:
        data: UTF-8 without a byte order mark.
        parse_float: Converts the text of a number that has a fraction or an exponent.

    Raises:
        ContentError: the data is not such JSON.
    """
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError:
        raise ContentError("is not JSON") from None
    if parse_float is not None:
        # The strict decoder has accepted it, so the standard one does; only that one has a hook
        # for floats.
        return _loads(data, parse_float)
    if _holds_infinity(value):
        raise ContentError(_ODD_NUMBER)
    return value


def _holds_infinity(value: Any) -> bool:
    """Tell whether a decoded value holds infinity, which the decoder makes of a number like 1e999.

    This takes a third of the decoding time, or half of it for many short texts. A search in the
    bytes costs as much, and takes many UUIDs for such numbers.
    """
    levels: list[Iterable[Any]] = [[value]]
    for level in levels:  # the loop adds to this list
        for item in level:
            kind = type(item)
            if kind is float:
                if math.isinf(item):
                    return True
            elif kind is dict:
                levels.append(item.values())
            elif kind is list:
                levels.append(item)
    return False


def may_exceed_floats(data: bytes) -> bool:
    """Tell whether JSON may hold a number like 1e999, which would silently become infinite.

    For JSON that is validated into a type, where no decoded value can be searched. It may take a
    text such as a UUID for a number. It is four times as fast as a regular expression.
    """
    shape = data.translate(_SHAPE, b"+")
    return b"e000" in shape or b"0" * 309 in shape


def _loads(data: bytes, parse_float: ParseFloat) -> Any:
    """Decode JSON with the user's function for numbers."""
    try:
        return json.loads(data, parse_float=parse_float)
    except Exception:  # noqa: BLE001 - whatever it is: the gateway did its part, and that counts
        raise ContentError(_ODD_NUMBER) from None
