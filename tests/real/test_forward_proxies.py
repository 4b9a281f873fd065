"""Forward proxies: of HTTP and SOCKS5, killed during calls, refusing, and answering themselves."""

import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from gateway_sdk import Advice, ConnectionFailedError, GatewaySession, Outcome
from tests.real.load import MIX, PACE, check, disturb_under_load, lost, open_session, violations
from tests.real.programs import Program, find, running
from tests.real.upstream import Upstream, serving_upstream
from tests.support.calls import CALLS
from tests.support.certificates import Authority
from tests.support.ports import free_port
from tests.support.witness import Witness

HOST: Final = "127.0.0.1"
NAME: Final = "127.1"
"""The same for the resolver of the system; no IP address for us, so that a proxy looks it up."""
SCHEMES: Final = ("http", "https")
"""A request to the proxy itself, or a tunnel through it."""

SQUID: Final = """
http_port 127.0.0.1:{port}
http_access allow all
{more}
visible_hostname localhost
dns_nameservers 127.0.0.1
cache deny all
cache_mem 0
access_log none
cache_log {folder}/cache.log
pid_filename none
netdb_filename none
coredump_dir {folder}
pinger_enable off
shutdown_lifetime 0 seconds
max_filedescriptors 1024
"""

TINYPROXY: Final = """
Port {port}
Listen 127.0.0.1
Allow 127.0.0.1
MaxClients 100
Timeout 30
LogLevel Error
"""

Serve = Callable[[Path], AbstractContextManager[Program]]


@contextmanager
def squid(folder: Path, more: str = "") -> Iterator[Program]:
    """Run squid, which gives up being root for the user who owns its folder."""
    port, path = free_port(), folder / "squid.conf"
    path.write_text(SQUID.format(port=port, folder=folder, more=more), encoding="ascii")
    command = [find("squid"), "-N", "-f", str(path)]
    if os.geteuid() == 0:
        shutil.chown(folder, "proxy", "proxy")
    with running(command, port, folder) as program:
        yield program


@contextmanager
def tinyproxy(folder: Path) -> Iterator[Program]:
    port, path = free_port(), folder / "tinyproxy.conf"
    path.write_text(TINYPROXY.format(port=port), encoding="ascii")
    with running([find("tinyproxy"), "-d", "-c", str(path)], port, folder) as program:
        yield program


@contextmanager
def microsocks(folder: Path, *more: str) -> Iterator[Program]:
    port = free_port()
    command = [find("microsocks"), "-i", HOST, "-p", str(port), *more]
    with running(command, port, folder) as program:
        yield program


PROXIES: Final[dict[str, tuple[Serve, str]]] = {
    "squid": (squid, "http"),
    "tinyproxy": (tinyproxy, "http"),
    "microsocks": (microsocks, "socks5"),
}
"""How each one is started, and the scheme of its address."""


@asynccontextmanager
async def through(
    program: Program,
    scheme: str,
    folder: Path,
    witness: Witness,
    *,
    proxy: str = "http://",
    host: str = HOST,
    **options: Any,
) -> AsyncIterator[tuple[Upstream, GatewaySession]]:
    context = None
    if scheme == "https":
        authority = Authority(folder, "authority")
        context, options["verify"] = authority.server(host), authority.path
    options["proxy"] = f"{proxy}{HOST}:{program.port}"
    async with serving_upstream(context) as upstream:
        url = f"{scheme}://{host}:{upstream.port}"
        async with open_session(url, witness, **options) as gateway:
            yield upstream, gateway


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", PROXIES)
async def test_a_proxy_that_is_killed(name: str, scheme: str, folder: Path, tmp_path: Path) -> None:
    """What is said of the calls of that time is true, and what may be repeated succeeds."""
    witness = Witness()
    serve, kind = PROXIES[name]
    options: dict[str, Any] = {"proxy": f"{kind}://", "rate_limit": PACE}
    with serve(folder) as program:
        async with through(program, scheme, tmp_path, witness, **options) as (upstream, gateway):
            restart = partial(upstream.while_busy, program.restart)
            await disturb_under_load(gateway, witness, restart, restart)

    check(witness, upstream, repeats=True)
    assert lost(witness) > 0


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_proxy_that_refuses_to_hand_on_a_reply(
    scheme: str, folder: Path, tmp_path: Path
) -> None:
    """Its 403 does not prove that a write was refused: the gateway has executed it."""
    witness = Witness()
    with squid(folder, "reply_body_max_size 1 KB all") as program:
        async with through(program, scheme, tmp_path, witness) as (upstream, gateway):
            upstream.padding = 4096
            for number, operation in enumerate(MIX):
                await witness.call(gateway, operation, str(number))

    assert len(upstream.executed) == len(MIX)
    assert [text for record in witness.records for text in violations(record, upstream)] == []
    handed_on = [record.error is None for record in witness.records]
    assert handed_on == [scheme == "https"] * len(MIX)


LOGIN: Final = ("-u", "user", "-P", "pa:ss")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("host", [HOST, NAME])
@pytest.mark.parametrize(
    ("known", "given"),
    [(LOGIN, "user:pa%3Ass@"), ((), ""), ((), "user:pa%3Ass@")],
    ids=["login", "no login", "an unwanted login"],
)
async def test_a_socks_proxy(
    scheme: str, host: str, known: tuple[str, ...], given: str, folder: Path, tmp_path: Path
) -> None:
    witness = Witness()
    options: dict[str, Any] = {
        "proxy": f"socks5://{given}",
        "host": host,
        "allow_insecure_http": True,
    }
    with microsocks(folder, *known) as program:
        async with through(program, scheme, tmp_path, witness, **options) as (upstream, gateway):
            for number, operation in enumerate(MIX):
                await witness.call(gateway, operation, str(number))

    check(witness, upstream)
    assert len(upstream.executed) == len(MIX)
    assert lost(witness) == 0


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("", "wants a user name and a password"),
        ("user:wrong@", "did not accept the user name and the password"),
        ("user:pa%3Ass@", "made no tunnel: connection refused"),
    ],
)
async def test_a_socks_proxy_that_refuses(
    scheme: str, given: str, reason: str, folder: Path
) -> None:
    """It does not accept the login, or the gateway is not there."""
    with microsocks(folder, *LOGIN) as program:
        options = {"proxy": f"socks5://{given}{HOST}:{program.port}", "retry": None}
        url = f"{scheme}://{HOST}:{free_port()}"
        async with open_session(url, Witness(), **options) as gateway:
            with pytest.raises(ConnectionFailedError) as caught:
                await CALLS["create_customer"](gateway)

    error = caught.value
    assert f": the proxy {HOST}:{program.port} {reason}" in str(error)
    assert error.outcome is Outcome.NOT_SENT
    assert (error.advice is Advice.REPEAT) == reason.startswith("made no tunnel")
