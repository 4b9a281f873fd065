"""Reads a reply of HTTP/1.1 (RFC 9112) with httptools.

httptools uses Node's parser, in C. What that leaves to its user is done here: limits, the end of
the connection, transfer codings, replies without a body, and bytes after a reply. An ambiguous
reply is an error.
"""

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


class ReplyReader:
    """Reads one reply; the parser calls the methods whose names begin with `on_`.

    Attributes:
        status: 0 until the head has arrived.
        fields: The header fields, as they were sent, without trailers.
        buffered: Bytes of the body that `take` would return.
        is_whole: Whether the whole reply has arrived.
        failure: Why the rest of it cannot be read, or None.
        has_excess: Whether bytes came after it.
    """

    __slots__ = (
        "_closes",
        "_interims",
        "_is_sized",
        "_keeps_alive",
        "_number",
        "_overhead",
        "_parser",
        "_pieces",
        "_seam",
        "_size",
        "buffered",
        "failure",
        "fields",
        "has_excess",
        "is_whole",
        "status",
    )

    def __init__(self) -> None:
        self.status = 0
        self.fields: list[tuple[bytes, bytes]] = []
        self.buffered = 0
        self.is_whole = False
        self.failure: str | None = None
        self._pieces: list[bytes] = []
        # The parser refers to this object (a cycle), so it is dropped when the reply has ended.
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._is_sized = self._keeps_alive = self._closes = self.has_excess = False
        self._overhead = self._number = self._size = self._interims = 0
        self._seam = b""  # the last received bytes: the end of a head may begin in them

    @property
    def is_over(self) -> bool:
        """Whether nothing more can be read."""
        return self.is_whole or self.failure is not None

    @property
    def can_be_reused(self) -> bool:
        """Whether the connection may serve another request, and no bytes came after this reply."""
        return self.is_whole and self._keeps_alive and not self.has_excess

    def receive(self, data: bytes) -> None:
        """Read bytes from the server."""
        parser = self._parser
        if parser is None:
            self.has_excess = self.has_excess or bool(data)
            return
        self._overhead += len(data)
        self._interims = 0
        try:
            parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if parser is not self._parser:
                self.receive(self._behind_interims(data))
                return
            self.has_excess = True
            self._fail(type(error).__name__)
        if not self.status:
            self._seam = (self._seam + data)[-3:]
        if self._overhead > LONGEST_HEAD:
            self._fail("a head or a line without end")
        if self.is_over:
            self._parser = None

    def _behind_interims(self, data: bytes) -> bytes:
        """Return the bytes after the interim replies that ended in these data."""
        data = self._seam + data if self._interims else data
        for _ in range(self._interims):
            data = data.partition(b"\r\n\r\n")[2]
        return data

    def receive_end(self, *, cleanly: bool) -> None:
        """Note the end of the connection, which also ends a reply without a length.

        Args:
            cleanly: Whether the server closed it correctly; if not, bytes may be missing.
        """
        self._keeps_alive = False
        if self.status and not self._is_sized and cleanly and not self.is_over:
            self.is_whole = True
        self._fail("the server hung up")
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

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header field."""
        self._number += 1
        self._size += len(name) + len(value) + 4
        if self._number > MOST_FIELDS or self._size > LONGEST_HEAD:
            self._fail("too many header fields, or too long ones")
        elif not self.status:
            self.fields.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """Check the complete head."""
        parser = self._parser
        if parser is None or self.is_over or self.status:
            return
        status, version = parser.get_status_code(), parser.get_http_version()
        if status == _SWITCHING:
            self._fail("another protocol")
        elif status < _FIRST or version not in _VERSIONS:
            self._fail("no status, or another version")
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
                self._fail("a transfer coding that was not asked for")
                return
            # In HTTP/1.0 the framing cannot be trusted: the connection ends (RFC 9112, 6.1).
            self._closes = self._closes or version == "1.0"
        self.status, self._overhead = status, 0  # however the head came: its fields were counted
        parser = cast("HttpResponseParser", self._parser)
        self._keeps_alive = parser.should_keep_alive() and not self._closes
        self.is_whole = status in _NO_BODY

    def on_body(self, piece: bytes) -> None:
        """Store a part of the body."""
        if self.is_over:
            self.has_excess = True
            return
        self._pieces.append(piece)
        self.buffered += len(piece)
        self._overhead = 0

    def on_message_complete(self) -> None:
        """Note the end of the reply, unless it was an interim one."""
        parser = self._parser
        if parser is None or self.is_over:
            return
        if self.status:
            self.is_whole = True
            return
        self._interims += 1
        if not parser.should_keep_alive():
            self._go_on()

    def _go_on(self) -> None:
        """Read the next head with a new parser: a parser refuses what follows `Connection: close`.

        In an interim reply, the field means that the connection ends after the final reply
        (RFC 9112, 9.6).
        """
        if not self._closes:  # a second one is not allowed: then the parser refuses what follows
            self._closes = True
            self._parser = HttpResponseParser(self)
