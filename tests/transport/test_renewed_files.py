"""Certificates and authorities on the disk that are renewed while a session lives."""

import asyncio
import logging
import os
import shutil
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from gateway_sdk import ConnectionFailedError, GatewaySession
from gateway_sdk._transport.route import Route
from tests.support.calls import CALLS
from tests.support.certificates import Authority
from tests.support.proxies import Gateway
from tests.support.raw_server import OK, serving

CALL: Final = CALLS["order_history"]


class Folder:
    """The files of a client, and a gateway that is renewed with them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.authority = Authority(path, "first")
        self.gateway = Gateway(OK.replace(b"200 OK", b"200 OK\r\nConnection: close"))
        self.install()

    def renew(self) -> None:
        self.authority = Authority(self.path, "second")

    def install(self, *names: str) -> None:
        """Put files in their places, in one step each."""
        certificate, key = self.authority.certify("client.test")
        files = {"ca.pem": self.authority.path, "client.crt": certificate, "client.key": key}
        for name in names or files:
            new = self.path / "new"
            shutil.copy(files[name], new)
            new.replace(self.path / name)

    @asynccontextmanager
    async def session(self, **options: Any) -> AsyncIterator[tuple[GatewaySession, int]]:
        context = self.authority.demanding()
        async with serving(self.gateway.handle, context) as port:
            given = {
                "verify": self.path / "ca.pem",
                "cert": (self.path / "client.crt", self.path / "client.key"),
                "access_token": "t",
                "retry": None,
                **options,
            }
            async with GatewaySession(f"https://127.0.0.1:{port}", **given) as session:
                yield session, port

    @asynccontextmanager
    async def renewed_gateway(self, session: GatewaySession) -> AsyncIterator[None]:
        """Let the session's next connections lead to a gateway with the new certificates."""
        async with serving(self.gateway.handle, self.authority.demanding()) as port:
            engine: Any = session._caller.shared._transport
            engine._route._dialler._port = port
            yield


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Provide a list that gets longer with each load."""
    loads, load = list[None](), Route._load

    def loading(route: Route) -> ssl.SSLContext:
        loads.append(None)
        return load(route)

    monkeypatch.setattr(Route, "_load", loading)
    return loads


async def test_the_same_files_are_read_once(folder: Folder, loads: list[None]) -> None:
    """Also by callers that come together after they have changed."""
    async with folder.session() as (session, _):
        for _ in range(3):
            assert await CALL(session) == {}
        assert len(loads) == 1
        folder.install()
        await asyncio.gather(*(CALL(session) for _ in range(5)))

    assert len(loads) == 2
    assert len(folder.gateway.received) == 8


@pytest.mark.parametrize("names", [["client.crt"], ["client.key"]], ids=lambda names: names[0])
async def test_half_of_a_pair_keeps_the_old_one(
    folder: Folder, caplog: pytest.LogCaptureFixture, names: list[str]
) -> None:
    """With one warning; when the other half comes, the new pair is used."""
    async with folder.session() as (session, _):
        folder.install(*names)  # of a new pair
        for _ in range(2):
            assert await CALL(session) == {}
        assert [(one.levelno, "old ones stay" in one.message) for one in caplog.records] == [
            (logging.WARNING, True)
        ]
        folder.renew()
        folder.install()
        async with folder.renewed_gateway(session):
            assert await CALL(session) == {}


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_text("garbage")])
async def test_a_file_that_is_gone_keeps_the_old_one(
    folder: Folder, harm: Callable[[Path], object]
) -> None:
    async with folder.session() as (session, _):
        harm(folder.path / "ca.pem")
        assert await CALL(session) == {}
        folder.install("ca.pem")
        assert await CALL(session) == {}


async def test_files_that_change_during_a_handshake_are_read_once_more(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate that is not valid is worth one more look, and not a second one."""
    async with folder.session() as (session, _):
        assert await CALL(session) == {}
        folder.renew()
        engine: Any = session._caller.shared._transport
        connect, tries = engine._route._dialler.connect, list[None]()

        async def connecting() -> Any:
            connection = await connect()
            tries.append(None)
            if len(tries) == 3:
                folder.install()
            return connection

        monkeypatch.setattr(engine._route._dialler, "connect", connecting)
        async with folder.renewed_gateway(session):
            for _ in range(2):
                with pytest.raises(ConnectionFailedError, match="its certificate is not valid"):
                    await CALL(session)
            assert len(tries) == 2
            assert await CALL(session) == {}
            assert len(tries) == 4


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
async def test_authorities_of_the_environment(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Files by their names; of a folder OpenSSL looks for what is in it by itself."""
    place = folder.path / "ca.pem"
    if variable == "SSL_CERT_DIR":
        place = folder.path / "authorities"
        place.mkdir()
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(place))
    async with folder.session(verify=True, cert=None) as (session, _):
        engine: Any = session._caller.shared._transport
        before = engine._route._stamp_of()
        assert before == engine._route._stamp_of()
        assert len(before) == 1
        os.utime(place, ns=(1, 1))
        assert engine._route._stamp_of() != before


async def test_a_context_of_the_user_is_left_alone(folder: Folder) -> None:
    context = folder.authority.client()
    async with folder.session(verify=context, cert=None) as (session, _):
        engine: Any = session._caller.shared._transport
        assert engine._route._stamp_of() == []
        assert await engine._route.tls() is context
