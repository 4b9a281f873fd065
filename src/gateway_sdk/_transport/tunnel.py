"""Asking a proxy for a tunnel, over a connection to it: CONNECT or SOCKS5."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Final

import httpx

from gateway_sdk._transport.connection import Connection
from gateway_sdk._transport.proxy import is_socks
from gateway_sdk._transport.reason import place_of

_SUCCESS: Final = range(200, 300)
_NO_LOGIN, _LOGIN = 0, 2
_ADDRESS_SIZES: Final = {1: 4, 4: 16}
"""Bytes of an IP address by its type (RFC 1928, 5); a name, of type 3, begins with its length."""
_NAME: Final = 3


async def open_tunnel(connection: Connection, proxy: httpx.Proxy, host: str, port: int) -> None:
    """Have a proxy connect to a host; from then on the connection is one to that host.

    Raises:
        httpx.ProxyError: there is no tunnel; the text begins with the status if the proxy sent one.
    """
    # Imported here: only tunnels need it, and it takes as long to import as the whole engine.
    import h11  # noqa: PLC0415

    try:
        if is_socks(proxy):
            await _Socks(connection).open(proxy.raw_auth, host, port)
        else:
            await _ask(connection, place_of(host, port).encode("ascii"), credentials_of(proxy))
    except (h11.RemoteProtocolError, OSError, ValueError) as error:  # 255 bytes are SOCKS's limit
        raise httpx.ProxyError(f"no tunnel: {type(error).__name__}") from None


def credentials_of(proxy: httpx.Proxy | None) -> Sequence[tuple[bytes, bytes]]:
    """Return the header fields that a proxy wants to see."""
    if proxy is None or proxy.raw_auth is None:
        return ()
    return ((b"Proxy-Authorization", b"Basic " + b64encode(b":".join(proxy.raw_auth))),)


async def _ask(
    connection: Connection, authority: bytes, credentials: Sequence[tuple[bytes, bytes]]
) -> None:
    """Send a CONNECT (RFC 9110, 9.3.6)."""
    import h11  # noqa: PLC0415 - as above

    http = h11.Connection(h11.CLIENT)
    fields = [(b"Host", authority), *credentials]
    head = http.send(h11.Request(method=b"CONNECT", target=authority, headers=fields))
    connection.write(head or b"")
    http.send(h11.EndOfMessage())
    while not isinstance(event := http.next_event(), h11.Response):
        if event is h11.NEED_DATA:
            http.receive_data(await connection.read(None))
    if event.status_code not in _SUCCESS:
        raise httpx.ProxyError(f"{event.status_code}")
    if http.trailing_data[0]:  # it is the client that speaks first
        raise httpx.ProxyError("no tunnel: it holds something already")


class _Socks:
    """A client's part of SOCKS5 (RFC 1928, RFC 1929)."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._received = b""

    async def open(self, login: tuple[bytes, bytes] | None, host: str, port: int) -> None:
        """Log in, and ask for a connection; the proxy looks the name up."""
        method = _NO_LOGIN if login is None else _LOGIN
        self._connection.write(bytes([5, 1, method]))
        if await self._read(2) != bytes([5, method]):
            raise httpx.ProxyError("no login: another one is wanted")
        if login is not None:
            await self._log_in(*login)
        name = host.encode("ascii")
        target = bytes([_NAME, len(name)]) + name + port.to_bytes(2, "big")
        self._connection.write(b"\5\1\0" + target)
        _, failure, _, kind = await self._read(4)
        if failure:
            raise httpx.ProxyError(f"no tunnel: SOCKS failure {failure}")
        await self._read((_ADDRESS_SIZES.get(kind) or (await self._read(1))[0]) + 2)
        if self._received:
            raise httpx.ProxyError("no tunnel: it holds something already")

    async def _log_in(self, user: bytes, password: bytes) -> None:
        self._connection.write(bytes([1, len(user)]) + user + bytes([len(password)]) + password)
        if (await self._read(2))[1]:
            raise httpx.ProxyError("no login: it was refused")

    async def _read(self, size: int) -> bytes:
        while len(self._received) < size:
            data = await self._connection.read(None)
            if not data:
                raise ConnectionResetError("the proxy hung up")
            self._received += data
        data, self._received = self._received[:size], self._received[size:]
        return data
