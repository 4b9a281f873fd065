"""Idle connections that a server closes in the moment in which they are used again."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from gateway_sdk import RateLimit
from tests.real import servers
from tests.real.ledger import CALL, Ledger
from tests.real.load import check, make_calls, open_session
from tests.real.servers import Place
from tests.support.witness import Witness

EXACT: Final = (0.985, 0.99, 0.995, 1.0, 1.005)
"""Seconds from one use of a connection to the next: just when it is closed."""
LATE: Final = (1.0, 1.15, 1.3, 1.45, 1.6)
"""For a server that looks only now and then which connections are to be closed."""
SERVERS: Final[dict[str, tuple[servers.Serve, tuple[float, ...]]]] = {
    "nginx": (servers.nginx, EXACT),
    "haproxy": (servers.haproxy, EXACT),
    "gunicorn": (servers.gunicorn, LATE),
    "granian": (servers.granian, EXACT),
    "hypercorn": (servers.hypercorn, EXACT),
    "uvicorn": (servers.uvicorn, EXACT),
}
KEEP_ALIVE: Final = 1
AT_ONCE: Final = 10

Bursts = Callable[[Place, Witness], Coroutine[Any, Any, None]]


async def at_once(place: Place, witness: Witness) -> None:
    async with open_session(place.url, witness) as gateway:
        await make_calls(gateway, witness, "before-0", AT_ONCE)
        await make_calls(gateway, witness, "before-1", AT_ONCE)


async def when_it_ends(place: Place, witness: Witness, *, pause: float) -> None:
    pace = RateLimit(AT_ONCE, seconds=pause)
    async with open_session(
        place.url, witness, rate_limit=pace, max_connections=AT_ONCE
    ) as gateway:
        await make_calls(gateway, witness, f"at-{pause}", 2 * AT_ONCE)


async def when_it_has_ended(place: Place, witness: Witness) -> None:
    """Use connections again after the server has closed those that became idle after them."""
    async with open_session(place.url, witness) as gateway:
        await make_calls(gateway, witness, "after-0", AT_ONCE)
        # Each process of a server closes its own connections, when it looks.
        waits_for = processes(place.ledger(), "after-0")
        for number in itertools.count():
            probes = [f"probe-{number}-{count}" for count in range(AT_ONCE)]
            kept = await asyncio.gather(*(was_kept(place, probe) for probe in probes))
            for probe in itertools.compress(probes, kept):
                waits_for -= processes(place.ledger(), probe)
            if not waits_for:
                break
        await make_calls(gateway, witness, "after-1", AT_ONCE)


async def was_kept(place: Place, call: str) -> bool:
    """Use a connection once, wait until it is closed, and tell whether it was idle before.

    A server with many connections may close it at once.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", place.program.port)
    writer.write(f"GET / HTTP/1.1\r\nHost: gateway\r\n{CALL}: {call}\r\n\r\n".encode())
    await reader.readuntil(b"\r\n")
    began = asyncio.get_running_loop().time()
    await reader.read()
    writer.close()
    return asyncio.get_running_loop().time() - began > KEEP_ALIVE / 2


def processes(ledger: Ledger, name: str) -> set[str]:
    return {used.partition("-")[0] for used in connections(ledger, name)}


def connections(ledger: Ledger, name: str) -> set[str]:
    return {used for call, used in ledger.connections.items() if call.startswith(name)}


@pytest.mark.parametrize("name", SERVERS)
async def test_connections_that_are_closed_after_a_second(name: str, folder: Path) -> None:
    """A write over a connection that is being closed is not lost, and not made twice."""
    serve, pauses = SERVERS[name]
    bursts: list[Bursts] = [at_once, when_it_has_ended]
    bursts += [partial(when_it_ends, pause=pause) for pause in pauses]
    witnesses = [Witness() for _ in bursts]
    async with serve(folder, KEEP_ALIVE) as place, asyncio.TaskGroup() as sessions:
        for make, witness in zip(bursts, witnesses, strict=True):
            sessions.create_task(make(place, witness))

    ledger = place.ledger()
    for witness in witnesses:
        check(witness, ledger)
    assert connections(ledger, "before-0") & connections(ledger, "before-1")
    assert connections(ledger, "after-1") - connections(ledger, "after-0")
