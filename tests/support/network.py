"""A network in memory, for hours and months in virtual time: names, servers, what forgets flows.

It takes the place of the system's: of look-ups, sockets, acknowledgements and the sleep of the
machine. A server counts what it has executed.
"""

import asyncio
import errno
import math
import os
import re
import ssl
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pytest

from gateway_sdk._transport import connection as connections, dial, pool, route
from gateway_sdk._transport.connection import Connection
from gateway_sdk._transport.trust import PROBE, SILENCE
from tests.support.raw_server import OK, field
from tests.support.virtual_time import now

DELAY: Final = 0.02
"""Seconds on the way, for each direction."""


class Server:
    """Answers on all its flows; its attributes may be changed at any time."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self.is_up = True
        self.token: str | None = None  # others are refused with 401
        self.rest = 75.0  # seconds after which it ends a flow, without announcing it
        self.work: Callable[[], float] = lambda: 0.05  # seconds before it answers
        self.flows: set[Flow] = set()
        self.executed = Counter[str]()  # by call
        self.last_call = -math.inf  # when the last one came

    def answer(self, request: bytes) -> bytes:
        self.last_call = now()
        if self.token not in (None, field(request, "Authorization").removeprefix("Bearer ")):
            return OK.replace(b"200", b"401")
        self.executed[field(request, "X-Call")] += 1
        return OK

    def restart(self, seconds: float) -> None:
        """End all flows, and refuse new ones for so long."""
        self.is_up = False
        for flow in [*self.flows]:
            flow.end()
        asyncio.get_running_loop().call_later(seconds, self._come_up)

    def _come_up(self) -> None:
        self.is_up = True


class Flow(asyncio.Transport):
    """One connection, as the client's transport and as what the server has of it."""

    def __init__(self, network: "Network", client: Connection, server: Server) -> None:
        super().__init__({"socket": _Gone()})
        self._network, self._client, self._server = network, client, server
        self._loop = asyncio.get_running_loop()
        self._is_closing = False
        self._is_forgotten = self._is_foreign = self._is_answered = False
        self._heard_at, self._unheard = now(), False
        self._request = b""
        self._due = [0.0, 0.0]  # when the last bytes arrive, at the server and at the client
        self._timer: asyncio.TimerHandle | None = None
        self._rest = server.rest
        self._tls: tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO] | None = None
        if server.tls is not None:
            bios = ssl.MemoryBIO(), ssl.MemoryBIO()
            self._tls = server.tls.wrap_bio(*bios, server_side=True), *bios
        server.flows.add(self)
        network.flows.add(self)

    # The client's end.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._unheard = self._is_forgotten and not self._is_answered
        if self._is_foreign:
            self._loop.call_later(2 * DELAY, self._lose, ConnectionResetError())
        elif not self._is_forgotten:
            self._carry(0, self._receive, bytes(data))

    def abort(self) -> None:
        self._lose(None)

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def acknowledgements(self) -> tuple[bool, float]:
        """Return what the system says of a flow that it probes."""
        silent = self._is_forgotten and not self._is_answered
        seconds = now() - self._heard_at
        return self._unheard, seconds if silent else min(seconds, PROBE)

    def _lose(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            if error is not None:
                self._network.losses.append(now())
            self._network.flows.discard(self)
            self._loop.call_soon(self._client.connection_lost, error)
            self._loop.call_later(DELAY, self._drop)

    # The way.

    def _carry(self, way: int, arrive: Callable[..., None], data: bytes | None) -> None:
        # The loop does not keep the order of what is due at the same time.
        self._due[way] = max(now() + DELAY, self._due[way] + 1e-6)
        self._loop.call_at(self._due[way], arrive, data)

    def forget(self, *, answers: bool) -> None:
        """Let what is sent vanish; *answers* if something on the way acknowledges it even so."""
        self._is_forgotten, self._is_answered = True, answers
        self._heard_at = max(self._heard_at, now() - PROBE)
        if not answers:
            self._loop.call_later(SILENCE, self._give_up)
        self._drop()

    def become_foreign(self) -> None:
        """Let what is sent be answered with a reset."""
        self._is_foreign = True
        self._loop.call_later(PROBE, self._lose, ConnectionResetError())
        self._drop()

    def _give_up(self) -> None:
        if not self._unheard:
            self._lose(TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))

    def _deliver(self, data: bytes | None) -> None:
        if self._is_closing or self._is_forgotten or self._is_foreign:
            return
        self._heard_at = now()
        if data is None:
            if self._rest == self._server.rest:  # else the end says how it was before
                self._network.ends.append(now())
            self._client.eof_received()
            self._lose(None)
        else:
            self._client.data_received(data)

    # The server's end.

    def end(self) -> None:
        """Close it without announcing it."""
        if self in self._server.flows:
            self._carry(1, self._deliver, None)
            self._drop()

    def _drop(self) -> None:
        self._server.flows.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def _receive(self, data: bytes) -> None:
        if self not in self._server.flows:
            self._loop.call_later(DELAY, self._lose, ConnectionResetError())
            return
        if self._timer is not None:
            self._timer.cancel()
        try:
            self._request += self._decrypted(data)
        except ssl.SSLError:  # it does not like the client's certificate
            self._carry(1, self._deliver, None)
            return
        head, end, body = self._request.partition(b"\r\n\r\n")
        if end and len(body) >= int(field(head, "Content-Length") or 0):
            request, self._request = self._request, b""
            self._loop.call_later(self._server.work(), self._answer, request)

    def _answer(self, request: bytes) -> None:
        if self in self._server.flows:
            self._send(self._server.answer(request))
            self._rest = self._server.rest
            self._timer = self._loop.call_later(self._rest, self.end)

    def _decrypted(self, data: bytes) -> bytes:
        if self._tls is None:
            return data
        tls, incoming, _ = self._tls
        incoming.write(data)
        plain = b""
        try:
            with suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                while True:
                    plain += tls.read(2**16)
        finally:
            self._send(b"")
        return plain

    def _send(self, data: bytes) -> None:
        if self._tls is not None:
            tls, _, outgoing = self._tls
            if data:
                tls.write(data)
            data = outgoing.read()
        if data:
            self._carry(1, self._deliver, data)


