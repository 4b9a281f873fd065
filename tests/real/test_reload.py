"""Servers that are reloaded, or lose a worker, while they are busy."""

import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.real import servers
from tests.real.load import PACE, check, disturb_under_load, lost, open_session
from tests.real.servers import Place
from tests.support.witness import Witness

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="not tested, because /proc was not found"
)
Disturb = Callable[[Place], Awaitable[None]]


def reload(number: signal.Signals) -> Disturb:
    return lambda place: place.program.reload(number)


SERVERS: Final[dict[str, tuple[servers.Serve, tuple[Disturb, ...]]]] = {
    "nginx": (servers.nginx, (reload(signal.SIGHUP), Place.kill_worker, Place.restart)),
    "haproxy": (servers.haproxy, (reload(signal.SIGUSR2), Place.restart)),
    "gunicorn": (servers.gunicorn, (reload(signal.SIGHUP), Place.kill_worker)),
    # In this order: it ends as a whole when a worker dies that is younger than five seconds and
    # stands in for another.
    "granian": (servers.granian, (Place.kill_worker, reload(signal.SIGHUP))),
}


@pytest.mark.parametrize("name", SERVERS)
async def test_a_server_that_is_reloaded_and_killed(name: str, folder: Path) -> None:
    """What is said of the calls of that time is true, and what may be repeated succeeds."""
    witness = Witness()
    serve, disturbances = SERVERS[name]
    async with (
        serve(folder, 5) as place,
        open_session(place.url, witness, rate_limit=PACE) as gateway,
    ):
        await disturb_under_load(
            gateway, witness, *(partial(disturb, place) for disturb in disturbances)
        )
        ledger = place.ledger()

    check(witness, ledger)
    assert lost(witness) > 0
