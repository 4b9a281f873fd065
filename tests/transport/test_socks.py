"""SOCKS5 proxies, byte by byte (RFC 1928, RFC 1929)."""

import asyncio
from typing import Any, Final

import pytest

from gateway_sdk import Advice, ConnectionFailedError, GatewaySession, Outcome
from tests.support.calls import CALLS
from tests.support.certificates import Authority
from tests.support.proxies import HOST, Gateway, pipe
from tests.support.raw_server import serving

ANY_IPV4: Final = b"\1" + bytes(4) + b"\0\0"
LOGIN: Final = b"\5\2"
DONE: Final = b"\5\0\0" + ANY_IPV4
REFUSED_LOGIN: Final = "did not accept the user name and the password"
NO_SOCKS: Final = "does not speak SOCKS5: is the scheme of its address right?"


def session(proxy: str, **options: Any) -> GatewaySession:
    given = {"access_token": "t", "tenant_id": "acme", "allow_insecure_http": True, **options}
    return GatewaySession(**{"base_url": f"http://{HOST}", "proxy": proxy, **given})


class Socks:
    """A proxy that takes every connection to one port of this machine."""

    def __init__(
        self, port: int = 0, *, hello: bytes = b"\5\0", verdict: int = 0, answer: bytes = DONE
    ) -> None:
        self.target = self.login = b""  # what it was asked for, and told
        self._port, self._hello, self._verdict, self._answer = port, hello, verdict, answer

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readexactly(2))[0] == 5
        await reader.readexactly(1)
        writer.write(self._hello)
        if self._hello == LOGIN:
            self.login = await self._take(reader, 1) + b":" + await self._take(reader, 0)
            writer.write(bytes([1, self._verdict]))
        assert await reader.readexactly(4) == b"\5\1\0\3"
        self.target = await self._take(reader, 0) + await reader.readexactly(2)
        for byte in self._answer[:-2]:
            writer.write(bytes([byte]))  # piece by piece, as it may come
            await asyncio.sleep(0)
        writer.write(self._answer[-2:])
        if self._port:
            there, back = await asyncio.open_connection("127.0.0.1", self._port)
            await asyncio.gather(pipe(reader, back), pipe(there, writer))

    async def _take(self, reader: asyncio.StreamReader, skipped: int) -> bytes:
        await reader.readexactly(skipped)
        return await reader.readexactly((await reader.readexactly(1))[0])


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
@pytest.mark.parametrize("userinfo", ["", "user:pa%3Ass@"])
@pytest.mark.parametrize("is_secure", [True, False])
async def test_a_call_through_a_socks_proxy(
    authority: Authority, scheme: str, userinfo: str, is_secure: bool
) -> None:
    """The proxy looks the name up; what it is told stays with it."""
    gateway = Gateway()
    async with serving(gateway.handle, authority.server(HOST) if is_secure else None) as port:
        proxy = Socks(port, hello=LOGIN if userinfo else b"\5\0")
        async with (
            serving(proxy.handle) as proxy_port,
            session(
                f"{scheme}://{userinfo}127.0.0.1:{proxy_port}",
                base_url=f"http{'s' * is_secure}://{HOST}",
                verify=authority.path,
            ) as sending,
        ):
            for _ in range(2):
                assert await CALLS["create_customer"](sending) == {}

    assert proxy.target == HOST.encode() + (443 if is_secure else 80).to_bytes(2, "big")
    assert proxy.login == (b"user:pa:ss" if userinfo else b"")
    assert len(gateway.requests) == 2
    assert len(gateway.peers) == 1
    assert not any(b"pa:ss" in request for request in gateway.requests)


@pytest.mark.parametrize("bound", [ANY_IPV4, b"\4" + bytes(18), b"\3\4name\0\0"])
async def test_the_address_that_a_proxy_names_is_passed_over(bound: bytes) -> None:
    """Whatever its type is, the reply of the gateway comes behind it."""
    gateway = Gateway()
    async with (
        serving(gateway.handle) as port,
        serving(Socks(port, answer=b"\5\0\0" + bound).handle) as proxy_port,
        session(f"socks5://127.0.0.1:{proxy_port}") as sending,
    ):
        assert await CALLS["order_history"](sending) == {}


@pytest.mark.parametrize(
    ("proxy", "userinfo", "reason"),
    [
        (Socks(hello=b"HTTP/1.1 400 -\r\n\r\n"), "", NO_SOCKS),
        (Socks(hello=b"\5\xff"), "", "wants a user name and a password"),
        (Socks(hello=b"\5\xff"), "user:password@", REFUSED_LOGIN),
        (Socks(hello=LOGIN, verdict=1), "user:password@", REFUSED_LOGIN),
        (Socks(answer=b"\5\4\0" + ANY_IPV4), "", "made no tunnel"),
        (Socks(answer=DONE + b"!"), "", "made no tunnel"),
        (Socks(answer=b"\5\0"), "", "made no tunnel"),
        (Socks(hello=LOGIN), f"{'u' * 256}:password@", "made no tunnel"),
    ],
    ids=["HTTP", "a login", "no method", "no login", "failure", "excess", "hang-up", "too long"],
)
async def test_a_proxy_that_refuses(proxy: Socks, userinfo: str, reason: str) -> None:
    """Nothing was sent, and the reason is said without what the proxy was told."""
    async with (
        serving(proxy.handle) as port,
        session(f"socks5://{userinfo}127.0.0.1:{port}", retry=None) as sending,
    ):
        with pytest.raises(ConnectionFailedError) as caught:
            await CALLS["create_customer"](sending)

    assert caught.value.outcome is Outcome.NOT_SENT
    assert caught.value.reason == reason
    assert f"the proxy 127.0.0.1:{port}" in str(caught.value)
    assert (caught.value.advice is Advice.REPEAT) == (reason == "made no tunnel")
