"""The database of a fleet: its tables, connections to it, and the rate limit that it keeps."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, LiteralString, Self

import psycopg

from gateway_sdk._waiting import OwnCancellation, to_the_end
from gateway_sdk.errors import ConfigurationError, JournalError
from gateway_sdk.rate_limit import Limiter, RateLimit

# A server that may only be read is one that is about to take over.
_AWAY: Final = (
    psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction
)  # fmt: skip

# A statement that lost against another one, where the isolation is higher than usual.
_LOST_RACE: Final = psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure

Connection = psycopg.AsyncConnection[Any]

_logger = logging.getLogger("gateway_sdk.fleet")

_BURST_SHARE: Final = 20
"""A twentieth of the requests may be sent at once, the others evenly: never more than asked for."""

_AHEAD: Final = 0.01
"""Seconds of permits that one question reserves."""

VERSION: Final = 1

# A chunk's items are one JSON array, written once. A result is one row per item that has a state:
# rows are inserted, seldom changed, so nothing bloats. Counters per chunk keep a status cheap.
SCHEMA: Final = """
create schema gateway_fleet;
create table gateway_fleet.version(version int not null);
create table gateway_fleet.plan(
  id int generated always as identity primary key, name text not null unique,
  queue text not null, digest bytea not null, size int not null, items bigint not null);
create table gateway_fleet.part(
  plan int not null references gateway_fleet.plan on delete cascade, number int not null,
  items json not null, primary key (plan, number));
create table gateway_fleet.chunk(
  plan int not null references gateway_fleet.plan on delete cascade, number int not null,
  queue text not null, total int not null, done int not null default 0,
  failed int not null default 0, open boolean not null default true,
  owner uuid, lease timestamptz, renewed timestamptz, pid int,
  starts int not null default 0, suspect bigint, suspicion int not null default 0,
  primary key (plan, number)) with (fillfactor = 70);
create index chunk_open on gateway_fleet.chunk(queue, plan, number) where open;
create table gateway_fleet.result(
  plan int not null references gateway_fleet.plan on delete cascade, n bigint not null,
  state text not null, once boolean not null, value json, failure json,
  attempts int not null, elapsed real not null, owner uuid, primary key (plan, n));
create index result_odd on gateway_fleet.result(plan, state, n) where state <> 'done';
create table gateway_fleet.rate(
  name text primary key, used_until double precision not null) with (fillfactor = 50);
create table gateway_fleet.worker(
  id uuid primary key, queue text not null, host text not null, seen timestamptz not null,
  lease real not null, waits_for text, since timestamptz) with (fillfactor = 50);
"""

# Permits and heartbeats do not wait for the disk: what a crash loses of them costs a moment.
_RESERVE: Final = """
insert into gateway_fleet.rate as r
select %(name)s, extract(epoch from clock_timestamp()) + (%(n)s - %(burst)s) / %(rate)s
from set_config('synchronous_commit', 'off', true)
on conflict (name) do update set used_until = greatest(r.used_until,
  extract(epoch from clock_timestamp()) - %(burst)s / %(rate)s) + %(n)s / %(rate)s
