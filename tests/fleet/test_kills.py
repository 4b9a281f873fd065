"""Worker processes and their database, killed: the short form of `python -m benchmarks.fleet`."""

from collections.abc import AsyncIterator

import pytest

from benchmarks.fleet import trials
from benchmarks.processes import server
from gateway_sdk.cli.process import Status
from tests.support.postgres_server import NEEDS_POSTGRES, PostgresServer

# Each starts several processes, again and again, which takes a while on a busy machine.
pytestmark = [NEEDS_POSTGRES, pytest.mark.timeout(120)]


@pytest.fixture
async def place(
    postgres: PostgresServer, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[trials.Place]:
    monkeypatch.setattr(trials, "LEASE", 2.0)
    with server("fleet.gateway") as gateway:
        made = trials.Place(postgres, dsn, gateway, rate=300)
        await made.job().init()
        yield made


async def test_everything_is_killed_and_nothing_is_lost(place: trials.Place) -> None:
    seen = await trials.kills(
        place, number=700, once=20, workers=2, killed=3, stops=0, database=True
    )

    assert (seen["lost"], seen["failed"], seen["once_twice"]) == (0, 0, 0)
    assert seen["unknown_never_sent"] == 0
    assert seen["rows_in_order"]
    assert seen["values"] == seen["done"] == 700 - seen["unknown"]
    # Those that were started while the database was away.
    assert set(seen["ended_by_themselves"]) <= {Status.FAILED}
    assert set(seen["exits"]) == {0}


async def test_a_worker_that_is_asked_to_end_keeps_what_is_finished(place: trials.Place) -> None:
    """And an old worker does a plan that came later."""
    place.rate = 500
    seen = await trials.term(place)

    assert seen == {"kept": seen["kept"], "again": 0, "exits": [0, 0], "later": 300}
    assert seen["kept"] >= 200


@pytest.mark.full
async def test_an_item_that_kills_its_worker_is_named(place: trials.Place) -> None:
    seen = await trials.poison(place, number=60)

    assert [number for number, _ in seen["failed"]] == [20]
    assert seen["done"] == 59
