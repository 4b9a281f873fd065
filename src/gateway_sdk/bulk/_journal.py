"""The ledger of one machine: an SQLite file, written by one thread."""

import asyncio
import os
import sqlite3
import stat
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import fields
from datetime import UTC, datetime
from itertools import groupby
from math import inf
from operator import attrgetter
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeVar

from gateway_sdk._files import LockFile
from gateway_sdk._python import Log
from gateway_sdk._waiting import to_the_end
from gateway_sdk.bulk._source import digest_of, value_text
from gateway_sdk.bulk._wal import VERSION, begin_log, end_log, problem_of_log
from gateway_sdk.bulk.results import Entry, Failure, State
from gateway_sdk.errors import InvalidArgumentError, JournalError
from gateway_sdk.operations import OPERATIONS
from gateway_sdk.outcome import Advice, Repeatability

T = TypeVar("T")

_logger = Log("gateway_sdk.bulk.journal")

_IN_SQLITE: Final = 1.0
"""Seconds for which SQLite waits for a lock, before this is worth a warning."""

_LONGEST_PAUSE: Final = 1.0
"""Seconds between two tries to get a lock; the first pause is short, and each is doubled."""

_APPLICATION: Final = 0x67776A6C  # "gwjl", which tells a journal from other SQLite files

_LOG_PAGES: Final = 1000
"""Pages of 16 kB in the write-ahead log before they are copied into the file and synced."""

_SCHEMA: Final = f"""
pragma page_size = 16384;
begin;
pragma application_id = {_APPLICATION};
pragma user_version = {VERSION};
create table run(job text not null);
create table items(
  id integer primary key, key blob not null, state text not null, once integer not null,
  error text, message text, operation text, outcome text, status integer, advice text,
  writes text,
  attempts integer not null, elapsed real not null, time text not null,
  item text, value text
);
"""

_FAILURE: Final = tuple(column.name for column in fields(Failure))
_OF_FAILURE: Final = attrgetter(*_FAILURE)
_COLUMNS: Final = (
    "key", "state", "once", *_FAILURE, "attempts", "elapsed", "time", "item", "value",
)  # fmt: skip


def _parameter(column: str) -> str:
    # To pass None costs sqlite3 ten times as much as a text, and so do a bool and bytes.
    return "nullif(?, '')" if column in (*_FAILURE, "item", "value") else "?"


# An item keeps the place of its first entry: rows that are appended in order, with an index in
# memory, take a quarter of the time and of the space of rows in the order of random keys.
def _write(columns: Sequence[str]) -> str:
    return f"""
insert into items(id, {", ".join(columns)}) values(?, {", ".join(map(_parameter, columns))})
on conflict(id) do update
set {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS)} where state <> 'done'
"""


# By the length of a row: the eight columns of a failure are passed where there is one.
_WRITES: Final = {
    1 + len(columns): _write(columns)
    for columns in (_COLUMNS, [name for name in _COLUMNS if name not in _FAILURE])
}

ENTRIES: Final = "select * from items"
_READ: Final = f"{ENTRIES} where id = ?"
# A value that is no JSON may be mended too, with dump=, and a wrong setting, which is about all
# items; where a write was done they say "check".
_PLACES: Final = """
select id, key, state,
  iif(advice = 'fix' and error in ('JournalError', 'ConfigurationError', 'MissingExtraError'),
    'repeat', advice),
  operation, status from items
"""
_TAKE: Final = "update run set job = ? where not exists (select * from items)"
_END_BEGUN: Final = """
update items set state = 'unknown', error = 'ReplyLostError',
  message = 'an earlier run ended before the call did', outcome = 'UNKNOWN', advice = 'check'
where state = 'begun'
"""

_DECISIONS: Final = """
create table if not exists decisions(
  time text not null, found text not null, item integer not null,
  error text, message text, operation text, failed text not null
)
"""
_DECIDE: Final = """
insert into decisions select ?, ?, id, error, message, operation, time from items where id = ?
"""

_NOT_ENDED: Final = (State.BEGUN, State.INTERRUPTED)
_REPEATED: Final = frozenset({Advice.REPEAT, Advice.LOG_IN})
_READS: Final = {it.name for it in OPERATIONS if it.repeatability is Repeatability.READ}
_FINAL: Final = {*range(400, 500)} - {401, 403, 407}
"""Statuses of replies that are about the request, not about the access to the gateway."""


def entry_of(row: Sequence[Any]) -> Entry:
    """Read a row of `ENTRIES`."""
    read: dict[str, Any] = dict(zip(_COLUMNS, row[1:], strict=True))
    failure: dict[str, Any] = {name: read.pop(name) for name in _FAILURE}
    if failure["advice"] is not None:
        failure["advice"] = Advice(failure["advice"])
        read["failure"] = Failure(**failure)
    read["time"] = datetime.fromisoformat(str(read["time"])) if read["time"] else None
    read |= {"state": State(read["state"]), "once": bool(read["once"])}
    return Entry(**read)


