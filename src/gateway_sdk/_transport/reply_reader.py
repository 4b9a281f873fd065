"""Reads a reply of HTTP/1.1 (RFC 9112) with httptools.

httptools uses Node's parser, in C. What that leaves to its user is done here: limits, the end of
the connection, transfer codings, replies without a body, and bytes after a reply. An ambiguous
reply is an error.
"""

import re
from typing import Any, Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from gateway_sdk._http.reply import RawReply, index_of
from gateway_sdk._http.request import RawHeaders
from gateway_sdk._transport.transmission import HTTP_2_ONLY

LONGEST_HEAD: Final = 100 * 1024
"""The limit of consecutive bytes that are not body: the head with all interim replies before it, a
line between two chunks, the trailers."""
MOST_FIELDS: Final = 1000

_FIRST: Final = 100
_FINAL: Final = 200
_SWITCHING: Final = 101
_NO_BODY: Final = frozenset({204, 304})
_VERSIONS: Final = ("1.1", "1.0")
_LENGTHS: Final = frozenset({b"content-length", b"transfer-encoding"})

_NO_END: Final = "its reply has a head or a line without end"
_USUAL_START: Final = b"HTTP/1.1 2"  # a final reply
_HEAD_END: Final = b"\r\n\r\n"
# What a user agent has to read, and the parser refuses: folded fields (RFC 9112, 5.2), one length
# several times (6.3), and heads behind an interim reply with `Connection: close` (9.6).
_UNUSUAL: Final = re.compile(rb"(?i)\s*HTTP/1(?:\.. 1|.*?\r\n(?:[ \t]|content-length:))", re.DOTALL)
_FOLD: Final = re.compile(rb"[ \t]*\r\n[ \t]+")
_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length:([^\r\n]*)(?=\r\n)")
# SETTINGS or GOAWAY, with which HTTP/2 begins (RFC 9113, 3.4, 4.1).
_HTTP_2: Final = re.compile(rb"...[\x04\x07].\0\0\0\0", re.DOTALL)


