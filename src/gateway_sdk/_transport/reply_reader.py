"""Reads a reply of HTTP/1.1 (RFC 9112) with httptools.

httptools uses Node's parser, in C. What that leaves to its user is done here: limits, the end of
the connection, transfer codings, replies without a body, and bytes after a reply. An ambiguous
reply is an error.
"""

import re
from typing import Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

LONGEST_HEAD: Final = 100 * 1024
"""The limit of consecutive bytes that are not body: the head with all interim replies before it, a
line between two chunks, the trailers."""
MOST_FIELDS: Final = 1000

_FIRST: Final = 100
_FINAL: Final = 200
_SWITCHING: Final = 101
_NO_BODY: Final = frozenset({204, 304})
_VERSIONS: Final = ("1.1", "1.0")

_HEAD_END: Final = b"\r\n\r\n"
# What a user agent has to read, and the parser refuses: folded fields (RFC 9112, 5.2), one length
# several times (6.3), and heads behind an interim reply with `Connection: close` (9.6).
_UNUSUAL: Final = re.compile(rb"(?i)\s*HTTP/1(?:\.. 1|.*?\r\n(?:[ \t]|content-length:))", re.DOTALL)
_FOLD: Final = re.compile(rb"[ \t]*\r\n[ \t]+")
_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length:([^\r\n]*)(?=\r\n)")
HTTP_2_ONLY: Final = "it speaks HTTP/2 only"
# SETTINGS or GOAWAY, with which HTTP/2 begins (RFC 9113, 3.4, 4.1).
_HTTP_2: Final = re.compile(rb"...[\x04\x07].\0\0\0\0", re.DOTALL)


class ReplyReader:
    __slots__ = (
        "_closes",
        "_head",
        "_is_sized",
        "_keeps_alive",
        "_number",
        "_overhead",
        "_parser",
        "_pieces",
        "_reads_by_head",
        "_size",
        "buffered",
        "failure",
        "fields",
        "has_excess",
        "is_whole",
        "status",
    )

    def __init__(self) -> None:
        self.status = 0  # until the head has arrived
        self.fields: list[tuple[bytes, bytes]] = []  # as they were sent, without trailers
        self.buffered = 0  # bytes of the body that `take` would return
        self.is_whole = False
        self.failure: str | None = None  # why the rest of it cannot be read
        self.has_excess = False  # whether bytes came after it
        self._pieces: list[bytes] = []
        # The parser refers to this object (a cycle), so it is dropped when the reply has ended.
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._is_sized = self._keeps_alive = self._closes = self._reads_by_head = False
        self._overhead = self._number = self._size = 0
        self._head = b""  # what has come of a head that is not complete

    @property
    def is_over(self) -> bool:
        """Whether nothing more can be read."""
        return self.is_whole or self.failure is not None

    @property
    def can_be_reused(self) -> bool:
        """Whether the connection may serve another request, and no bytes came after this reply."""
        return self.is_whole and self._keeps_alive and not self.has_excess

    def receive(self, data: bytes) -> None:
        if self._parser is None:
            self.has_excess = self.has_excess or bool(data)
            return
        self._overhead += len(data)
        if self._reads_by_head:
            self._receive_by_head(data)
        else:
            self._feed(data)
        if self._overhead > LONGEST_HEAD:
            self._fail("its reply has a head or a line without end")
        if self.is_over:
            self._parser = None

    def _feed(self, data: bytes) -> None:
        try:
            cast("HttpResponseParser", self._parser).feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            begun = self._head + data
            if self.status or self.failure or not _UNUSUAL.match(begun):
                self.has_excess = True
                self._fail(_reason(error, begun))
                return
            self._head, self.fields, self._number, self._size = b"", [], 0, 0
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
        while not (self.status or self.is_over) and _HEAD_END in self._head:
            head, end, rest = self._head.partition(_HEAD_END)
            self._parser = HttpResponseParser(self)
            try:
                self._parser.feed_data(_usual(head + end))
            except (HttpParserError, HttpParserUpgrade) as error:
                self.has_excess = True
                self._fail(_reason(error, head))
            self._head = rest
        if self.status and not self.is_over:
            self._reads_by_head, rest, self._head = False, self._head, b""
            self._overhead = len(rest)
            self._feed(rest)
        elif self.is_whole and self._head:
            self.has_excess = True

    def receive_end(self, *, cleanly: bool) -> None:
        """Note the end of the connection; a clean one also ends a reply without a length."""
        self._keeps_alive = False
        if self.status and not self._is_sized and cleanly and not self.is_over:
            self.is_whole = True
        self._fail("it closed the connection")
        self._parser = None

    def take(self) -> bytes:
        """Return the received bytes of the body that were not taken yet."""
        pieces, self._pieces, self.buffered = self._pieces, [], 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _fail(self, why: str) -> None:
        if not self.is_over:
            self.failure = why

    # Called by the parser. What it reads after an error or after the reply is ignored.

    def on_message_begin(self) -> None:
        """Note a reply: this one, an interim one before it, or one that was not asked for."""
        self.has_excess = self.is_whole

    def on_status(self, reason: bytes) -> None:
        """Count the reason phrase, which may come in one piece with the rest."""
        self._size += len(reason)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._number += 1
        self._size += len(name) + len(value) + 4
        if self._number > MOST_FIELDS or self._size > LONGEST_HEAD:
            self._fail("its reply has too many header fields, or too long ones")
        elif not self.status:
            self.fields.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        parser = self._parser
        if parser is None or self.is_over or self.status:
            return
        status, version = parser.get_status_code(), parser.get_http_version()
        if status == _SWITCHING:
            self._fail("it switched to another protocol (101)")
        elif status < _FIRST or version not in _VERSIONS:
            self._fail("its reply is not HTTP/1.1 (another version)")
        elif status < _FINAL:
            self.fields = []
        else:
            self._begin(status, version)

    def _begin(self, status: int, version: str) -> None:
        codings: list[bytes] = []
        for name, value in self.fields:
            match name.lower():
                case b"content-length":
                    self._is_sized = True
                case b"transfer-encoding":
                    codings.append(value.lower())
                case _:
                    pass
        if codings:
            self._is_sized = True
            if codings != [b"chunked"]:
                self._fail("its reply has a transfer coding that was not asked for")
                return
            # In HTTP/1.0 the framing cannot be trusted: the connection ends (RFC 9112, 6.1).
            self._closes = self._closes or version == "1.0"
        self.status, self._overhead = status, 0  # however the head came: its fields were counted
        parser = cast("HttpResponseParser", self._parser)
        self._keeps_alive = parser.should_keep_alive() and not self._closes
        self.is_whole = status in _NO_BODY

    def on_body(self, piece: bytes) -> None:
        if self.is_over:
            self.has_excess = True
            return
        self._pieces.append(piece)
        self.buffered += len(piece)
        self._overhead = 0

    def on_message_complete(self) -> None:
        parser = self._parser
        if parser is None or self.is_over:
            return
        if self.status:
            self.is_whole = True
            return
        # An interim one. Its `Connection: close` means that the connection ends after the final
        # reply (RFC 9112, 9.6); the parser refuses what follows.
        self._closes = self._closes or not parser.should_keep_alive()


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


def _reason(error: Exception, data: bytes) -> str:
    """Say why bytes cannot be read; the parser's texts hold nothing of the reply."""
    if _HTTP_2.match(data):
        return HTTP_2_ONLY
    if not data.lstrip().startswith(b"HTTP/"):
        return "it sent bytes that are no HTTP"
    return f"its reply is not HTTP/1.1 ({error})"
