"""Forward proxies that go away during calls, and one that answers in place of the gateway."""

import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from gateway_sdk import GatewaySession
from tests.real.load import MIX, PACE, check, disturb_under_load, lost, open_session, violations
from tests.real.programs import Program, find, running
from tests.real.upstream import Upstream, serving_upstream
from tests.support.certificates import Authority
from tests.support.ports import free_port
from tests.support.witness import Witness

HOST: Final = "127.0.0.1"
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


PROXIES: Final[dict[str, Serve]] = {"squid": squid, "tinyproxy": tinyproxy}


@asynccontextmanager
async def through(
    program: Program, scheme: str, folder: Path, witness: Witness, **options: Any
) -> AsyncIterator[tuple[Upstream, GatewaySession]]:
    context = None
    if scheme == "https":
        authority = Authority(folder, "authority")
        context, options["verify"] = authority.server(HOST), authority.path
    options["proxy"] = f"http://{HOST}:{program.port}"
    async with serving_upstream(context) as upstream:
        url = f"{scheme}://{HOST}:{upstream.port}"
        async with open_session(url, witness, **options) as gateway:
            yield upstream, gateway


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", PROXIES)
async def test_a_proxy_that_is_killed(name: str, scheme: str, folder: Path, tmp_path: Path) -> None:
    """What is said of the calls of that time is true, and what may be repeated succeeds."""
    witness = Witness()
    with PROXIES[name](folder) as program:
        async with through(program, scheme, tmp_path, witness, rate_limit=PACE) as (
            upstream,
            gateway,
        ):
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
