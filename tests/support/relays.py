"""A relay before a server: it forgets connections, resets them, or ends them without a word."""

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Final, Self

_NOW_AND_HARD: Final = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST
_REPLIES: Final = frozenset({b"H", b"\x17"})  # how one begins: HTTP, and a record of TLS 1.2


class Relay:
    """Passes bytes on. What it does to its lines at one moment, later lines are without."""

    def __init__(self, port: int, *, delay: float = 0.0, ends_after: float | None = None) -> None:
        self.made = 0  # lines ever
        self._there, self._delay = port, delay
        self._ends_after = ends_after  # seconds after a reply in which it ends a line
        self._states: dict[asyncio.StreamWriter, str] = {}  # of each line
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: set[asyncio.StreamWriter] = set()

    def forget(self) -> None:
        """Let what comes on a line vanish; it is acknowledged, as by a proxy."""
        self._states = dict.fromkeys(self._states, "forgotten")

    def reset(self) -> None:
        """Answer what comes next on a line with a reset."""
        self._states = dict.fromkeys(self._states, "foreign")

    def end_idle(self) -> None:
        """End the lines on which no request waits for its reply, as a restart does."""
        for line in self._states.keys() - self._busy:
            line.close()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._start, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.made += 1
        task = asyncio.get_running_loop().create_task(self._pass(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._states[writer] = ""
        there, back = await asyncio.open_connection("127.0.0.1", self._there)
        try:
            await asyncio.gather(
                self._pipe(writer, reader, back), self._pipe(writer, there, writer)
            )
        finally:
            self._states.pop(writer)
            self._busy.discard(writer)
            writer.transport.abort()
            back.transport.abort()

    async def _pipe(
        self, line: asyncio.StreamWriter, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while data := await source.read(2**16):
                (self._busy.discard if sink is line else self._busy.add)(line)
                if self._states[line] == "foreign":
                    end = line.get_extra_info("socket")
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOW_AND_HARD)
                    line.transport.abort()
                elif not self._states[line]:
                    loop.call_later(self._delay, _write, sink, data)
                    is_reply = sink is line and data[:1] in _REPLIES
                    if is_reply and self._ends_after is not None:
                        loop.call_later(self._delay + self._ends_after, sink.close)
        if not self._states[line]:
            loop.call_later(self._delay, sink.close)


def _write(sink: asyncio.StreamWriter, data: bytes) -> None:
    if not sink.is_closing():  # uvloop raises
        sink.write(data)
