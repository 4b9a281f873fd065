"""Read a reply: decompress its body, and decode it. No I/O here."""

import codecs
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import httpx
from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from gateway_sdk._http.request import JSON, RawHeaders
from gateway_sdk.errors import InvalidArgumentError
from gateway_sdk.operations import LIST_COUNTRIES, Operation

ParseFloat = Callable[[str], Any]

SUCCESS: Final = range(200, 300)
HTML: Final = frozenset({"text/html", "application/xhtml+xml"})

_JSON_STARTS: Final = (b"{", b"[")
_PAGE_STARTS: Final = (b"<!doctype html", b"<html")
_LONGEST_START: Final = 512  # bytes in which a page begins, after white space
_EMPTY: Final = b"", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE
_OF_UNICODE: Final = codecs.BOM_UTF8 + codecs.BOM_UTF16 + b"\0"  # before and between ASCII

_NO_CODINGS: Final = frozenset({b"", b"identity"})
_GZIPS: Final = frozenset({b"gzip", b"x-gzip"})
_MOST_LAYERS: Final = 2  # of gzip: a server and a proxy may both compress
_CODINGS: Final = _GZIPS | {b"br", b"zstd", b"deflate", b"compress", b"x-compress", b"dcb", b"dcz"}
"""Of the registry of HTTP; any other could be a text of the gateway, and is not shown."""
_NOT_ASKED_FOR: Final = "has a content-encoding that was not asked for"

_GZIP: Final = zlib.MAX_WBITS | 16
_GZIP_MAGIC: Final = 0x1F
_GZIP_CHUNK: Final = 2**14
"""Bytes to decompress at once: what lies behind a gzip member is copied, and there may be very
many members, even empty ones."""
_STEP: Final = 2**16  # decompressed bytes, at most, that come of a step
_STEPS: Final = 16
"""Steps after which the event loop gets a turn: they take about 4 ms."""
_SLOW_CHARSETS: Final = frozenset({"idna", "punycode"})
"""Codecs of host names: their time grows with the square of the length, to minutes for 1 MB."""
_CHARSET: Final = re.compile(r'charset\s*=\s*"?([^\s";]+)', re.IGNORECASE)

_NAMES_ON_THE_WIRE: Final[dict[str, Any]] = {"by_alias": True, "by_name": False}
_LONGEST_REASON: Final = 100  # characters of what the parser says
_ODD_NUMBER: Final = "holds a number that cannot be taken as it is"
_SHAPE: Final = bytes.maketrans(b"123456789+E", b"0000000000e")  # to find large numbers
_DIGITS_300: Final = b"0" * 300


class ContentError(Exception):
    """The body cannot be decoded; the text says why, without any part of the body."""


class _UnknownCharsetError(ContentError): ...


@dataclass(eq=False, repr=False)
class RawReply:
    """A reply: its head, and its body when that is complete."""

    # Its body has no error here if it is broken or too large, because the status decides what
    # that means.

    status: int
    fields: RawHeaders  # as they were sent
    index: dict[bytes, bytes]  # as `index_of` returns it
    stream: httpx.AsyncByteStream | None = None  # the body, if it has to be read, and closed then
    body: bytes = b""
    problem: str | None = None  # why the body cannot be used
    doubt: str | None = None  # why it cannot, unless it is JSON all the same
    forwarded: bool = False  # by a proxy, which may have answered

    @property
    def headers(self) -> httpx.Headers:
        """The header fields as a mapping, which takes 2 µs to make."""
        return httpx.Headers(self.fields)

    def is_complete(self, limit: int) -> bool:
        """Tell whether nothing has to be done with the body: no reading and no decompressing."""
        return (
            self.stream is None
            and len(self.body) <= limit
            and b"content-encoding" not in self.index
        )


def index_of(fields: RawHeaders) -> dict[bytes, bytes]:
    """Return header fields by their names in lower case; repeated ones are joined by commas."""
    index: dict[bytes, bytes] = {}
    for field, value in fields:
        name = field.lower()
        index[name] = index[name] + b", " + value if name in index else value
    return index