class _Gone:
    def dup(self) -> object:
        raise OSError


class Network:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: dict[str, Server] = {}
        self.flows: set[Flow] = set()  # that the client has
        self.opened = 0
        self.asleep = 0.0  # seconds that the machine has slept
        # When the client learned that a flow had ended: in order, or because it was gone.
        self.ends: list[float] = []
        self.losses: list[float] = []

        async def connect(dialler: dial.Dialler) -> tuple[object, Connection]:
            return dialler._host, await self._connect(dialler._host)

        monkeypatch.setattr(dial.Dialler, "connect", connect)
        for module in (dial, route):
            monkeypatch.setattr(module, "in_thread", _here)
        monkeypatch.setattr(connections, "_watch", lambda _: lambda: False)
        monkeypatch.setattr(
            Connection, "_acknowledgements", lambda one: one._transport.acknowledgements()
        )
        monkeypatch.setattr(pool, "now", lambda: now() + self.asleep)
        monkeypatch.setattr(time, "monotonic", now)

    async def _connect(self, host: str) -> Connection:
        await asyncio.sleep(2 * DELAY)
        server = self.names[re.sub(r"\.$", "", host)]
        if not server.is_up:
            raise ConnectionRefusedError
        self.opened += 1
        client = Connection()
        client.connection_made(Flow(self, client, server))
        return client

    def sleep(self, seconds: float) -> None:
        """Let the machine sleep: its clock stands still, and servers end what rests too long."""
        self.asleep += seconds
        for flow in [*self.flows]:
            if seconds >= flow._server.rest / 2:
                flow.become_foreign()


def _here(_: str, work: Callable[[], Any], **__: object) -> asyncio.Future[Any]:
    """Do at once what is done in a thread."""
    future = asyncio.get_running_loop().create_future()
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - who waits for the result raises it
        future.set_exception(error)
    return future
