"""Items of unknown outcome: which they are, and what a person has found out about them."""

from os import PathLike
from pathlib import Path
from typing import Any, Final

from gateway_sdk.bulk._journal import ENTRIES, SqliteLedger, entry_of, reading
from gateway_sdk.bulk._source import digest_of, value_text
from gateway_sdk.bulk.results import Entry
from gateway_sdk.errors import InvalidArgumentError

_UNKNOWN: Final = "where state in ('unknown', 'begun') order by id"


def unknown(journal: str | PathLike[str]) -> list[Entry]:
    """Return the items of a journal whose outcome is unknown: a person has to look at the gateway.

    Each has a request that must not be made twice and may have been carried out. An item in the
    state BEGUN is under way, or its run died. The journal may be that of a run that is under way.

    Returns:
        The entries, in the order of the rows; empty without such items.

    Raises:
        JournalError: the journal is missing, damaged, or no journal.
    """
    with reading(journal) as database:
        return list(map(entry_of, database.execute(f"{ENTRIES} {_UNKNOWN}")))


def settle(
    journal: str | PathLike[str],
    job: str | None,
    key: object,
    *,
    done: Any = ...,
    not_done: bool = False,
) -> None:
    """Close an item of unknown outcome, after a person has looked at the gateway.

    If it was done, every later run yields the value that you give, from the journal. If it was not,
    the next run makes it. The decision is kept in the table `decisions` of the journal, with its
    time. Blocks: call it with `asyncio.to_thread` in a service.

    Args:
        journal: The journal of a bulk run. No run may have it open.
        job: The job of the run; None for any.
        key: What `key=` of the run returned for the item; without `key=`, the item itself. Or
            `Entry.key`, of `unknown`.
        done: The value of the item, as the gateway would have answered: what pydantic writes as
            JSON. None is a value too.
        not_done: Whether it was not done.

    Raises:
        InvalidArgumentError: neither or both of *done* and *not_done* are given, or the value or
            the key is no JSON value.
        JournalError: the item is not in the journal, or its outcome is known; the journal is
            missing, another job's, or in use. Nothing was changed.
    """
    if (done is ...) is not bool(not_done):
        raise InvalidArgumentError("give either done=, with the value, or not_done=True")
    digest = key if isinstance(key, bytes) else digest_of(key)
    try:
        value = None if done is ... else value_text(done)
    except Exception as error:  # noqa: BLE001 - its text may show the value
        problem = f"cannot be written as JSON ({type(error).__name__})"
        raise InvalidArgumentError(problem, field="done") from None
    with reading(journal):  # else it would be created
        pass
    SqliteLedger(Path(journal), job, retry_failed=False, patience=0).settle(digest, value)
