"""Reads a reply of HTTP/1.1 (RFC 9112).

Each head is read by httptools (Node's parser, in C) when it is complete, and nothing else is given
to it: where a head, a body or a chunk ends is decided here alone. An ambiguous reply is an error.
"""

import re
from typing import Any, Final

from httptools import HttpParserError, HttpResponseParser

from gateway_sdk._http.reply import RawReply, index_of
from gateway_sdk._http.request import RawHeaders
from gateway_sdk._transport.transmission import HTTP_2_ONLY

LONGEST_HEAD: Final = 100 * 1024
"""The limit of the head with all interim replies before it, and of the trailers, in bytes."""
MOST_FIELDS: Final = 1000
_LONGEST_LINE: Final = 2**14  # before a chunk; it is read again when more of it comes

_FIRST: Final = 100
_FINAL: Final = 200
_NO_BODY: Final = frozenset({204, 304})

_NO_END: Final = "its reply has a head or a line without end"
_PROTOCOL: Final = b"HTTP/"
_HTTP_1_1: Final = b"HTTP/1.1 "
_HTTP_1_0: Final = b"HTTP/1.0 "
_LINE_END: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"
# The parser refuses it, but for the reply to CONNECT; and it must not be waited for in vain.
_ANY_HEAD_END: Final = re.compile(rb"\n\r?\n")
# What a user agent has to read, and the parser refuses: folded fields (RFC 9112, 5.2), one length
# several times (6.3), a tab behind a length (RFC 9110, 5.6.3), and a framing in an interim reply,
# which has no body (15.2).
_FOLD: Final = re.compile(rb"[ \t]*\r\n[ \t]+")
_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length:([^\r\n]*)(?=\r\n)")
_FRAMING: Final = re.compile(rb"(?i)\r\n(?:content-length|transfer-encoding):[^\r\n]*(?=\r\n)")
_INTERIM: Final = re.compile(rb"HTTP/1\.. 1")
# The line before a chunk, behind the end of another line (RFC 9112, 7.1), or how one begins.
_CHUNK: Final = re.compile(
    rb"\r(?:\n(?:([0-9A-Fa-f]{1,16})[ \t]*(?:;[\t -~\x80-\xff]*)?(?:\r(\n)?)?)?)?"
)
# SETTINGS or GOAWAY, with which HTTP/2 begins (RFC 9113, 3.4, 4.1).
_HTTP_2: Final = re.compile(rb"...[\x04\x07].\0\0\0\0", re.DOTALL)


