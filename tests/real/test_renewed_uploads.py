"""Uploads whose token has expired: the 401 comes before they were read, the second try succeeds."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from gateway_sdk import NotFoundError
from tests.real import servers
from tests.real.ledger import EXPIRED
from tests.real.load import TALLY, check, open_session
from tests.support.witness import Witness

SERVERS: Final[dict[str, servers.Serve]] = {
    "gunicorn": servers.gunicorn,
    "hypercorn": servers.hypercorn,
    "lighttpd": servers.lighttpd,
}
"""Only lighttpd says that it closes a connection whose upload it has not read."""
SIZES: Final = (60_000, 150_000, 300_000, 2_000_000)
"""Bytes of a document; the first leaves in one write, and its connection may be used again."""
TIMES: Final = 80
AT_ONCE: Final = 6
SMALL: Final = 60


class Renewing:
    """Gives each call a token that is refused, and then another."""

    async def token(self, rejected: object = None) -> str:
        return "renewed" if rejected else EXPIRED


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SERVERS)
async def test_an_upload_is_made_with_a_renewed_token(name: str, size: int, folder: Path) -> None:
    """No second attempt is lost to a connection that is closed a moment after the 401."""
    witness, document, numbers = Witness(), bytes(size), iter(range(TIMES))

    async def keep_uploading() -> None:
        for number in numbers:
            await witness.call(
                gateway,
                "upload_document",
                str(number),
                lambda view: view.aml.upload_document(document),
            )

    async with (
        SERVERS[name](folder, 5) as place,
        open_session(place.url, witness, access_token=Renewing(), retry=None) as gateway,
    ):
        async with asyncio.TaskGroup() as callers:
            for _ in range(AT_ONCE):
                callers.create_task(keep_uploading())
        ledger = place.ledger()

    failed = [(record.outcome, record.error) for record in witness.records if record.error]
    TALLY[f"renewed uploads of {size} bytes to {name}"] += TIMES
    TALLY[f"renewed uploads of {size} bytes to {name}, failed"] += len(failed)
    check(witness, ledger)
    assert not failed, f"{len(failed)} of {TIMES}: {failed[0]}"
    assert ledger.executed == {str(number): 1 for number in range(TIMES)}
    statuses = [[attempt.status for attempt in record.attempts] for record in witness.records]
    assert statuses == [[401, 200]] * TIMES


async def test_small_calls_that_are_refused_use_one_connection(folder: Path) -> None:
    """What left in one write needs no connection of its own, although it was not read."""
    witness = Witness()
    async with (
        servers.gunicorn(folder, 5) as place,
        open_session(f"{place.url}/404", witness) as gateway,
    ):
        for number in range(SMALL):
            await witness.call(gateway, "revise_customer", str(number))
        ledger = place.ledger()

    assert all(isinstance(record.error, NotFoundError) for record in witness.records)
    assert len(ledger.arrived) == SMALL
    assert len(set(ledger.connections.values())) == 1
