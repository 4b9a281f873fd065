"""Refusals that come before an upload was read: they are seen, and no lie is told."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from gateway_sdk import Outcome, StatusError
from tests.real import servers
from tests.real.load import TALLY, check, open_session
from tests.support.calls import Call
from tests.support.witness import Record, Witness

SERVERS: Final[dict[str, servers.Serve]] = {"nginx": servers.nginx, "haproxy": servers.haproxy}
SIZE: Final = 5 * 2**20
TIMES: Final = 40
SEEN: Final = 39
"""At least so many of them are seen, also beside other work."""
STATUSES: Final = (401, 413, 429)


async def stream(folder: Path) -> AsyncIterator[bytes]:
    for _ in range(SIZE // 2**16):
        yield bytes(2**16)


def file(folder: Path) -> Path:
    path = folder / "document.bin"
    path.write_bytes(bytes(SIZE))
    return path


DOCUMENTS: Final[dict[str, Callable[[Path], Any]]] = {
    "bytes": lambda folder: bytes(SIZE),
    "file": file,
    "stream": stream,
}


def upload(document: Any) -> Call:
    return lambda gateway: gateway.aml.upload_document(document)


def is_true(record: Record, status: int) -> bool:
    """Tell whether a call says that it was refused, by the status, or that it does not know."""
    if isinstance(record.error, StatusError):
        return (record.error.status, record.outcome) == (status, Outcome.REFUSED)
    return record.error is not None and record.outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("name", SERVERS)
async def test_an_upload_that_is_refused_before_it_was_read(
    name: str, document: str, status: int, folder: Path
) -> None:
    """It is refused with the status that the server sent; nothing was executed.

    Where the system has forgotten the reply by then, it is unknown, which must be rare.
    """
    witness = Witness()
    async with (
        SERVERS[name](folder, 5) as place,
        open_session(f"{place.url}/{status}", witness, retry=None) as gateway,
    ):
        for number in range(TIMES):
            how = upload(DOCUMENTS[document](folder))
            await witness.call(gateway, "upload_document", str(number), how)
        ledger = place.ledger()

    check(witness, ledger)
    assert not ledger.executed
    assert [record for record in witness.records if not is_true(record, status)] == []
    seen = sum(isinstance(record.error, StatusError) for record in witness.records)
    assert seen >= SEEN
    TALLY[f"refusals of an upload by {name}"] += TIMES
    TALLY[f"refusals of an upload by {name}, seen"] += seen