returning used_until - extract(epoch from clock_timestamp())
"""


@asynccontextmanager
async def connected(address: str, *, checked: bool = True) -> AsyncGenerator[Connection]:
    """Connect, check the tables, and raise what the database raises as a JournalError."""
    if isinstance(asyncio.get_running_loop(), getattr(asyncio, "ProactorEventLoop", ())):
        raise ConfigurationError(
            "psycopg cannot run on Windows' usual event loop: use "
            "asyncio.Runner(loop_factory=asyncio.SelectorEventLoop)"
        )
    try:
        async with await psycopg.AsyncConnection.connect(address, autocommit=True) as connection:
            if checked and not await _has_tables(connection):
                raise JournalError(
                    "the database has no tables of a fleet: run `gateway fleet init`"
                )
            yield connection
    except psycopg.Error as error:
        raise _unusable(error) from None


def _unusable(error: psycopg.Error) -> JournalError:
    reason = f" ({type(error).__name__})"  # its text may show a part of the address, or a value
    if isinstance(error, psycopg.OperationalError):
        # libpq's text names the host, and no password; that of the server goes on with values.
        reason = f": {' '.join((error.diag.message_primary or str(error)).split())}"
    return JournalError(f"the fleet's database cannot be used{reason}")


async def fetch(
    connection: Connection, sql: LiteralString, args: Mapping[str, Any] | None = None
) -> list[Any]:
    """Return the rows of a statement."""
    cursor = await connection.execute(sql, args)
    return await cursor.fetchall() if cursor.description else []


async def init(address: str) -> bool:
    """Make the tables; return False if they are there."""
    async with connected(address, checked=False) as connection, connection.transaction():
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise JournalError(
                f"the database has the encoding {encoding}, and a fleet needs UTF8: make one with"
                " `createdb --encoding UTF8 --template template0`"
            )
        # Two at once: the second one waits, and finds them.
        await connection.execute("select pg_advisory_xact_lock(hashtext('gateway_fleet'))")
        if await _has_tables(connection):
            return False
        await connection.execute(SCHEMA)
        await connection.execute("insert into gateway_fleet.version values (%s)", [VERSION])
        return True


async def _has_tables(connection: Connection) -> bool:
    """Tell whether the tables are there; those of another version are an error."""
    if await fetch(connection, "select to_regclass('gateway_fleet.version')") == [(None,)]:
        return False
    ((version,),) = await fetch(connection, "select version from gateway_fleet.version")
    if version != VERSION:
        raise JournalError(
            f"the fleet's tables are of version {version}, this gateway_sdk knows {VERSION}: "
            "use the gateway_sdk that made them, or another database"
        )
    return True


async def _cancelled_once(statement: Coroutine[Any, Any, list[Any]]) -> list[Any]:
    # A scope of anyio cancels in every turn: psycopg would give its connection up.
    running = asyncio.ensure_future(statement)
    try:
        await asyncio.wait([running])
    except asyncio.CancelledError:
        running.cancel()
        await to_the_end(asyncio.gather(running, return_exceptions=True))
        raise
    return running.result()


class Database:
    """The connection of a worker, whose end tells the server at once that the process has died."""

    def __init__(self, address: str) -> None:
        self._address = address  # what libpq takes, or empty for its variables
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()
        self._is_left = False
        self.is_away = False

    async def __aenter__(self) -> Self:
        async with connected(self._address) as connection:
            ((is_read_only,),) = await fetch(connection, "show transaction_read_only")
            if is_read_only == "on":
                raise JournalError("the fleet's database may only be read: is it a standby?")
            return self

    async def __aexit__(self, *_: object) -> None:
        self._is_left = True
        if self._connection is not None:
            await self._connection.close()

    async def run(self, sql: LiteralString, args: Mapping[str, Any] | None = None) -> list[Any]:
        """Return the rows; wait while the database is away, then run the statement again.

        %(pid)s is the process of the server that has this connection.
        """
        pause, cancellation = 0.1, OwnCancellation()
        while True:
            rows = None
            try:
                connection = await self._connected()
                pid = connection.info.backend_pid
                statement = fetch(connection, sql, {**(args or {}), "pid": pid})
                rows = await _cancelled_once(statement)
                self._note(is_away=False)
            except _LOST_RACE:
                pass
            except _AWAY as error:
                self._note(is_away=True, reason=type(error).__name__)
            except psycopg.Error as error:
                raise _unusable(error) from None
            # Python 3.11 drops a cancellation that comes together with what psycopg waits for.
            if cancellation.is_of_others:
                raise asyncio.CancelledError
            if rows is not None:
                return rows
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)

    async def _connected(self) -> Connection:
        async with self._connecting:
            if self._is_left:
                raise JournalError("the worker was left")
            if self._connection is None or self._connection.closed:
                self._connection = await psycopg.AsyncConnection.connect(
                    self._address, autocommit=True
                )
            return self._connection

    def _note(self, *, is_away: bool, reason: str = "") -> None:
        if is_away and not self.is_away:
            _logger.warning("the fleet's database is away (%s)", reason)
        elif self.is_away and not is_away:
            _logger.warning("the fleet's database is back")
        self.is_away = is_away


class ReservingLimiter(Limiter):
    """Reserves a few permits at a time, and hands them out in order, evenly."""

    def __init__(self, database: Database, name: str, limit: RateLimit) -> None:
        self._database = database
        self._name = name
        self._burst = max(1.0, limit.requests / _BURST_SHARE)
        self._rate = max(limit.requests - self._burst, limit.requests / 2) / limit.seconds
        self._most = max(1, min(int(self._burst), int(self._rate * _AHEAD)))
        self._lock = asyncio.Lock()
        self._left = self._waiting = 0
        self._at = 0.0

    async def _reserve(self, n: int) -> float:
        """Reserve n permits; return the seconds after which they may be used, or less than 0."""
        args = {"name": self._name, "rate": self._rate, "burst": self._burst, "n": float(n)}
        return float((await self._database.run(_RESERVE, args))[0][0])

    async def enter(self) -> None:
        self._waiting += 1
        try:
            async with self._lock:  # first come, first served
                loop = asyncio.get_running_loop()
                # Permits of callers who were cancelled expire: the database gives them again.
                if not self._left or self._at + self._burst / self._rate < loop.time():
                    count = min(self._most, self._waiting)
                    wait = await self._reserve(count)
                    # The reply holds when the last of them is due; the first is due earlier.
                    first = loop.time() + wait - (count - 1) / self._rate
                    self._left, self._at = count, max(loop.time(), first)
                at = self._at
                self._left, self._at = self._left - 1, at + 1 / self._rate
                if (pause := at - loop.time()) > 0:
                    await asyncio.sleep(pause)
        finally:
            self._waiting -= 1