class BodyReader:
    """Puts the body of a reply together, in chunks: decompressed, and up to a limit."""

    def __init__(self, reply: RawReply, limit: int) -> None:
        self._reply = reply
        self._limit = limit
        self._body = bytearray()
        names = reply.index.get(b"content-encoding", b"").lower().split(b",")
        codings = [name.strip() for name in names if name.strip() not in _NO_CODINGS]
        gzips = [name for name in codings if name in _GZIPS][:_MOST_LAYERS]
        # Of each layer, the outermost first: what decompresses its last member that has begun.
        self._layers: list[Any] = [None for _ in gzips]
        self._steps = 0
        # Others may be labels that change nothing, such as utf-8, none and aws-chunked.
        if len(codings) > len(gzips):
            known = [name.decode() for name in codings if name in _CODINGS]
            reply.doubt = f"{_NOT_ASKED_FOR}: {', '.join(known)}" if known else _NOT_ASKED_FOR

    def feed(self, chunk: bytes) -> Iterator[None]:
        """Take a chunk, and decompress it; each yield is a turn for the event loop."""
        return self._feed(chunk, 0)

    def _feed(self, chunk: bytes, layer: int) -> Iterator[None]:
        if layer == len(self._layers):
            self._body += chunk
            return
        try:
            for start in range(0, len(chunk), _GZIP_CHUNK):
                part = chunk[start : start + _GZIP_CHUNK]
                has_more = False  # that zlib holds back
                while (part or has_more) and not self.is_full:
                    self._steps += 1
                    if self._steps % _STEPS == 0:
                        yield
                    gunzip = self._layers[layer]
                    if gunzip is None or gunzip.eof:
                        if gunzip and part[0] != _GZIP_MAGIC:  # padding: ignored
                            return
                        gunzip = self._layers[layer] = zlib.decompressobj(_GZIP)
                    data = gunzip.decompress(part, _STEP)
                    part = gunzip.unused_data or gunzip.unconsumed_tail
                    has_more = len(data) == _STEP and not gunzip.eof
                    yield from self._feed(data, layer + 1)
        except zlib.error:
            self._reply.problem = "is not compressed as its content-encoding says"

    @property
    def is_full(self) -> bool:
        return len(self._body) > self._limit

    def finish(self) -> None:
        reply = self._reply
        if self.is_full:
            reply.problem = f"is larger than max_reply_bytes ({self._limit})"
            del self._body[self._limit :]
        elif any(gunzip and not gunzip.eof for gunzip in self._layers):
            reply.problem = reply.problem or "ends in the middle of its compression"
        reply.body = bytes(self._body)


def decode(
    reply: RawReply, operation: Operation[Any], into: Any, parse_float: ParseFloat | None
) -> Any:
    # Interface: Endpoints
    essence, charset = media_type(reply.index.get(b"content-type", b""))
    is_usual = reply.body.startswith(_JSON_STARTS) and 0 not in reply.body[:4]  # and no web page
    if not is_usual and is_web_page(essence, reply.body):
        raise ContentError("is a web page: a proxy or a portal answered, not the gateway")
    wanted = operation.reply if into is None else into
    if wanted is None:
        return None
    _check_body(reply, charset, parse_float)
    if wanted is Any:
        if is_usual and essence == JSON and charset is None:
            return decode_json(reply.body, parse_float)
        return _decode_unspecified(reply.body, essence, charset, parse_float)
    is_none = into is not None and is_empty(reply.body)  # as without a type
    data = b"null" if is_none else utf8_json(reply.body, charset)
    # On the wire only the interface's names count; Python's are for those who make records.
    has_records = wanted is LIST_COUNTRIES.reply
    names = _NAMES_ON_THE_WIRE if has_records else {}
    try:
        value = _validated(_adapter(wanted), data, parse_float, names)
    except ContentError:
        raise
    except ValidationError as error:
        if error.errors(include_input=False)[0]["type"] == "json_invalid":
            decode_json(data, None)  # raises, unless it is about a text within the JSON
        raise
    except Exception as error:  # noqa: BLE001 - a validator of the user may raise anything
        kind = type(error).__name__
        raise ContentError(f"cannot be validated: a validator of the type raised {kind}") from None
    # pydantic accepts odd numbers where a type is open: in records that is an unknown field.
    is_open = not has_records or any(record.model_extra for record in value)
    if is_open and _may_be_odd(data):
        decode_json(data, None)
    return value


def _check_body(reply: RawReply, charset: str | None, parse_float: ParseFloat | None) -> None:
    if reply.problem is not None:
        raise ContentError(reply.problem)
    if reply.doubt and not is_empty(reply.body):
        try:
            decode_json(utf8_json(reply.body, charset), parse_float)
        except ContentError:
            raise ContentError(reply.doubt) from None


def _validated(
    adapter: TypeAdapter[Any], data: bytes, parse_float: ParseFloat | None, names: dict[str, Any]
) -> Any:
    if parse_float is None or not (b"." in data or b"e" in data or b"E" in data):
        return adapter.validate_json(data, **names)
    from gateway_sdk._http.exact import Numbers, validate_exact  # noqa: PLC0415 - few need it

    numbers = Numbers(parse_float)
    decode_json(data, numbers)
    return validate_exact(adapter, data, numbers, names)


def is_empty(body: bytes) -> bool:
    return body.strip() in _EMPTY


def is_web_page(essence: str, body: bytes) -> bool:
    """Tell whether a body is a web page, which a proxy or a portal sends in place of a gateway."""
    # An empty body that is labelled as HTML is what frameworks send by default.
    start = body[:_LONGEST_START].translate(None, _OF_UNICODE).lstrip().lower()
    return start.startswith(_PAGE_STARTS) or (essence in HTML and start.startswith(b"<"))


