"""A gateway that takes 20 ms for each request, and counts how often it got each body.

`GET /statistics` tells it. The sandbox could not keep up with a fleet on one machine.
"""

import asyncio
import json
import sys
from collections import Counter
from typing import Final

from benchmarks.processes import serve_protocol

LATENCY: Final = 0.02
"""Seconds that each request takes."""

END: Final = b"\r\n\r\n"
CUSTOMERS: Final = b"/customer/"
STATISTICS: Final = b"/statistics"
RATES: Final = json.dumps(
    {"base": "EUR", "rates": {f"2026-01-{day:02}": {"USD": 1 + day / 100} for day in range(1, 31)}}
).encode()


def reply(body: bytes) -> bytes:
    """Return a reply of JSON."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class Counts:
    """What the connections share: how often each body came."""

    def __init__(self) -> None:
        self.queries: Counter[bytes] = Counter()
        self.customers: Counter[str] = Counter()

    def count(self, target: bytes, body: bytes) -> None:
        """Count a request."""
        if target.startswith(CUSTOMERS):
            self.customers[json.loads(body)["person"]["firstName"]["name"]] += 1
        else:
            self.queries[body] += 1

    def told(self) -> bytes:
        """Return the figures."""
        figures = {
            "requests": self.queries.total() + self.customers.total(),
            "queries": len(self.queries),
            "customers": dict(self.customers),
        }
        return json.dumps(figures).encode()


class Connection(asyncio.Protocol):
    """One connection; its clients are ours, and send a Content-Length."""

    def __init__(self, counts: Counts, latency: float) -> None:
        self._counts = counts
        self._latency = latency
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of where to write."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for type checkers
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self._read += data
        while (end := self._read.find(END)) >= 0:
            head, start = self._read[:end], end + len(END)
            _, _, after = head.lower().partition(b"content-length:")
            stop = start + int(after.partition(b"\r\n")[0] or 0)
            if len(self._read) < stop:
                return
            self._answer(head.split(b" ", 2)[1], self._read[start:stop])
            self._read = self._read[stop:]

    def _answer(self, target: bytes, body: bytes) -> None:
        if target == STATISTICS:
            self._transport.write(reply(self._counts.told()))
            return
        self._counts.count(target, body)
        value = b'{"id":1}' if target.startswith(CUSTOMERS) else RATES
        asyncio.get_running_loop().call_later(self._latency, self._write, reply(value))

    def _write(self, text: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(text)


if __name__ == "__main__":
    counts = Counts()
    latency = float(sys.argv[1]) if len(sys.argv) > 1 else LATENCY
    asyncio.run(serve_protocol(lambda: Connection(counts, latency)))
