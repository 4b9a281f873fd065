"""A proxy and a gateway behind it, byte by byte; the gateway's name is known to the proxy alone."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from gateway_sdk import GatewaySession, RetryPolicy
from tests.support.certificates import Authority
from tests.support.raw_server import Server, serving

HOST: Final = "gateway.test"
AT_ONCE: Final = RetryPolicy(backoff=0.0, connect_wait=0.0)
CREDENTIALS: Final = "user:pa%3Ass"
BASIC: Final = b"Proxy-Authorization: Basic " + base64.b64encode(b"user:pa:ss")
ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"


def certificate_of(writer: asyncio.StreamWriter) -> object:
    tls = writer.get_extra_info("ssl_object")
    return tls and tls.getpeercert()


class Gateway(Server):
    @property
    def peers(self) -> list[object]:
        return [certificate_of(writer) for writer in self.writers]


class Proxy:
    """Takes every connection to one port of this machine, wherever it is meant to go."""

    def __init__(self, port: int, *answers: bytes) -> None:
        self.heads: list[bytes] = []
        # Raw answers in place of its own, one per connection; an empty one is a silence.
        self.answers = list(answers)
        self.peers: list[object] = []  # the certificates that its clients showed
        self.asked = asyncio.Event()
        self._port = port

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.peers.append(certificate_of(writer))
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        self.asked.set()
        if self.answers:
            answer = self.answers.pop(0)
            writer.write(answer)
            if not answer:
                await reader.read()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        if head.startswith(b"CONNECT "):
            writer.write(ESTABLISHED)
        else:
            back.write(_forwarded(head))
        try:
            await asyncio.gather(pipe(reader, back), pipe(there, writer))
        finally:
            back.transport.abort()


def _forwarded(head: bytes) -> bytes:
    line, *headers = head.split(b"\r\n")
    method, target, version = line.split(b" ")
    path = b"/" + target.split(b"/", 3)[3]
    kept = [header for header in headers if not header.lower().startswith(b"proxy-")]
    return b"\r\n".join([b" ".join([method, path, version]), *kept])


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.transport.abort()


@dataclass
class Place:
    """A gateway, and a proxy that leads to it."""

    gateway: Gateway
    proxy: Proxy
    address: str

    def session(self, **options: Any) -> GatewaySession:
        given = {
            "base_url": f"https://{HOST}",
            "access_token": "token-1",
            "token_header": "token-2",
            "tenant_id": "acme",
            "retry": AT_ONCE,
            "proxy": f"http://{CREDENTIALS}@{self.address}",
        }
        return GatewaySession(**{**given, **options})


@asynccontextmanager
async def behind_a_proxy(authority: Authority | None, *answers: bytes) -> AsyncIterator[Place]:
    """Serve a gateway, over TLS if there is an authority, and a proxy before it."""
    gateway = Gateway()
    context = None if authority is None else authority.server(HOST)
    async with serving(gateway.handle, context) as port:
        proxy = Proxy(port, *answers)
        async with serving(proxy.handle) as proxy_port:
            yield Place(gateway, proxy, f"127.0.0.1:{proxy_port}")
