"""A server that is not the bottleneck: canned replies, written by a bare protocol.

While it is busy it does not sleep between two requests. In a virtual machine, a client that wakes
it pays up to 10 µs of CPU time for that, and a client that sends many requests in a row pays once.
A gateway elsewhere is not woken by its clients.

A first path segment such as `/50ms` has it wait so long before it replies. `/statistics` says how
many requests it has answered, and how much CPU time it has spent.
"""

import asyncio
import json
import re
import time
from collections.abc import Callable
from selectors import DefaultSelector, SelectorKey
from typing import Final, Protocol

from benchmarks.processes import serve_protocol

SERIES: Final = {
    "base": "EUR",
    "symbols": "USD",
    "rates": {
        f"2026-01-{day:02}": {"USD": rate} for day, rate in enumerate((1.0956, 1.0919, 1.0921), 2)
    },
}
COUNTRIES: Final = [
    {
        "id": number,
        "countryName": "Aruba",
        "nationality": "Aruban",
        "three_digit_iso_code": "ABW",
        "two_digit_iso_code": "AW",
        "currency": "AWG",
        "phone_code": "+297",
    }
    for number in range(250)
]
REPLIES: Final = {
    "/currency/1.0.0/exchangeRateSeries": SERIES,
    "/countrydata/1.0.0/listData": COUNTRIES,
    "/long/countrydata/1.0.0/listData": COUNTRIES * 125,  # 5 MB
}
STATISTICS: Final = b"/statistics"
END: Final = b"\r\n\r\n"
HELLO: Final = 0x16
"""The first byte of TLS (RFC 8446, 5.1); without an answer, a client would wait for seconds."""
LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
TARGET: Final = re.compile(r"(?:/(\d+)ms)?(/.*)")
AWAKE: Final = 0.005
"""Seconds after the last request."""


class Wakeful(DefaultSelector):
    """Sleeps only after a while without anything to do."""

    _waited = 0.0

    def worked(self) -> float:
        """Return the CPU time of this process in seconds, without what it was awake for nothing."""
        return time.process_time() - self._waited

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Return what is ready, after these seconds at the latest."""
        awake = AWAKE if timeout is None else min(timeout, AWAKE)
        began, cpu = time.monotonic(), time.process_time()
        while not (ready := super().select(0)) and time.monotonic() - began < awake:
            pass
        self._waited += time.process_time() - cpu
        return ready or super().select(None if timeout is None else timeout - awake)


class Answers(Protocol):
    """What the connections share."""

    def answer(self, target: bytes, body: bytes, /) -> tuple[float, bytes]:
        """Return how many seconds to wait, and then what to reply; nothing cuts the connection."""


class Server:
    """Answers with what is canned, and counts."""

    def __init__(self, worked: Callable[[], float] = time.process_time) -> None:
        self.requests = 0  # without those for statistics
        self._worked = worked
        self._known: dict[bytes, tuple[float, bytes]] = {}

    def answer(self, target: bytes, _: bytes) -> tuple[float, bytes]:
        """Return how many seconds to wait, and then what to reply."""
        if target == STATISTICS:
            return 0.0, reply(200, {"requests": self.requests, "cpu_seconds": self._worked()})
        self.requests += 1
        if target not in self._known:
            self._known[target] = canned(target.decode())
        return self._known[target]


class Connection(asyncio.Protocol):
    """One connection; what it reads is as good as its clients, which are ours."""

    def __init__(self, server: Answers) -> None:
        self._server = server
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of where to write."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for type checkers
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete, and hang up on who speaks TLS."""
        self._read += data
        if self._read[0] == HELLO:
            self._transport.abort()
        while (end := self._read.find(END) + len(END)) >= len(END):
            found = LENGTH.search(self._read, 0, end)
            whole = end + (int(found[1]) if found else 0)
            if len(self._read) < whole:
                return
            target, body = self._read.split(b" ", 2)[1], self._read[end:whole]
            self._read = self._read[whole:]
            delay, answer = self._server.answer(target, body)
            if delay:
                asyncio.get_running_loop().call_later(delay, self._write, answer)
            elif answer:
                self._transport.write(answer)
            else:
                self._transport.abort()

    def _write(self, answer: bytes) -> None:
        if not answer:
            self._transport.abort()
        elif not self._transport.is_closing():
            self._transport.write(answer)


def canned(target: str) -> tuple[float, bytes]:
    """Return how long a target takes, in seconds, and what its reply is."""
    found = TARGET.fullmatch(target)
    delay, path = found.groups() if found else (None, "")
    # Only the status tells a refusal from what was asked for, so that no client may overlook it.
    answer = reply(200, REPLIES[path]) if path in REPLIES else reply(404, SERIES)
    return int(delay or 0) / 1000, answer


def reply(status: int, value: object) -> bytes:
    """Return a reply with a JSON body."""
    body = json.dumps(value, separators=(",", ":")).encode()
    head = f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + END + body


async def main(worked: Callable[[], float]) -> None:
    """Serve until the standard input ends."""
    server = Server(worked)
    await serve_protocol(lambda: Connection(server))


if __name__ == "__main__":
    selector = Wakeful()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(main(selector.worked))
