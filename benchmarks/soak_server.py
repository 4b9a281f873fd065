"""A server that answers most requests, and fails at some in every way there is."""

import asyncio
import random
import sys
from collections import Counter
from typing import Any, Final

from benchmarks.gateway_server import reply
from benchmarks.processes import body_of, serve

STATISTICS: Final = b" /statistics "
HOLD: Final = b"\r\nx-hold: "
FAULTS: Final = {
    "none": 80,
    "drop before reading": 3,
    "drop after reading": 3,
    "429": 4,
    "500": 3,
    "slow": 4,
    "cut body": 3,
}
SLOW: Final = 0.03
HELD_FOR: Final = 20.0


class Server:
    """What the connections share."""

    def __init__(self, seed: int) -> None:
        self._open = 0
        self._made: Counter[str] = Counter()  # requests, by fault
        self._random = random.Random(seed)  # noqa: S311 - the same faults each time
        self._held = 0
        self._let_go = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection."""
        self._open += 1
        try:
            while await self._answer(reader, writer):
                pass
        finally:
            self._open -= 1

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False ends the connection."""
        head = await reader.readuntil(b"\r\n\r\n")
        if STATISTICS in head:
            # Without the connection that asks.
            others = {"open": self._open - 1, "made": self._made}
            writer.write(reply(200, others))
            return True
        held = head.lower().partition(HOLD)[2].partition(b"\r\n")[0]
        fault = "held" if held else self._random.choices(list(FAULTS), [*FAULTS.values()])[0]
        self._made[fault] += 1
        if fault == "drop before reading":
            return False
        async for _ in body_of(head, reader):
            pass
        body: Any = [] if b"/listData " in head else {"ok": True}
        match fault:
            case "drop after reading":
                return False
            case "held":
                await self._hold(int(held))
            case "slow":
                await asyncio.sleep(SLOW)
            case "cut body":
                writer.write(reply(200, body)[:-1])
                await writer.drain()
                return _end(writer)
            case "429" | "500":
                writer.write(reply(int(fault), None))
                return True
            case _:
                pass
        writer.write(reply(200, body))
        await writer.drain()
        return True

    async def _hold(self, count: int) -> None:
        """Hold a request until so many are held at the same time."""
        self._held += 1
        if self._held == count:
            self._held = 0
            self._let_go.set()
            self._let_go = asyncio.Event()
            return
        async with asyncio.timeout(HELD_FOR):
            await self._let_go.wait()


def _end(writer: asyncio.StreamWriter) -> bool:
    """End a connection in the orderly way, so that what was written arrives."""
    writer.close()
    return False


if __name__ == "__main__":
    asyncio.run(serve(Server(int(sys.argv[1])).handle))
