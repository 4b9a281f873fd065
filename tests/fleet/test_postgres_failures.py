"""What happens when the server of a PostgresStore ends, is full, or refuses."""

import asyncio
import builtins
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from gateway_sdk import ConfigurationError, MissingExtraError, PlanStoreError
from gateway_sdk.fleet import PostgresStore, _postgres
from gateway_sdk.fleet._store import State
from tests.fleet.plans import STARTER, a_plan, begun, done, failed, stored
from tests.support.certificates import Authority
from tests.support.postgres_server import NEEDS_POSTGRES, PostgresServer
from tests.support.secrecy import CANARY, logged, texts_of

pytestmark = NEEDS_POSTGRES


async def test_a_server_that_restarts_is_waited_for(
    postgres: PostgresServer, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What was stored is there, and the log says that it was waited for."""
    store = PostgresStore(dsn)
    plan = await stored(store, a_plan())
    await store.write_results(plan, 0, [done(0)])
    await store.begin(plan, 1, STARTER)

    postgres.kill()
    waiting = [
        asyncio.create_task(store.write_results(plan, 0, [done(2)])),
        asyncio.create_task(store.begin(plan, 3, STARTER)),
    ]
    await asyncio.to_thread(postgres.start)
    await asyncio.gather(*waiting)

    assert await store.known(plan, 0) == {
        0: State.DONE,
        1: State.BEGUN,
        2: State.DONE,
        3: State.BEGUN,
    }
    assert waiting[1].result()
    assert "does not answer" in caplog.text
    assert "answers again" in caplog.text
    assert CANARY not in logged(caplog.records)
    await store.aclose()


@pytest.mark.parametrize(
    "loss",
    [
        asyncpg.ConnectionDoesNotExistError("connection was closed"),
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.InternalClientError("cannot switch to state 11"),
        ConnectionResetError(),
    ],
    ids=lambda loss: type(loss).__name__,
)
async def test_who_begins_hears_the_answer_in_the_end(
    dsn: str, monkeypatch: pytest.MonkeyPatch, loss: Exception
) -> None:
    """The mark is committed, and the connection is lost before the answer: it may be sent."""
    store = PostgresStore(dsn)
    plan = await stored(store, a_plan())
    fetch = asyncpg.pool.Pool.fetch
    lost: list[str] = []

    async def lose_one_answer(pool: Any, text: str, *values: object) -> Any:
        rows = await fetch(pool, text, *values)
        if "'begun', $3" in text and not lost:
            lost.append(text)
            raise loss
        return rows

    monkeypatch.setattr(asyncpg.pool.Pool, "fetch", lose_one_answer)

    assert await store.begin(plan, 3, STARTER)
    assert lost
    assert not await store.begin(plan, 3, uuid4())
    await store.aclose()


async def test_a_failure_that_was_forgotten_is_not_stored_over_another_delivery(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is lost, and asked for again only when another delivery has begun the item."""
    store, other = PostgresStore(dsn), PostgresStore(dsn)
    plan = await stored(store, a_plan())
    await store.begin(plan, 3, STARTER)
    fetch = asyncpg.pool.Pool.fetch
    began: list[bool] = []

    async def lose_one_answer(pool: Any, text: str, *values: object) -> Any:
        rows = await fetch(pool, text, *values)
        if "unnest" in text and not began:
            began.append(False)
            await other.forget_failed(plan)
            began.append(await other.begin(plan, 3, uuid4()))
            raise asyncpg.ConnectionDoesNotExistError("connection was closed")
        return rows

    monkeypatch.setattr(asyncpg.pool.Pool, "fetch", lose_one_answer)

    await store.write_results(plan, 0, [begun(failed(3))])

    assert began == [False, True]
    assert await store.known(plan, 0) == {3: State.BEGUN}
    await store.aclose()
    await other.aclose()


async def test_a_server_that_stays_away_is_an_error(postgres: PostgresServer, dsn: str) -> None:
    """After a limited time, with the name of the server."""
    store = PostgresStore(dsn, patience=0.3)
    plan = await stored(store, a_plan())
    await store.aclose()  # a process that has a connection may answer a little longer
    postgres.kill()

    with pytest.raises(PlanStoreError, match=r"1:\d+/test_\d+ has not answered") as error:
        await store.known(plan, 0)

    assert CANARY not in texts_of(error.value)
    await store.aclose()


async def _refusal(dsn: str) -> PlanStoreError:
    store = PostgresStore(dsn)
    with pytest.raises(PlanStoreError) as caught:
        await store.open()
    await store.aclose()
    assert CANARY not in texts_of(caught.value)
    return caught.value


async def test_a_wrong_password_is_an_error_at_once(postgres: PostgresServer) -> None:
    """It is not waited for, and not shown."""
    dsn = postgres.address(password=f"{CANARY}-wrong")

    assert "refuses the password" in str(await _refusal(dsn))


async def test_a_missing_database_is_an_error_at_once(postgres: PostgresServer) -> None:
    """The message says that it has to be created."""
    assert "no such database" in str(await _refusal(postgres.address("nowhere")))


async def test_a_role_without_permission_is_an_error(postgres: PostgresServer, dsn: str) -> None:
    """It may neither create the tables nor use those of another role."""
    role = f"reader_{dsn.rpartition('_')[2]}"
    await postgres.execute(f"create role {role} login password '{CANARY}'")
    other = dsn.replace("//fleet:", f"//{role}:")
    early = await _refusal(other)
    store = PostgresStore(dsn)
    await store.open()
    late = await _refusal(other)

    assert "lacks a permission" in str(early)
    assert "lacks a permission" in str(late)
    await store.aclose()


async def test_tables_of_another_version_are_refused(postgres: PostgresServer, dsn: str) -> None:
    """A later release may have made them."""
    store = PostgresStore(dsn)
    await store.open()
    await store.aclose()
    await postgres.execute("update gateway_fleet.tables_version set version = 7", dsn=dsn)

    assert "are of version 7" in str(await _refusal(dsn))


async def test_a_full_disk_loses_nothing(postgres: PostgresServer, dsn: str) -> None:
    """The error says what to do, and what was stored stays; afterwards it goes on."""
    store = PostgresStore(dsn)
    plan = await stored(store, a_plan())
    await store.write_results(plan, 0, [done(0)])
    await postgres.execute(
        """
        create function full_disk() returns trigger language plpgsql as $$
        begin raise exception 'could not extend file' using errcode = 'disk_full'; end $$
        """,
        "create trigger full_disk before insert on gateway_fleet.result"
        " execute function full_disk()",
        dsn=dsn,
    )

    with pytest.raises(PlanStoreError, match="its disk is full: make room") as caught:
        await store.write_results(plan, 0, [done(1, f'"{CANARY}"')])

    assert CANARY not in texts_of(caught.value)
    await postgres.execute("drop trigger full_disk on gateway_fleet.result", dsn=dsn)
    assert await store.known(plan, 0) == {0: State.DONE}
    await store.write_results(plan, 0, [done(1)])
    await store.aclose()


async def test_deleted_tables_are_an_error(postgres: PostgresServer, dsn: str) -> None:
    """And one that no advice is for has the code of the server."""
    store = PostgresStore(dsn)
    plan = await stored(store, a_plan())
    await postgres.execute("drop table gateway_fleet.chunk", dsn=dsn)
    await postgres.execute("alter table gateway_fleet.result drop column value", dsn=dsn)

    with pytest.raises(PlanStoreError, match="deleted while it was used"):
        await store.start_chunk(plan, 0)
    with pytest.raises(PlanStoreError, match="UndefinedColumnError, 42703"):
        await store.write_results(plan, 0, [done(0)])
    await store.aclose()


async def test_a_dsn_that_the_library_refuses_is_an_error(dsn: str) -> None:
    """It is understood when it is first used."""
    for wrong in (f"{dsn}?sslmode=perhaps", f"{dsn}?target_session_attrs=some"):
        store = PostgresStore(wrong)
        with pytest.raises(ConfigurationError, match=r"the DSN of .* is invalid") as e:
            await store.open()
        assert CANARY not in texts_of(e.value)


async def test_a_certificate_that_is_not_trusted_is_no_fault_of_the_dsn(tmp_path: Path) -> None:
    """It is named at once, with what is missing in the DSN."""
    ours, theirs = (Authority(tmp_path, name) for name in ("ours", "theirs"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*theirs.certify("127.0.0.1"))

    async def agree_to_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        writer.write(b"S")
        with suppress(OSError):
            await writer.start_tls(context)
        writer.close()

    async with await asyncio.start_server(agree_to_tls, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        address = f"postgresql://fleet:{CANARY}@127.0.0.1:{port}/plans?sslmode=verify-full"
        for more, message in (("", "needs sslrootcert="), (f"&sslrootcert={ours.path}", "trusted")):
            with pytest.raises(ConfigurationError, match=message) as caught:
                await PostgresStore(f"{address}{more}").open()
            assert CANARY not in texts_of(caught.value)


async def test_a_server_without_tls_is_named_at_once(dsn: str) -> None:
    """The DSN asks for TLS: waiting for the server would not help."""
    with pytest.raises(ConfigurationError, match=r"has no TLS, which the sslmode") as caught:
        await PostgresStore(f"{dsn}?sslmode=require").open()

    assert CANARY not in texts_of(caught.value)


async def test_a_commit_reaches_the_disk_whatever_the_default(
    postgres: PostgresServer, dsn: str
) -> None:
    """A mark that is lost with the server would have a request sent twice."""
    name = dsn.rpartition("/")[2]
    await postgres.execute(f"alter database {name} set synchronous_commit = off")
    store = PostgresStore(dsn)

    ((setting,),) = await store._database.rows("select current_setting('synchronous_commit')")

    assert setting == "on"
    await store.aclose()


async def test_closing_does_not_wait_for_ever(
    postgres: PostgresServer, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement that hangs is cut."""
    monkeypatch.setattr(_postgres, "_CLOSING", 0.05)
    store = PostgresStore(dsn)
    plan = await stored(store, a_plan())
    lock = await asyncpg.connect(dsn)
    transaction = lock.transaction()
    await transaction.start()
    await lock.execute("lock table gateway_fleet.result")
    hanging = asyncio.create_task(store.known(plan, 0))
    while not await postgres.execute("select from pg_locks where not granted"):
        pass

    await store.aclose()

    hanging.cancel()
    await asyncio.wait([hanging])
    await transaction.rollback()
    await lock.close()


async def test_cancelling_while_it_connects_leaves_nothing_open(
    postgres: PostgresServer, dsn: str
) -> None:
    """A worker may be told to end while it starts."""
    store = PostgresStore(dsn)
    opening = asyncio.create_task(store.open())
    await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening])

    assert opening.cancelled()
    assert store._database._pools == {}


def test_without_the_extra_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the extra."""
    imported = builtins.__import__

    def refuse(name: str, *arguments: Any) -> Any:
        if name == "asyncpg":
            raise ModuleNotFoundError(name)
        return imported(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"pip install 'gateway-sdk\[fleet\]'"):
        PostgresStore("postgresql://fleet@127.0.0.1/plans")