class ReplyReader(RawReply):
    # Its body is what `take` has returned.

    fields: RawHeaders
    has_no_body = False  # whatever its length says: it is the reply to HEAD

    def __init__(self) -> None:
        RawReply.__init__(self, 0, [], {})  # until the head has arrived
        self.buffered = 0  # bytes of the body that `take` would return
        self.is_whole = False
        self.failure: str | None = None  # why the rest of it cannot be read
        self.has_excess = False  # whether bytes came after it
        self._chunks: list[bytes] = []
        # None when nothing more can be read: it refers to this object (a cycle).
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._is_usual = self._reads_by_head = False
        self._closes = False  # whether the connection ends after it
        self._overhead = 0
        self._head = b""  # what has come of a head that is not complete

    def be_lenient(self) -> None:
        """Read what is ambiguous too: the reply to CONNECT has no body, and no other follows it."""
        parser: Any = self._parser
        parser.set_dangerous_leniencies(
            lenient_chunked_length=True, lenient_optional_cr_before_lf=True
        )

    def can_be_reused(self) -> bool:
        """Whether the connection may serve another request, and no bytes came after this reply."""
        return self.is_whole and not (self._closes or self.has_excess)

    def receive(self, data: bytes) -> None:
        if self._parser is None:
            self.has_excess |= bool(data)
            return
        if not self.status and len(data) > (room := LONGEST_HEAD - self._overhead):
            self.receive(data[:room])
            if not self.status:
                self._fail(_NO_END)
            self.receive(data[room:])
            return
        self._is_usual = not self._overhead and data.startswith(_USUAL_START)
        self._overhead += len(data)
        if self._reads_by_head:
            self._receive_by_head(data)
        else:
            self._feed(data)
        if self._overhead > LONGEST_HEAD:
            self._fail(_NO_END)

    def _feed(self, data: bytes) -> None:
        parser: Any = self._parser
        try:
            parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            begun = self._head + data
            if self.status or self.failure or not _UNUSUAL.match(begun):
                self.has_excess = True
                self._fail(_reason(error, b"" if self.status else begun))
                return
            self._head, self.fields = b"", []
            self._reads_by_head = True
            self._receive_by_head(begun)
        else:
            if not self.status:
                self._head += data

    def _receive_by_head(self, data: bytes) -> None:
        """Read each head when it is complete, in its usual form, with a parser of its own."""
        self._head += data
        if _HEAD_END not in self._head[-len(data) - 3 :]:
            return
        while not (self.status or self.failure) and _HEAD_END in self._head:
            head, end, rest = self._head.partition(_HEAD_END)
            self._parser = HttpResponseParser(self)
            try:
                self._parser.feed_data(_usual(head + end))
            except (HttpParserError, HttpParserUpgrade) as error:
                self.has_excess = True
                self._fail(_reason(error, head))
            self._head = rest
        if self.status:
            self._reads_by_head, rest, self._head = False, self._head, b""
            self.receive(rest)

    def receive_end(self, *, cleanly: bool) -> None:
        """Note the end of the connection; a clean one also ends a reply without a length."""
        self._closes = True
        if self.status and cleanly and self._parser and not _LENGTHS & self.index.keys():
            self.is_whole, self._parser = True, None
        self._fail("it closed the connection")

    def take(self) -> bytes:
        """Return the received bytes of the body that were not taken yet."""
        chunks, self._chunks, self.buffered = self._chunks, [], 0
        return b"".join(chunks)

    def _fail(self, why: str) -> None:
        if self._parser is not None:
            self.failure, self._parser = why, None

    # Called by the parser. What it reads after an error or after the reply is ignored.

    def on_message_begin(self) -> None:
        """Note a reply: this one, an interim one before it, or one that was not asked for."""
        self.has_excess = self.is_whole

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:  # else it is a trailer
            self.fields.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        parser = self._parser
        if parser is None or self.status:
            return
        status = parser.get_status_code()
        # The parser writes the version as a text, which takes as long as all the rest here.
        version = "1.1" if self._is_usual else parser.get_http_version()
        if len(self.fields) > MOST_FIELDS:
            self._fail("its reply has too many header fields")
        elif status == _SWITCHING:
            self._fail("it switched to another protocol (101)")
        elif status < _FIRST or version not in _VERSIONS:
            self._fail("its reply is not HTTP/1.1 (another version)")
        elif status < _FINAL:
            self.fields = []
        else:
            self._begin(status, version, parser)

    def _begin(self, status: int, version: str, parser: HttpResponseParser) -> None:
        self.index = index_of(self.fields)
        coding = self.index.get(b"transfer-encoding")
        if coding is not None and coding.lower() != b"chunked":
            self._fail("its reply has a transfer coding that was not asked for")
            return
        self.status, self._overhead = status, 0  # however the head came: its fields were counted
        # In HTTP/1.0 the framing cannot be trusted: the connection ends (RFC 9112, 6.1).
        is_safe = coding is None or version == "1.1"
        self._closes = self._closes or not (is_safe and parser.should_keep_alive())
        if self.has_no_body or status in _NO_BODY:
            self.is_whole, self._parser = True, None

    def on_body(self, chunk: bytes) -> None:
        if self._parser is None:
            self.has_excess = True
            return
        self._chunks.append(chunk)
        self.buffered += len(chunk)
        self._overhead = 0

    def on_message_complete(self) -> None:
        if self._parser is None:
            return
        if self.status:
            self.is_whole, self._parser = True, None
            return
        # An interim one. Its `Connection: close` means that the connection ends after the final
        # reply (RFC 9112, 9.6); the parser refuses what follows.
        self._closes = self._closes or not self._parser.should_keep_alive()


def _usual(head: bytes) -> bytes:
    """Return a head without folds, and with its length once."""
    line, end, fields = head.partition(b"\r\n")
    if not fields.startswith((b" ", b"\t")):  # that would be a part of no field
        head = line + end + _FOLD.sub(b" ", fields)
    lengths = [one.strip(b" \t") for found in _LENGTH.findall(head) for one in found.split(b",")]
    if len(lengths) > 1 and len(set(lengths)) == 1:
        line, _, fields = _LENGTH.sub(b"", head).partition(b"\r\n")
        head = b"%b\r\nContent-Length: %b\r\n%b" % (line, lengths[0], fields)
    return head


def _reason(error: Exception, head: bytes) -> str:
    """Say why bytes cannot be read; the parser's texts hold nothing of the reply."""
    if _HTTP_2.match(head):
        return HTTP_2_ONLY
    if head and not head.lstrip().startswith(b"HTTP/"):
        return "it sent bytes that are no HTTP"
    return f"its reply is not HTTP/1.1 ({error})"
