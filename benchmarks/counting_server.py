"""A server that notes when each request came, and refuses each twentieth with 503."""

import asyncio
import time
from typing import Final

from benchmarks.gateway_server import STATISTICS, Connection, reply
from benchmarks.processes import serve_protocol

REFUSED: Final = 20
OK, NO = reply(200, []), reply(503, None)


class Server:
    """What the connections share."""

    def __init__(self) -> None:
        self._came: list[float] = []

    def answer(self, target: bytes, _: bytes) -> tuple[float, bytes]:
        """Note a request; reply at once."""
        if target == STATISTICS:
            return 0.0, reply(200, self._came)
        self._came.append(time.time())
        return 0.0, OK if len(self._came) % REFUSED else NO


if __name__ == "__main__":
    shared = Server()
    asyncio.run(serve_protocol(lambda: Connection(shared)))