def _decode_unspecified(
    body: bytes, essence: str, charset: str | None, parse_float: ParseFloat | None
) -> Any:
    """Decode a body that the interface leaves open: JSON, else what its Content-Type declares."""
    # Interface: Endpoints. Everything is JSON unless stated, whatever a framework labels it as.
    if is_empty(body):
        return None
    try:
        return decode_json(utf8_json(body, charset), parse_float)
    except ContentError:
        if essence == JSON or essence.endswith("+json"):  # RFC 8259, 11; RFC 6839, 3.1
            raise
    return decode_text(body, charset) if essence.startswith("text/") else body


@lru_cache(maxsize=64)  # a gateway uses very few
def media_type(content_type: bytes) -> tuple[str, str | None]:
    """Split a Content-Type into the type in lower case and the charset, if it declares one."""
    first = content_type.decode("latin-1").partition(",")[0]
    essence, _, parameters = first.partition(";")
    charset = _CHARSET.search(parameters)
    return essence.strip().lower(), charset[1] if charset else None


def decode_text(body: bytes, charset: str | None) -> str:
    try:
        codec = codecs.lookup(charset or "utf-8").name
        if codec not in _SLOW_CHARSETS:
            return body.decode(codec).removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    except LookupError:
        pass
    except ValueError:  # the cause would show the body
        raise ContentError("is not in the charset that it declares") from None
    raise _UnknownCharsetError("is in a charset that is unknown")


def utf8_json(body: bytes, charset: str | None) -> bytes:
    """Return JSON of any Unicode encoding as UTF-8 without a byte order mark."""
    charset = charset or json.detect_encoding(body)
    if charset.lower() in ("utf-8", "utf8", "utf-8-sig"):
        return body.removeprefix(codecs.BOM_UTF8)
    try:
        return decode_text(body, charset).encode("utf-8", "surrogatepass")
    except _UnknownCharsetError:  # such as utf8mb4; for JSON it means nothing: RFC 8259, 11
        return utf8_json(body, None)


def json_of(reply: RawReply) -> str:
    """Return the JSON of a reply that was decoded."""
    _, charset = media_type(reply.index.get(b"content-type", b""))
    return utf8_json(reply.body, charset).decode()


def decode_json(data: bytes, parse_float: ParseFloat | None) -> Any:
    # It refuses NaN, Infinity, numbers that would become infinite, more than 200 levels, integers
    # of more than 4300 digits, and lone surrogates: such values cannot be written as JSON again,
    # or cause errors later.
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        # The parser names what it expected and the place, nothing of the body.
        raise ContentError(f"is not JSON: {str(error)[:_LONGEST_REASON]}") from None
    if parse_float is not None:
        # The strict decoder has accepted it, so the standard one does; only that one has a hook
        # for floats.
        return _loads(data, parse_float)
    if may_exceed_floats(data):  # few do, and the rest takes two thirds of the decoding time
        text = to_json(value, inf_nan_mode="constants")
        if text.find(b"Infinity") >= 0 and text != to_json(value, inf_nan_mode="null"):
            raise ContentError(_ODD_NUMBER)
    return value


# `in` with bytes on both sides raises and clears a TypeError inside CPython: `find` is faster.


def _may_be_odd(data: bytes) -> bool:
    return data.find(b"NaN") >= 0 or data.find(b"Infinity") >= 0 or may_exceed_floats(data)


def may_exceed_floats(data: bytes) -> bool:
    """Tell whether JSON may hold a number like 1e999, which would silently become infinite."""
    # It may take a text such as a UUID for a number. It is four times as fast as a regular
    # expression. With one digit in the exponent a number needs 300 others before the point.
    shape = data.translate(_SHAPE)
    return shape.find(b"e00") >= 0 or shape.find(_DIGITS_300) >= 0


def _loads(data: bytes, parse_float: ParseFloat) -> Any:
    try:
        return json.loads(data, parse_float=parse_float)
    except Exception:  # noqa: BLE001 - whatever it is: the gateway did its part, and that counts
        raise ContentError(_ODD_NUMBER) from None


def check_type(into: Any) -> None:
    try:
        _adapter(into).rebuild(raise_errors=True)  # raises for undefined names
    except Exception as error:  # a text is evaluated, so anything may be raised
        problem = "must be a type that pydantic can validate"
        # As for a TypedDict before Python 3.12: its words name types, and no values.
        told = f": {error.message}" if isinstance(error, PydanticUserError) else ""
        raise InvalidArgumentError(f"{problem}{told}", field="into") from error


def _adapter(wanted: Any) -> TypeAdapter[Any]:
    # Unions are equal in any order, and pydantic prefers the first member that fits.
    order = "" if isinstance(wanted, type) else repr(wanted)
    try:
        return _kept_adapter(wanted, order)
    except TypeError:  # not hashable, such as Annotated with a list
        return TypeAdapter(wanted)


@lru_cache(maxsize=256)
def _kept_adapter(wanted: Any, order: str) -> TypeAdapter[Any]:
    del order
    return TypeAdapter(wanted)
