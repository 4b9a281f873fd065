"""Reads a reply of HTTP/1.1 (RFC 9112).

Each head is read by httptools (Node's parser, in C) when it is complete, and nothing else is given
to it: where a head, a body or a chunk ends is decided here alone. An ambiguous reply is an error.
"""

import re
from typing import Any, Final

from httptools import HttpParserError, HttpResponseParser

from gateway_sdk._http.reply import RawReply, index_of
from gateway_sdk._http.request import RawHeaders
from gateway_sdk._transport.transmission import UnreadableReplyError

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
# The line before a chunk, behind the end of another line (RFC 9112, 7.1), and how one begins.
_CHUNK: Final = re.compile(rb"\r\n([0-9A-Fa-f]{1,16})[ \t]*(?:;[\t -~\x80-\xff]*)?\r\n")
_BEGUN_CHUNK: Final = re.compile(
    rb"\r(?:\n(?:[0-9A-Fa-f]{1,16}[ \t]*(?:;[\t -~\x80-\xff]*)?\r?)?)?"
)
# SETTINGS or GOAWAY, with which HTTP/2 begins (RFC 9113, 3.4, 4.1).
_HTTP_2: Final = re.compile(rb"...[\x04\x07].\0\0\0\0", re.DOTALL)


class ReplyReader(RawReply):
    # Its body is what `take` has returned.

    fields: RawHeaders

    # The parser looks for all of these; one that is missing costs it as much as a short head.
    on_message_begin = on_status = on_headers_complete = on_body = on_message_complete = None
    on_chunk_header = on_chunk_complete = None

    def __init__(self) -> None:
        # Not as attributes of the class, which take Python four times as long to read.
        self.status = 0  # until the head has arrived
        self.fields, self.index = [], {}
        self.has_no_body = False  # whatever its length says: it is the reply to HEAD
        # Whether what is ambiguous is read too: the reply to CONNECT has no body, and no other
        # follows it.
        self.is_lenient = False
        self.buffered = 0  # bytes of the body that `take` would return
        self.is_whole = False
        self.failure: UnreadableReplyError | None = None  # why the rest of it cannot be read
        self.has_excess = False  # whether bytes came after it
        self._fields: RawHeaders = []  # of the head that is read
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

    def _fail(self, why: str, *, is_permanent: bool = False) -> None:
        if not (self.is_whole or self.failure):
            self.failure = UnreadableReplyError(why, is_permanent=is_permanent)

    def _refuse(self, begun: bytes, error: object = None) -> None:
        """Say why bytes cannot be read; the parser's texts hold nothing of the reply."""
        if _HTTP_2.match(begun):
            self._fail("it speaks HTTP/2 only", is_permanent=True)
        elif not begun.startswith(_PROTOCOL):
            self._fail("it sent bytes that are no HTTP")
        else:
            self._fail(f"its reply is not HTTP/1.1 ({error})")

    # Each of these takes bytes, and returns those that are behind what it reads.

    def _read_heads(self, data: bytes) -> bytes:
        """Read interim replies, which end with their heads, and the head of the final one."""
        while not (self.status or self.failure):
            if not self._begun:  # blank lines, perhaps
                self._overhead += len(data) - len(data := data.lstrip(_LINE_END))
            head, data = self._cut(data)
            if self._overhead + len(self._begun) > LONGEST_HEAD:
                self._fail(_NO_END)
            elif head:
                self._read_head(head)
            elif self._begun[: len(_PROTOCOL)] == _PROTOCOL[: len(self._begun)]:
                break
            else:
                self._refuse(self._begun)
        return data

    def _read_body(self, data: bytes) -> bytes:
        left = self._left
        chunk = data if left is None else data[:left]
        self._chunks.append(chunk)
        self.buffered += len(chunk)
        if left is None:
            return b""
        self._left = left = left - len(chunk)
        self.is_whole = not left
        return data[len(chunk) :]

    def _read_chunks(self, data: bytes) -> bytes:
        if self._is_in_trailers:
            return self._read_trailers(data)
        data, place, left = self._begun + data, 0, self._left or 0
        self._begun = b""
        while place < len(data):
            if left:
                chunk = data[place : place + left]
                self._chunks.append(chunk)
                self.buffered += len(chunk)
                place += len(chunk)
                left -= len(chunk)
            elif line := _CHUNK.match(data, place):
                place, left = line.end(), int(line[1], 16)
                if not left:
                    self._is_in_trailers = True
                    return self._read_trailers(data[place - len(_LINE_END) :])
            else:
                self._begin_line(data[place:])
                break
        self._left = left
        return b""

    def _begin_line(self, begun: bytes) -> None:
        if len(begun) > _LONGEST_LINE:
            self._fail(_NO_END)
        elif _BEGUN_CHUNK.fullmatch(begun):
            self._begun = begun
        else:
            self._fail("its reply is not HTTP/1.1 (a chunk has no size)")

    def _read_trailers(self, data: bytes) -> bytes:
        if data == _HEAD_END and not self._begun:
            self.is_whole = True
            return b""
        trailers, data = self._cut(data)
        if self._overhead + len(self._begun) > LONGEST_HEAD:
            self._fail(_NO_END)
        elif trailers:
            try:
                self._parse(b"HTTP/1.1 200 -" + trailers)
                self.is_whole = True
            except HttpParserError as error:
                self._refuse(_PROTOCOL, error)
        return data

    def _cut(self, data: bytes) -> tuple[bytes, bytes]:
        """Return a head or trailers up to their empty line, if that has come, and the rest."""
        start, data = max(0, len(self._begun) - len(_HEAD_END)), self._begun + data
        end = data.find(_HEAD_END, start) + len(_HEAD_END)
        if self.is_lenient or end < len(_HEAD_END):
            found = _ANY_HEAD_END.search(data, start)
            end = found.end() if found else 0
        self._overhead += end
        self._begun = b"" if end else data
        return data[:end], data[end:] if end else b""

    def _read_head(self, head: bytes) -> None:
        is_1_1 = head.startswith(_HTTP_1_1)
        if not (is_1_1 or head.startswith(_HTTP_1_0)):
            self._refuse(head, "another version")
            return
        if head.startswith(b"101", len(_HTTP_1_1)):
            self._fail("it switched to another protocol (101)")
            return
        try:
            status = self._parse(head)
        except HttpParserError as error:
            self._refuse(head, error)
            return
        fields = self._fields
        if len(fields) > MOST_FIELDS:
            self._fail("its reply has too many header fields")
            return
        index = index_of(fields)
        # Also in an interim reply it means the end after the final one (RFC 9112, 9.6).
        if not is_1_1 or b"connection" in index:
            self._closes |= _is_last(index.get(b"connection", b""), is_1_1=is_1_1)
        if status >= _FINAL:
            self.fields, self.index = fields, index
            self._begin(status, is_1_1=is_1_1)
        elif status < _FIRST:
            self._fail("its reply has a status below 100")

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

    def _parse(self, head: bytes, *, is_usual: bool = False) -> int:
        """Read the fields of a head, in its usual form if need be, and return its status."""
        self._fields = []
        parser: Any = HttpResponseParser(self)
        if self.is_lenient:
            parser.set_dangerous_leniencies(
                lenient_chunked_length=True, lenient_optional_cr_before_lf=True
            )
        try:
            parser.feed_data(head)
        except HttpParserError:
            if is_usual:
                raise
            return self._parse(_usual(head), is_usual=True)
        status: int = parser.get_status_code()
        return status

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        self._fields.append((name, value.rstrip(b" \t")))


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
