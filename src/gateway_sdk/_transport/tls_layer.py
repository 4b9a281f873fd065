"""TLS of a client, without I/O: what is sent and received goes in and comes out as bytes."""

import ssl
from contextlib import suppress
from typing import Final

_RECORD_HEADER: Final = 5
"""Bytes before the content of a record; the last two are its length (RFC 8446, 5.1)."""


class TlsLayer:
    """Encrypts what a client sends, and decrypts what it receives."""

    # asyncio's own TLS drops data that arrives in one packet with a broken record, and does not
    # say whether the server ended TLS with a close_notify.

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        name = host.removesuffix(".")  # as in certificates and SNI (RFC 6066, 3)
        self.ssl_object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        self.is_ended = False
        self.failure: ssl.SSLError | None = None
        # It waits for the end of another handshake, which a server may start at any time before
        # TLS 1.3 (RFC 5246, 7.4.1.1).
        self.unsent = b""
        self._header = b""  # the beginning of one
        self._missing = 0  # bytes of a record whose header has come

    @property
    def is_in_record(self) -> bool:
        """Whether a record has begun to come, and nothing in it can be decrypted yet."""
        return bool(self._header or self._missing)

    def shake_hands(self, data: bytes) -> bool:
        self._receive(data)
        try:
            self.ssl_object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def _receive(self, data: bytes) -> None:
        self._incoming.write(data)
        data, end = self._header + data, self._missing  # where a record ends
        while end + _RECORD_HEADER <= len(data):
            end += _RECORD_HEADER + int.from_bytes(data[end + 3 : end + _RECORD_HEADER], "big")
        self._header, self._missing = data[end:], max(0, end - len(data))

    def encrypt(self, data: bytes) -> None:
        """Put what is to be sent for these data into `pending`, or what must wait into `unsent`."""
        self.unsent += data
        with suppress(ssl.SSLWantReadError):
            self.ssl_object.write(self.unsent)
            self.unsent = b""

    def decrypt(self, data: bytes) -> bytes:
        self._receive(data)
        chunks: list[bytes] = []
        try:
            while chunk := self.ssl_object.read(2**18):
                chunks.append(chunk)
            self.is_ended = True
        except ssl.SSLWantReadError:
            if self.unsent:
                self.encrypt(b"")
        except ssl.SSLError as error:
            self.failure = error
        return b"".join(chunks)

    def pending(self) -> bytes:
        """Return the bytes that TLS has to send."""
        return self._outgoing.read()
