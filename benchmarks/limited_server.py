"""A server that takes so many requests at once, and refuses the others.

Arguments: how many; seconds that each takes; the status of a refusal; the seconds of its
Retry-After, 0 for none; how much the latency varies, from 0 to 1; the share of requests whose
connection is cut instead of a reply.
"""

import asyncio
import random
import sys

from benchmarks.gateway_server import Connection, reply
from benchmarks.processes import serve_protocol


class Server:
    """What the connections share."""

    def __init__(  # noqa: PLR0917 - they are the command line's arguments
        self,
        limit: float,
        latency: float,
        status: float,
        retry_after: float,
        noise: float,
        cut: float,
    ) -> None:
        self._limit = limit
        self._latency = latency
        self._noise = noise
        self._cut = cut
        wait = f"Retry-After: {retry_after:.0f}\r\n" if retry_after else ""
        self._no = f"HTTP/1.1 {status:.0f} -\r\n{wait}Content-Length: 0\r\n\r\n".encode()
        self._yes = reply(200, [])
        self._random = random.Random(1)  # noqa: S311 - the same each time
        self._serving = 0

    def answer(self, _: bytes, __: bytes) -> tuple[float, bytes]:
        """Take a request, or refuse it at once."""
        if self._serving >= self._limit:
            return 0.0, self._no
        self._serving += 1
        seconds = self._latency * (1 + self._random.uniform(-self._noise, self._noise))
        asyncio.get_running_loop().call_later(seconds, self._ended)
        return seconds, b"" if self._random.random() < self._cut else self._yes

    def _ended(self) -> None:
        self._serving -= 1


if __name__ == "__main__":
    shared = Server(*map(float, sys.argv[1:]))
    asyncio.run(serve_protocol(lambda: Connection(shared)))
