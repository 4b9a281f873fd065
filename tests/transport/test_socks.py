"""SOCKS5 proxies, byte by byte (RFC 1928, RFC 1929)."""

import asyncio
from typing import Any, Final

import httpx
import pytest

from gateway_sdk import Advice, ConnectionFailedError, GatewaySession, GatewayTransport, Outcome
from tests.support.calls import CALLS
from tests.support.certificates import Authority
from tests.support.proxies import HOST, Gateway, pipe
from tests.support.raw_server import serving

NO_LOGIN: Final = b"\5\0"
LOGIN: Final = b"\5\2"
ACCEPTED: Final = b"\1\0"
ANY_IPV4: Final = b"\1" + bytes(6)
DONE: Final = b"\5\0\0" + ANY_IPV4
REFUSED_LOGIN: Final = "did not accept the user name and the password"
NO_SOCKS: Final = "does not speak SOCKS5: is the scheme of its address right?"
TOO_LONG: Final = "takes no name or password of more than 255 bytes"
NO_TUNNEL: Final = "made no tunnel"
FORBIDDEN: Final = f"{NO_TUNNEL}: its rules forbid it"


def session(proxy: str | None, **options: Any) -> GatewaySession:
    given = {"access_token": "t", "tenant_id": "acme", "allow_insecure_http": True, "retry": None}
    return GatewaySession(**{"base_url": f"http://{HOST}", "proxy": proxy, **given, **options})


class Socks:
    """A proxy that takes every connection to one port of this machine."""

    def __init__(
        self,
        port: int = 0,
        *,
        hello: bytes = NO_LOGIN,
        verdict: bytes = ACCEPTED,
        answer: bytes = DONE,
    ) -> None:
        self.methods = self.login = self.target = b""  # what it was told
        self._port, self._hello, self._verdict, self._answer = port, hello, verdict, answer

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(1) == b"\5"
        self.methods = await _counted(reader)
        await _in_pieces(writer, self._hello)
        if self._hello not in (NO_LOGIN, LOGIN):
            return
        if self._hello == LOGIN:
            assert await reader.readexactly(1) == b"\1"
            self.login = await _counted(reader) + b":" + await _counted(reader)
            await _in_pieces(writer, self._verdict)
            if self._verdict != ACCEPTED:
                return
        assert await reader.readexactly(3) == b"\5\1\0"
        kind = await reader.readexactly(1)
        size = {b"\1": 4, b"\4": 16}.get(kind)
        place = await (reader.readexactly(size) if size else _counted(reader))
        self.target = kind + place + await reader.readexactly(2)
        await _in_pieces(writer, self._answer)
        if self._port:
            there, back = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                await asyncio.gather(pipe(reader, back), pipe(there, writer))
            finally:
                back.transport.abort()