class SqliteLedger:
    _database: sqlite3.Connection
    _takes_job = True  # of an empty journal, over from another run

    def __init__(
        self, path: Path, job: str | None, *, retry_failed: bool, patience: float | None
    ) -> None:
        self._path, self._place = path, path.absolute()  # the program may change its folder
        self._job = job
        self._retry_failed = retry_failed
        self._patience = inf if patience is None else patience
        self._thread = ThreadPoolExecutor(1, "gateway_sdk.journal")
        self._places: dict[bytes, int] = {}  # of the rows; negative if the item is begun again
        self._file: os.stat_result | None = None
        self._opened = ExitStack()

    async def open(self) -> None:
        await self._in_thread(self._open)

    def has(self, key: bytes) -> bool:
        return self._places.get(key, 0) > 0

    async def read(self, keys: Sequence[bytes]) -> Sequence[Entry]:
        return await self._in_thread(lambda: [self._read(key) for key in keys])

    async def write(self, entries: Sequence[Entry]) -> None:
        await self._in_thread(lambda: self._write(entries))

    async def aclose(self) -> None:
        await self._in_thread(self._opened.close)
        self._thread.shutdown(wait=False)

    def settle(self, key: bytes, value: str | None) -> None:
        """Close an item of unknown outcome, with a value or, if it was not done, with None."""
        self._takes_job = False
        try:
            self._open()
            entry = self._read(key) if key in self._places else None
            # One that was settled as not done keeps its failure until a run begins it.
            is_open = entry and entry.failure and entry.state in (State.UNKNOWN, State.INTERRUPTED)
            if entry is None or not is_open:
                raise self._error("has no item with this key whose outcome is unknown")
            entry.state, entry.value = State.INTERRUPTED, value
            if value is not None:
                entry.state, entry.failure = State.DONE, None
            self._write([entry], found="not done" if value is None else "done")
        except sqlite3.OperationalError:
            raise self._error(f"{_LOCKED}: end that first") from None
        finally:
            self._opened.close()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        loop, began, pause = asyncio.get_running_loop(), monotonic(), 0.0
        while True:
            try:
                # A thread cannot be cancelled, and uses the file.
                return await to_the_end(loop.run_in_executor(self._thread, work))
            except sqlite3.OperationalError:  # the others are errors of ours
                if (left := began + self._patience - monotonic()) <= 0:
                    self._patience = 0.0  # the writes that come after it try once
                    raise self._error(f"{_LOCKED}; its rows are kept: run the same again") from None
            if not pause:
                _logger.warning("the journal %s %s: the run waits", self._path, _LOCKED)
            pause = min(2 * pause or _LONGEST_PAUSE / 16, _LONGEST_PAUSE, left)
            await asyncio.sleep(pause)

    def _open(self) -> None:
        self._opened.close()  # of a try that met a lock
        with self._errors("cannot be opened"):
            # SQLite puts its own files beside the file that a link leads to.
            path = Path(os.path.realpath(self._place))
            # Not the lock of SQLite, which would keep readers out too.
            lock = LockFile(path.with_name(f"{path.name}-lock"))
            if not lock.acquire():
                raise self._error(
                    "is in use by another run: wait for its end; if it is a run of this program "
                    "whose loop you left early, use contextlib.aclosing there"
                )
            self._opened.callback(lock.release)
            # After the lock: to close a file ends all locks that SQLite has on it in this process.
            self._create(path)
            self._database = database = sqlite3.connect(
                path, timeout=_IN_SQLITE, isolation_level=None
            )
            self._opened.callback(database.close)
            self._check_origin(database)
            self._opened.callback(end_log, database)
            begin_log(database)
            database.execute("pragma synchronous = normal")
            database.execute(f"pragma wal_autocheckpoint = {_LOG_PAGES}")
            database.execute(_END_BEGUN)
            for place, key, *said in database.execute(_PLACES):
                self._places[key] = place if self._counts(*said) else -place
            if len(self._places) != max(map(abs, self._places.values()), default=0):
                raise self._error(f"is damaged: rows are missing; {_LOOK_FIRST}")

    def _create(self, path: Path) -> None:
        """Create the file if it is missing, for its user only."""
        if problem := problem_of_log(path):
            raise self._error(problem)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._file = os.fstat(descriptor)
        os.close(descriptor)
        if not stat.S_ISREG(self._file.st_mode):
            raise self._error("is not an ordinary file")
        if self._file.st_size == 1:  # which SQLite takes for an empty file
            raise self._error("is no journal: give another file")

    def _check_origin(self, database: sqlite3.Connection) -> None:
        (application,) = database.execute("pragma application_id").fetchone()
        (version,) = database.execute("pragma user_version").fetchone()
        (tables,) = database.execute("select count(*) from sqlite_schema").fetchone()
        if not (application or tables):
            database.executescript(_SCHEMA)
            database.execute("insert into run values(?)", (self._job,))
            database.execute("commit")
        elif application != _APPLICATION:
            raise self._error("is of another program: give another file")
        elif abs(version) != VERSION:
            raise self._error(
                "is of another version of gateway_sdk: end its run with that version; another file "
                "would send its items again"
            )
        ((job,),) = database.execute("select job from run").fetchall() or [("",)]
        if self._job in (None, job):
            return
        if not (self._takes_job and database.execute(_TAKE, (self._job,)).rowcount):
            raise self._error(
                f"belongs to the job {job!r}, not to {self._job!r}: give another file"
            )

    def _counts(
        self, state: str, advice: str | None, operation: str | None, status: int | None
    ) -> bool:
        """Tell whether an entry of an earlier run is the result of its item."""
        if state == State.FAILED and self._retry_failed:
            # A proxy may have answered with its page or a redirect; to read again does no harm.
            is_final = status is None or status in _FINAL or operation not in _READS
            return advice not in _REPEATED and (is_final or advice != Advice.FIX)
        return state != State.INTERRUPTED

    def _read(self, key: bytes) -> Entry:
        with self._errors("cannot be read"):
            found = self._database.execute(_READ, (abs(self._places[key]),)).fetchone()
            if found is None or (entry := entry_of(found)).key != key:
                raise self._error("was changed by others during the run")
            return entry

    def _write(self, entries: Sequence[Entry], *, found: str | None = None) -> None:
        self._check_file()
        is_synced = found is not None or any(entry.state is State.BEGUN for entry in entries)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        added: dict[bytes, int] = {}
        rows = [self._row(entry, now, added) for entry in entries]
        with self._errors("cannot be written"):
            # "full" syncs the write-ahead log with each transaction, "normal" when it is copied.
            self._database.execute(f"pragma synchronous = {'full' if is_synced else 'normal'}")
            self._database.execute("begin immediate")
            try:
                if found is not None:
                    self._database.execute(_DECISIONS)
                    self._database.execute(_DECIDE, (now, found, rows[0][0]))
                for length, alike in groupby(rows, len):
                    self._database.executemany(_WRITES[length], alike)
                self._database.execute("commit")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._database.execute("rollback")
                raise
        for entry, row in zip(entries, rows, strict=True):
            has_ended = entry.state not in _NOT_ENDED or self.has(entry.key)  # for good
            self._places[entry.key] = row[0] if has_ended else -row[0]

    def _row(self, entry: Entry, now: str, added: dict[bytes, int]) -> tuple[Any, ...]:
        """Return a row; a new item has the next place, which counts if the row is written."""
        key = entry.key
        place = abs(self._places.get(key, 0))
        return (
            place or added.setdefault(key, len(self._places) + len(added) + 1),
            bytearray(key),
            str(entry.state),
            int(entry.once),
            *(_OF_FAILURE(entry.failure) if entry.failure else ()),
            entry.attempts,
            int(entry.elapsed * 1e6) / 1e6,
            now,
            entry.item or "",
            entry.value or "",
        )

    def _check_file(self) -> None:
        """Refuse to write to a file that was deleted or replaced: nobody would find the rows."""
        with suppress(OSError):
            if self._file and os.path.samestat(self._file, self._place.stat()):
                return
        raise self._error("was deleted or replaced during the run")

    @contextmanager
    def _errors(self, what: str) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise self._error(f"{what}: {error.strerror}") from None
        except (sqlite3.Error, MemoryError, ValueError) as error:  # a damaged length, or state
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_BUSY:
                raise  # it is tried again
            problem = f"is no journal or is damaged: {reason_of(error)}; {_LOOK_FIRST}"
            if code and isinstance(error, sqlite3.OperationalError):  # of the disk
                problem = f"{what}: {error}; its rows are kept: run the same again"
            raise self._error(problem) from None

    def _error(self, what: str) -> JournalError:
        return JournalError(f"the journal {self._path} {what}")


@contextmanager
def reading(journal: str | PathLike[str]) -> Generator[sqlite3.Connection]:
    """Open one snapshot of a journal for reading, also during its run."""
    if not Path(journal).is_file():
        raise JournalError(f"there is no journal {journal}")
    if problem := problem_of_log(Path(journal)):
        raise JournalError(f"the journal {journal} {problem}")
    uri = f"{Path(journal).absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            database.execute("begin")
            database.execute(_READ, (0,))
            yield database
    except InvalidArgumentError:
        raise
    except (sqlite3.Error, ValueError) as error:
        raise JournalError(f"the journal {journal} cannot be read: {reason_of(error)}") from None


_LOOK_FIRST: Final = (
    "before you give another file, look at the gateway: items that were begun are sent again"
)
_LOCKED: Final = "is locked by another program, such as one that reads it with an open cursor"


def reason_of(error: Exception) -> str:
    """Return the text of an error of SQLite's; others may show the text of a row."""
    return str(error) if hasattr(error, "sqlite_errorcode") else "a row is not as it was written"


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
    the next run makes it, and until then you can decide again. Each decision is kept in the table
    `decisions` of the journal, with its time. Blocks: call it with `asyncio.to_thread` in a
    service.

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
