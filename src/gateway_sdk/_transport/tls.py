"""TLS of a client, without I/O but for its files: certificates and authorities on the disk."""

import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import httpx

from gateway_sdk._transport.settings import EngineConfig
from gateway_sdk.errors import ConfigurationError

_RECORD_HEADER: Final = 5
"""Bytes before the content of a record; the last two are its length (RFC 8446, 5.1)."""


def stamp_of(config: EngineConfig) -> object:
    """Return what is equal as long as the files for TLS are the same."""
    cert = config.cert if isinstance(config.cert, tuple) else (config.cert,)
    paths: list[object] = [*cert[:2], config.verify]  # without the password
    if config.verify is True and config.trust_env:
        folders = os.environ.get("SSL_CERT_DIR", "").split(os.pathsep)
        paths += [os.environ.get("SSL_CERT_FILE"), *folders]
    return [_state_of(path) for path in paths if isinstance(path, str | Path) and path]


def _state_of(path: str | Path) -> object:
    with suppress(OSError, ValueError):
        found = Path(path).stat()  # of what a link leads to: Kubernetes changes the link
        return found.st_mtime_ns, found.st_size, found.st_ino
    return None


def ssl_context(config: EngineConfig) -> ssl.SSLContext:
    context = authorities(config)
    if config.cert is not None:
        parts = config.cert if isinstance(config.cert, tuple) else (config.cert,)
        certificate, key, password, *_ = (*map(str, parts), None, None)
        try:
            # Without any password OpenSSL would ask for one at the terminal, and wait.
            context.load_cert_chain(str(certificate), key, password or "")
        except (OSError, ValueError):
            # Without the cause, whose text may hold the path of a key, or part of its password.
            raise ConfigurationError("cert names no readable certificate and key") from None
    context.set_alpn_protocols(["http/1.1"])
    return context


def authorities(config: EngineConfig) -> ssl.SSLContext:
    if isinstance(config.verify, ssl.SSLContext):
        return config.verify
    file = folders = None
    if config.verify is True:  # OpenSSL documents these; the second may name several folders
        of_file, of_folder = "SSL_CERT_FILE", "SSL_CERT_DIR"
        environment: Mapping[str, str] = os.environ if config.trust_env else {}
        file, folders = environment.get(of_file), environment.get(of_folder)
    else:
        of_file = of_folder = "verify"
        file = str(config.verify) or os.devnull  # Path("") is the working folder
        if Path(file).is_dir():
            file, folders = None, file
    if folders and not all(Path(it).is_dir() for it in folders.split(os.pathsep) if it):
        raise ConfigurationError("names a folder that does not exist", setting=of_folder)
    try:
        if not (file or folders):
            return httpx.create_ssl_context(trust_env=False)
        return ssl.create_default_context(cafile=file or None, capath=folders or None)
    except (OSError, ValueError) as error:  # an ssl.SSLError is an OSError
        log = os.environ.get("SSLKEYLOGFILE")  # which Python opens
        if log and getattr(error, "filename", None) == log:
            problem, of_file = "names a file that cannot be written", "SSLKEYLOGFILE"
        else:
            problem = "names no readable CA file"
        raise ConfigurationError(problem, setting=of_file) from error


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