async def _counted(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly((await reader.readexactly(1))[0])


async def _in_pieces(writer: asyncio.StreamWriter, data: bytes) -> None:
    for byte in data[:-2]:
        writer.write(bytes([byte]))
        await asyncio.sleep(0)
    writer.write(data[-2:])


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
@pytest.mark.parametrize("userinfo", ["", "user:pa%3Ass@"])
@pytest.mark.parametrize("is_secure", [True, False])
async def test_a_call_through_a_socks_proxy(
    authority: Authority, scheme: str, userinfo: str, is_secure: bool
) -> None:
    """The proxy looks the name up; what it is told stays with it."""
    gateway = Gateway()
    async with serving(gateway.handle, authority.server(HOST) if is_secure else None) as port:
        proxy = Socks(port, hello=LOGIN if userinfo else NO_LOGIN)
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

    assert proxy.target == b"\3" + HOST.encode() + (443 if is_secure else 80).to_bytes(2, "big")
    assert proxy.methods == (b"\0\2" if userinfo else b"\0")
    assert proxy.login == (b"user:pa:ss" if userinfo else b"")
    assert len(gateway.requests) == 2
    assert len(gateway.peers) == 1
    for request in gateway.requests:
        assert request.startswith(b"POST /customer/")  # not the form for a proxy that forwards
        assert b"pa:ss" not in request


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY", None])
async def test_other_places_to_name_it(
    environment: pytest.MonkeyPatch, variable: str | None
) -> None:
    """The environment, or a `GatewayTransport`; a login is not told to a proxy that wants none."""
    gateway = Gateway()
    async with serving(gateway.handle) as port:
        proxy = Socks(port)
        async with serving(proxy.handle) as proxy_port:
            address = f"socks5://user:password@127.0.0.1:{proxy_port}"
            async with httpx.AsyncClient(transport=GatewayTransport(proxy=address)) as client:
                if variable is not None:
                    environment.setenv(variable, address)
                async with session(None, http_client=None if variable else client) as sending:
                    assert await CALLS["create_customer"](sending) == {}

    assert (proxy.methods, proxy.login) == (b"\0\2", b"")
    assert len(gateway.requests) == 1


@pytest.mark.parametrize("bound", [ANY_IPV4, b"\4" + bytes(18), b"\3\4name\0\0"])
@pytest.mark.parametrize(
    ("host", "target"),
    [("192.0.2.1", b"\1\xc0\0\2\1"), ("[2001:db8::1]", b"\4\x20\1\x0d\xb8" + bytes(11) + b"\1")],
)
async def test_addresses_of_every_type(bound: bytes, host: str, target: bytes) -> None:
    """That of the gateway is told as what it is; that of the proxy is passed over."""
    gateway = Gateway()
    async with serving(gateway.handle) as port:
        proxy = Socks(port, answer=b"\5\0\0" + bound)
        async with (
            serving(proxy.handle) as proxy_port,
            session(f"socks5://127.0.0.1:{proxy_port}", base_url=f"http://{host}") as sending,
        ):
            assert await CALLS["order_history"](sending) == {}

    assert proxy.target == target + b"\0P"


REFUSALS: Final[dict[str, tuple[Socks, str, str]]] = {
    "HTTP": (Socks(hello=b"HTTP/1.1 400 -\r\n\r\n"), "", NO_SOCKS),
    "a login": (Socks(hello=b"\5\xff"), "", "wants a user name and a password"),
    "a login that was not offered": (Socks(hello=LOGIN), "", "wants a user name and a password"),
    "no method": (Socks(hello=b"\5\xff"), "user:password@", REFUSED_LOGIN),
    "no login": (Socks(hello=LOGIN, verdict=b"\1\1"), "user:password@", REFUSED_LOGIN),
    "a long login": (Socks(hello=LOGIN), f"{'u' * 256}:password@", TOO_LONG),
    "forbidden": (Socks(answer=b"\5\2\0" + ANY_IPV4), "", FORBIDDEN),
    "another failure": (Socks(answer=b"\5\1\0" + ANY_IPV4), "", f"{NO_TUNNEL}: SOCKS5 failure 1"),
    "hangs up": (Socks(hello=b"\5"), "", NO_TUNNEL),
    "hangs up after the login": (Socks(hello=LOGIN, verdict=b"\1"), "user:password@", NO_TUNNEL),
    "hangs up in its answer": (Socks(answer=DONE[:-1]), "", NO_TUNNEL),
}


@pytest.mark.parametrize(("proxy", "userinfo", "reason"), REFUSALS.values(), ids=REFUSALS)
async def test_a_proxy_that_refuses(proxy: Socks, userinfo: str, reason: str) -> None:
    """Nothing was sent, and the reason is said without what the proxy was told."""
    async with (
        serving(proxy.handle) as port,
        session(f"socks5://{userinfo}127.0.0.1:{port}") as sending,
    ):
        # The second time, calls wait for what becomes of the first one.
        for number in (1, 2):
            calls = (CALLS["create_customer"](sending) for _ in range(number))
            for error in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(error, ConnectionFailedError)
                assert isinstance(error.__cause__, httpx.ProxyError)
                assert error.outcome is Outcome.NOT_SENT
                assert error.reason == reason
                place = f"no connection to {HOST}:80: the proxy 127.0.0.1:{port}"
                assert f"{place} {reason}; proxy= or " in str(error)
                is_transient = reason.startswith(NO_TUNNEL) and reason != FORBIDDEN
                assert (error.advice is Advice.REPEAT) == is_transient


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_what_comes_behind_its_answer_is_not_the_reply(
    authority: Authority, scheme: str
) -> None:
    async with (
        serving(Socks(answer=DONE + b"!").handle) as port,
        session(
            f"socks5://127.0.0.1:{port}", base_url=f"{scheme}://{HOST}", verify=authority.path
        ) as sending,
    ):
        with pytest.raises(ConnectionFailedError) as caught:
            await CALLS["create_customer"](sending)

    assert caught.value.outcome is Outcome.NOT_SENT