class ReplyReader(RawReply):
    # Its body is what `take` has returned.

    fields: RawHeaders
    has_no_body = False  # whatever its length says: it is the reply to HEAD
    is_lenient = False
    """Whether it is read though it is ambiguous: the reply to CONNECT has no body, and no other
    follows it."""

    def __init__(self) -> None:
        RawReply.__init__(self, 0, [], {})  # until the head has arrived
        self.buffered = 0  # bytes of the body that `take` would return
        self.is_whole = False
        self.failure: str | None = None  # why the rest of it cannot be read
        self.has_excess = False  # whether bytes came after it
        self._chunks: list[bytes] = []
        self._closes = False  # whether the connection ends after it
        self._begun = b""  # what has come of a head, a line or trailers that are not complete
        self._overhead = 0  # bytes of the heads so far
        self._is_chunked = self._is_in_trailers = False
        self._left: int | None = None  # bytes of the body or of a chunk; None: until the end

    def can_be_reused(self) -> bool:
        """Whether the connection may serve another request, and no bytes came after this reply."""
        return self.is_whole and not (self._closes or self.has_excess)

    def receive(self, data: bytes) -> None:
        if not (self.is_whole or self.failure):
            if not self.status:
                data = self._read_heads(data)
            if data and self.status and not self.is_whole:
                data = self._read_chunks(data) if self._is_chunked else self._read_body(data)
        if data:
            self.has_excess = True

    def receive_end(self, *, cleanly: bool) -> None:
        """Note the end of the connection; a clean one also ends a reply without a length."""
        self._closes = True
        if self.status and cleanly and self._left is None:
            self.is_whole = True
        self._fail("it closed the connection")

    def take(self) -> bytes:
        """Return the received bytes of the body that were not taken yet."""
        chunks, self._chunks, self.buffered = self._chunks, [], 0
        return b"".join(chunks)

    def _fail(self, why: str) -> None:
        if not (self.is_whole or self.failure):
            self.failure = why

    # Each of these takes bytes, and returns those that are behind what it reads.

    def _read_heads(self, data: bytes) -> bytes:
        """Read interim replies, which end with their heads, and the head of the final one."""
        while not (self.status or self.failure):
            if not (self._begun or data.startswith(_HTTP_1_1)):
                self._overhead += len(data) - len(data := data.lstrip(_LINE_END))
            head, data = self._cut(data)
            if head:
                self._read_head(head)
            elif self._begun[: len(_PROTOCOL)] == _PROTOCOL[: len(self._begun)]:
                break
            else:
                self._fail(_reason(self._begun))
        return data

    def _read_body(self, data: bytes) -> bytes:
        chunk = data[: self._left]
        self._add(chunk)
        self.is_whole = self._left == 0
        return data[len(chunk) :]

    def _read_chunks(self, data: bytes) -> bytes:
        if self._is_in_trailers:
            return self._read_trailers(data)
        data, place = self._begun + data, 0
        self._begun = b""
        while place < len(data):
            if self._left:
                chunk = data[place : place + self._left]
                self._add(chunk)
                place += len(chunk)
                continue
            line = _CHUNK.match(data, place)
            if line is None or not (line[2] or line.end() == len(data)):
                self._fail("its reply is not HTTP/1.1 (a chunk has no size)")
                break
            if line.end() - place > _LONGEST_LINE:
                self._fail(_NO_END)
                break
            if not line[2]:
                self._begun = data[place:]
                break
            place, self._left = line.end(), int(line[1], 16)
            if not self._left:
                self._is_in_trailers = True
                return self._read_trailers(data[place - len(_LINE_END) :])
        return b""

    def _read_trailers(self, data: bytes) -> bytes:
        trailers, data = self._cut(data)
        if trailers:
            try:
                if trailers != _HEAD_END:
                    _parsed(b"HTTP/1.1 200 -" + trailers)
                self.is_whole = True
            except HttpParserError as error:
                self._fail(_reason(_PROTOCOL, error))
        return data

    def _cut(self, data: bytes) -> tuple[bytes, bytes]:
        """Return a head or trailers up to their empty line, if that has come, and the rest."""
        start, data = max(0, len(self._begun) - len(_HEAD_END)), self._begun + data
        end = -1 if self.is_lenient else data.find(_HEAD_END, start)
        if end >= 0:
            end += len(_HEAD_END)
        else:
            found = _ANY_HEAD_END.search(data, start)
            end = found.end() if found else 0
        if self._overhead + (end or len(data)) > LONGEST_HEAD:
            self._fail(_NO_END)
            return b"", b""
        self._overhead += end
        self._begun = b"" if end else data
        return data[:end], data[end:] if end else b""

    def _read_head(self, head: bytes) -> None:
        is_1_1 = head.startswith(_HTTP_1_1)
        if not (is_1_1 or head.startswith(_HTTP_1_0)):
            self._fail(_reason(head, "another version"))
            return
        if head[len(_HTTP_1_1) :].startswith(b"101"):
            self._fail("it switched to another protocol (101)")
            return
        try:
            status, fields = _parsed(head, is_lenient=self.is_lenient)
        except HttpParserError as error:
            self._fail(_reason(head, error))
            return
        if len(fields) > MOST_FIELDS:
            self._fail("its reply has too many header fields")
        elif status < _FIRST:
            self._fail("its reply has a status below 100")
        else:
            index = index_of(fields)
            # Also in an interim reply it means the end after the final one (RFC 9112, 9.6).
            if not is_1_1 or b"connection" in index:
                self._closes |= _is_last(index.get(b"connection", b""), is_1_1=is_1_1)
            if status >= _FINAL:
                self.fields, self.index = fields, index
                self._begin(status, is_1_1=is_1_1)

    def _begin(self, status: int, *, is_1_1: bool) -> None:
        coding, length = self.index.get(b"transfer-encoding"), self.index.get(b"content-length")
        if coding is not None:
            if coding.lower() != b"chunked":
                self._fail("its reply has a transfer coding that was not asked for")
                return
            # In HTTP/1.0 the framing cannot be trusted: the connection ends (RFC 9112, 6.1).
            self._is_chunked, self._closes = True, self._closes or not is_1_1
            self._left, self._begun = 0, _LINE_END
        elif length is not None:
            self._left = int(length)
            self.is_whole = not self._left
        self.is_whole = self.is_whole or self.has_no_body or status in _NO_BODY
        self.status, self._overhead = status, 0

    def _add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self.buffered += len(chunk)
        if self._left is not None:
            self._left -= len(chunk)


class _Fields:
    """What the parser calls."""

    def __init__(self) -> None:
        self.all: RawHeaders = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.all.append((name, value.rstrip(b" \t")))


def _parsed(head: bytes, *, is_lenient: bool = False) -> tuple[int, RawHeaders]:
    """Return the status and the fields of a head."""
    try:
        return _by_httptools(head, is_lenient=is_lenient)
    except HttpParserError:
        if (usual := _usual(head)) == head:
            raise
        return _by_httptools(usual, is_lenient=is_lenient)


def _by_httptools(head: bytes, *, is_lenient: bool) -> tuple[int, RawHeaders]:
    fields = _Fields()
    parser: Any = HttpResponseParser(fields)
    if is_lenient:
        parser.set_dangerous_leniencies(
            lenient_chunked_length=True, lenient_optional_cr_before_lf=True
        )
    parser.feed_data(head)
    return parser.get_status_code(), fields.all


def _is_last(connection: bytes, *, is_1_1: bool) -> bool:
    options = {option.strip(b" \t") for option in connection.lower().split(b",")}
    return b"close" in options or not (is_1_1 or b"keep-alive" in options)


def _usual(head: bytes) -> bytes:
    """Return a head without folds, and with its length once; an interim one has no framing."""
    line, end, fields = head.partition(_LINE_END)
    if not fields.startswith((b" ", b"\t")):  # that would be a part of no field
        head = line + end + _FOLD.sub(b" ", fields)
    if _INTERIM.match(head):
        return _FRAMING.sub(b"", head)
    lengths = [one.strip(b" \t") for found in _LENGTH.findall(head) for one in found.split(b",")]
    if len(set(lengths)) == 1 and (first := _LENGTH.search(head)):
        before, rest = head[: first.start()], _LENGTH.sub(b"", head[first.start() :])
        head = b"%b\r\nContent-Length: %b%b" % (before, lengths[0], rest)
    return head


def _reason(begun: bytes, error: object = None) -> str:
    """Say why bytes cannot be read; the parser's texts hold nothing of the reply."""
    if _HTTP_2.match(begun):
        return HTTP_2_ONLY
    if not begun.startswith(_PROTOCOL):
        return "it sent bytes that are no HTTP"
    return f"its reply is not HTTP/1.1 ({error})"
