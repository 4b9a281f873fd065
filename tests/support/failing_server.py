"""A server that fails where a script says, and that knows what it really received."""

import asyncio
import re
import select
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeVar

T = TypeVar("T")

CALL: Final = "X-Call"
"""The header in which a test says which call a request belongs to."""

_LIMIT: Final = 20.0
"""Seconds after which something that should have happened counts as missing."""
_CHUNK: Final = 65536
_STATUS: Final = re.compile(rb"HTTP/1\.1 ([2-5]\d\d) [^\n]*\n(?:[^\r\n]+\r\n)*\r\n")
_NOW_AND_HARD: Final = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST


@dataclass(slots=True, eq=False)
class Receipt:
    """A request of which at least one byte came."""

    call: str | None = None  # what its header `CALL` says; None as long as its head is not complete
    whole: bool = False
    answers: list[int] = field(default_factory=list)  # the status codes that were sent in reply


class Line:
    """A connection, in the hands of a script."""

    def __init__(self, server: "FailingServer", sock: socket.socket) -> None:
        self.server = server
        self.receipts: list[Receipt] = []
        self.open = True  # whether this end is open still
        self.at_rest = False  # whether the last request was answered and nothing came after it
        self.sends = 0  # how often something was sent
        self._socket = sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self._tls: tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO] | None = None

    async def shake_hands(self, context: ssl.SSLContext) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_side=True)
        self._tls = tls, incoming, outgoing
        await self._through_tls(tls.do_handshake)

    async def head(self) -> bool:
        """Receive up to the end of a head; closes and returns False if the client went away."""
        while b"\r\n\r\n" not in self._buffer:
            data = await self._receive()
            if not data:
                self.close()
                return False
            self._came(data)
        head = self._buffer.partition(b"\r\n\r\n")[0]
        found = re.search(rb"\r\n%s: (\S+)" % CALL.encode(), head)
        self.receipts[-1].call = found[1].decode() if found else ""
        self.server.told()
        return True

    async def request(self) -> bool:
        """Receive a whole request; closes and returns False if the client went away."""
        if not await self.head():
            return False
        head, _, rest = self._buffer.partition(b"\r\n\r\n")
        found = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        length = int(found[1]) if found else 0
        while len(rest) < length:
            length -= len(rest)
            rest = await self._receive()
            if not rest:
                self.close()
                return False
        self._buffer = rest[length:]
        self.receipts[-1].whole = True
        self.server.told()
        return True

    async def one_byte(self) -> bool:
        """Receive one byte of a request; closes and returns False if the client went away."""
        data = await self._receive(1)
        if not data:
            self.close()
            return False
        self._came(data)
        return True

    async def forget(self) -> None:
        """Receive something and leave it out of account, as the beginning of a handshake is."""
        await asyncio.get_running_loop().sock_recv(self._socket, _CHUNK)

    async def something(self) -> None:
        loop = asyncio.get_running_loop()
        readable = loop.create_future()
        try:
            loop.add_reader(self._socket, readable.cancel)
        except NotImplementedError:  # on Windows
            while not select.select([self._socket], [], [], 0)[0]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        else:
            try:
                await asyncio.wait([readable])
            finally:
                loop.remove_reader(self._socket)
        self._came(self._socket.recv(1, socket.MSG_PEEK))

    async def send(self, data: bytes) -> None:
        """Send bytes, whatever they are; heads of replies among them count as answers."""
        if self.receipts:
            self.receipts[-1].answers += [int(status) for status in _STATUS.findall(data)]
        if self._tls is None:
            await asyncio.get_running_loop().sock_sendall(self._socket, data)
        else:
            await self._through_tls(self._tls[0].write, data)
        self.sends += 1
        self.server.told()

    async def answer(self, status: int = 200, more: str = "") -> None:
        receipt = self.receipts[-1]
        self.at_rest = receipt.whole
        await self.send(reply(status, f'"{receipt.call}"', more))

    async def swallow(self) -> None:
        """Receive all that comes until the client goes away."""
        while await self._receive():
            pass
        self.close()

    def blurt(self, data: bytes) -> None:
        """Send without being asked, and without a turn of the event loop."""
        self._socket.send(data)

    def hang_up(self) -> None:
        """Let the script think that the client went away, if there is a request not answered."""
        if self.open and self.receipts and not self.at_rest:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self.open:
            self.open = self.at_rest = False
            self._socket.close()
            self.server.told()

    def reset(self) -> None:
        """Close with RST, as a machine does that has lost its memory."""
        if self.open:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOW_AND_HARD)
            self.close()

    def _came(self, data: bytes) -> None:
        if data and not self._buffer:
            self.receipts.append(Receipt())
            self.server.receipts.append(self.receipts[-1])
            self.at_rest = False
        self._buffer += data

    async def _receive(self, most: int = _CHUNK) -> bytes:
        if self._tls is None:
            return await asyncio.get_running_loop().sock_recv(self._socket, most)
        try:
            return bytes(await self._through_tls(self._tls[0].read, most))
        except ssl.SSLEOFError:
            return b""

    async def _through_tls(self, action: Callable[..., T], *args: Any) -> T:
        assert self._tls is not None
        loop = asyncio.get_running_loop()
        _, incoming, outgoing = self._tls
        while True:
            try:
                return action(*args)
            except ssl.SSLWantReadError:
                pass
            finally:
                if outgoing.pending:
                    await loop.sock_sendall(self._socket, outgoing.read())
            data = await loop.sock_recv(self._socket, _CHUNK)
            incoming.write(data) if data else incoming.write_eof()


Script = Callable[[Line], Awaitable[None]]


class FailingServer:
    """Runs a script on each connection, in their order; the last one on the rest."""

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None) -> None:
        self.lines: list[Line] = []
        self.receipts: list[Receipt] = []  # the requests, in their order
        self.may_go_on = asyncio.Event()  # for scripts to wait for
        self.tasks: set[asyncio.Task[Any]] = set()
        self._news = asyncio.Event()
        self._scripts = scripts
        self._tls = tls
        self._bugs: list[Exception] = []

    def of(self, call: str) -> Sequence[Receipt]:
        """Return the requests that belong to a call, as far as that could be read."""
        return [receipt for receipt in self.receipts if receipt.call == call]

    def told(self) -> None:
        self._news.set()

    async def until(self, fact: Callable[[], bool]) -> None:
        async with asyncio.timeout(_LIMIT):
            while not fact():
                self._news.clear()
                await self._news.wait()

    @property
    def url(self) -> str:
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self._listener.settimeout(0)
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)
        for line in self.lines:
            line.close()
        self._listener.close()
        assert not self._bugs

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _accept(self) -> None:
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(self._listener)
            script = self._scripts[min(len(self.lines), len(self._scripts) - 1)]
            self.lines.append(Line(self, sock))
            self._start(self._serve(self.lines[-1], script))

    async def _serve(self, line: Line, script: Script) -> None:
        try:
            if self._tls is not None:
                await line.shake_hands(self._tls)
            await script(line)
        except OSError:
            pass  # the client went away, or does not like the certificate
        except Exception as bug:  # noqa: BLE001 - of a script
            self._bugs.append(bug)
        finally:
            line.close()


def reply(status: int, body: str, more: str = "") -> bytes:
    """Return a whole reply with a JSON body; *more* is header lines, each with its line end."""
    head = f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
