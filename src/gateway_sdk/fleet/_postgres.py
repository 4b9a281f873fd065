"""Connections to PostgreSQL that outlast a restart of the server."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from ssl import SSLCertVerificationError
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from gateway_sdk._checks import check_wait
from gateway_sdk._extras import needing_extra
from gateway_sdk._url import is_loopback
from gateway_sdk.errors import ConfigurationError, PlanStoreError
from gateway_sdk.fleet import _postgres_sql as sql
from gateway_sdk.fleet._outage import outlast

T = TypeVar("T")

_CONNECTIONS: Final = 4
"""Connections of a process: two chunks at work, and a few calls that begin."""

_TIMEOUT: Final = 30.0
"""Seconds to connect, and for each statement: those of a chunk take milliseconds."""

_CLOSING: Final = 5.0
"""Seconds in which statements end when the store is closed."""

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")

# The classes of SQLSTATE whose errors pass: connection lost, transaction to be repeated; and those
# of a server that starts, stops, or has no connection left.
_PASSING_CLASSES: Final = ("08", "40")
_PASSING: Final = ("53300", "57P01", "57P02", "57P03")

_ADVICE: Final = {
    "28000": "it refuses the role of the DSN: check the role, and pg_hba.conf of the server",
    "28P01": "it refuses the password of the DSN: check the password of the role",
    "3D000": "there is no such database: create it, or name another one in the DSN",
    "42501": "the role of the DSN lacks a permission: it needs CREATE on the database when the "
    "tables are made, and later USAGE on the schema and all permissions on its tables",
    "25006": "it can only be read: name the primary server in the DSN",
    "53100": "its disk is full: make room, and submit the plan again",
    "3F000": "the schema of the plans is gone: it was deleted while it was used",
    "42P01": "a table of the plans is gone: it was deleted while it was used",
}


class Database:
    """The tables of plans in a schema of a PostgreSQL server."""

    def __init__(self, dsn: str, schema: str, patience: float) -> None:
        place = _checked_place(dsn)
        # Both are shown, and hold no credentials.
        self.what = f"PostgreSQL at {place}"
        self.place = f"{place} {schema}"
        if not isinstance(schema, str) or not _SCHEMA.fullmatch(schema):
            raise ConfigurationError(
                "schema must be a name of small letters, digits and underscores"
            )
        with needing_extra("fleet", "PostgresStore"):
            import asyncpg  # noqa: PLC0415 - an extra
        self._postgres: Any = asyncpg
        self._dsn = dsn
        self._schema = schema
        self._patience = check_wait("patience", patience)
        # The connections of one event loop are of no use in another; loops of several threads may
        # run at the same time.
        self._pools: dict[asyncio.AbstractEventLoop, Any] = {}
        self._openings: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}

    async def open(self) -> None:
        """Connect, and create the tables if they are missing."""
        await self._outlast(_nothing)

    async def aclose(self) -> None:
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            try:
                await asyncio.wait_for(pool.close(), _CLOSING)
            except TimeoutError:
                pool.terminate()

    async def rows(self, statement: str, *values: object) -> list[Any]:
        text = statement.format(schema=self._schema)
        return await self._outlast(lambda pool: pool.fetch(text, *values))

    async def _outlast(self, use: Callable[[Any], Awaitable[T]]) -> T:
        try:
            return await outlast(
                partial(self._use, use),
                is_outage=self._is_outage,
                what=self.what,
                patience=self._patience,
            )
        except self._postgres.PostgresError as error:
            # Without its text, which may contain items and values.
            state = error.sqlstate or "no code"
            advice = _ADVICE.get(state, "a statement failed; its log says more")
            raise PlanStoreError(
                f"{self.what}: {advice} ({type(error).__name__}, {state})"
            ) from None

    async def _use(self, use: Callable[[Any], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        if loop not in self._openings:
            self._forget_closed_loops()
            self._openings[loop] = asyncio.Lock()
        async with self._openings[loop]:
            pool = self._pools[loop] = self._pools.get(loop) or await self._connected()
        return await use(pool)

    def _forget_closed_loops(self) -> None:
        for loop in [loop for loop in tuple(self._openings) if loop.is_closed()]:
            self._openings.pop(loop, None)
            self._pools.pop(loop, None)

    async def _connected(self) -> Any:
        try:
            return await self._checked_pool()
        except SSLCertVerificationError:
            raise ConfigurationError(
                f"{self.what}: its certificate is not trusted: name the file of its authority in"
                " the DSN, as sslrootcert="
            ) from None
        except ConnectionError as error:
            if "rejected SSL" not in str(error):  # asyncpg has no class for it
                raise
            raise ConfigurationError(
                f"{self.what} has no TLS, which the sslmode of the DSN asks for: turn it on at the"
                " server (ssl = on), or say sslmode=disable if the network itself is private"
            ) from None
        except ValueError as error:  # its text may contain the DSN
            raise ConfigurationError(
                f"the DSN of {self.what} is invalid ({type(error).__name__}); sslmode=verify-full"
                " needs sslrootcert=, the file of the authority of the server's certificate"
            ) from None

    async def _checked_pool(self) -> Any:
        pool = await self._postgres.create_pool(
            self._dsn,
            min_size=0,
            max_size=_CONNECTIONS,
            timeout=_TIMEOUT,
            command_timeout=_TIMEOUT,
            init=_make_synchronous,
            reset=_nothing,  # no statement here changes a session
            server_settings={"application_name": "gateway_sdk.fleet"},
        )
        try:
            await self._check_tables(pool)
        except BaseException:
            pool.terminate()
            raise
        return pool

    async def _check_tables(self, pool: Any) -> None:
        ask = sql.FIND_VERSION.format(schema=self._schema)
        missing = (self._postgres.UndefinedTableError, self._postgres.InvalidSchemaNameError)
        try:
            version = await pool.fetchval(ask)
        except missing:
            create = sql.CREATE.format(schema=self._schema, version=sql.TABLES_VERSION)
            await pool.execute(create)  # in one transaction
            version = await pool.fetchval(ask)
        if version != sql.TABLES_VERSION:
            raise PlanStoreError(
                f"{self.what}: the tables in the schema {self._schema} are of version {version}, "
                f"and this release of gateway_sdk uses version {sql.TABLES_VERSION}: give "
                "PostgresStore another schema="
            )

    def _is_outage(self, error: Exception) -> bool:
        if isinstance(error, ValueError):  # some errors of the interface are: a wrong argument
            return False
        # asyncpg loses its own place in a connection that is cut in the middle of a statement.
        lost = self._postgres.InterfaceError, self._postgres.InternalClientError
        if isinstance(error, (OSError, *lost)):
            return True
        state = getattr(error, "sqlstate", None) or ""
        return state.startswith(_PASSING_CLASSES) or state in _PASSING


async def _nothing(_: Any) -> None:
    pass


async def _make_synchronous(connection: Any) -> None:
    await connection.execute(sql.SYNCHRONOUS)


def _checked_place(dsn: str) -> str:
    if not isinstance(dsn, str):
        raise ConfigurationError("the DSN of PostgreSQL must be a string")
    try:
        parts = urlsplit(dsn)
    except ValueError:  # its text may contain the password
        raise ConfigurationError(_ENCODE) from None
    if "@" in parts.path:  # what looks like the host is a part of the password
        raise ConfigurationError(_ENCODE)
    options = parse_qs(parts.query)
    hosts = parts.netloc.rpartition("@")[2] or ",".join(options.get("host", []))
    database = unquote(parts.path.strip("/")) or ",".join(options.get("dbname", []))
    if parts.scheme not in {"postgresql", "postgres"} or not hosts or not database:
        raise ConfigurationError(
            "the DSN of PostgreSQL must be postgresql://user:password@host:port/database"
        )
    is_near = all(_is_near(host) for host in hosts.split(","))
    if not is_near and options.get("sslmode", [""])[-1] not in _SSL_MODES:
        raise ConfigurationError(
            "the DSN of PostgreSQL on another host must say sslmode=verify-full (TLS), or "
            "sslmode=disable if the network itself is private: otherwise items and results could "
            "be sent unencrypted"
        )
    return f"{hosts}/{database}"


_ENCODE: Final = (
    "the DSN of PostgreSQL is invalid: characters such as / in its password must be percent-encoded"
)

_SSL_MODES: Final = ("disable", "require", "verify-ca", "verify-full")


def _is_near(host: str) -> bool:
    """Tell whether a host, perhaps with a port, is this machine or the path of a socket."""
    name = unquote(host)
    if name.startswith("/"):
        return True
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    return is_loopback(name)
