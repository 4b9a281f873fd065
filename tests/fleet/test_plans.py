"""Plans: whole or not at all; their status, failures, and end."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from pyarrow import parquet  # type: ignore[import-untyped]

from gateway_sdk import RateLimit, bulk
from gateway_sdk.errors import (
    ConfigurationError,
    InvalidArgumentError,
    JournalError,
    MissingExtraError,
)
from gateway_sdk.fleet import Job
from gateway_sdk.fleet._database import VERSION
from gateway_sdk.fleet._plans import Plan
from tests.fleet import gateways
from tests.fleet.gateways import (
    CountingGateway,
    change,
    customer,
    number_of,
    refusing,
    rows_of,
    series,
)
from tests.support.postgres_server import NEEDS_POSTGRES, PostgresServer
from tests.support.secrecy import CANARY

pytestmark = NEEDS_POSTGRES


async def do_all(job: Job, plan: str) -> None:
    async with job.worker() as worker:
        for number in await job.chunks(plan):
            assert await worker.run_chunk(plan, number)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "a b"}, "name must be up to 100 letters"),
        ({"name": 3}, "name must be"),
        ({"version": "ü"}, "version must be"),
        ({"database": None}, "database must be what libpq takes"),
        ({"session": 3}, "session must be a dict"),
        ({"session": {"rate_limit": None}}, "rate_limit is an argument of the job, not of session"),
        ({"rate_limit": 3}, "rate_limit must be a RateLimit"),
        ({"concurrency": 0}, "concurrency must be a whole number"),
        ({"lease": 0}, "lease must be seconds"),
        ({"grace": "x"}, "grace must be seconds"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    given = {"name": "j", "operation": "list_countries", **settings}

    with pytest.raises(ConfigurationError, match=message):
        Job(**given)


async def test_windows_usual_event_loop_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = type(asyncio.get_running_loop())
    monkeypatch.setattr(asyncio, "ProactorEventLoop", loop, raising=False)

    with pytest.raises(ConfigurationError, match=r"Runner\(loop_factory=asyncio.Selector"):
        await Job("j", operation="list_countries").init()


def test_a_job_shows_no_password() -> None:
    job = Job("j", operation="list_countries", database=f"postgresql://u:{CANARY}@h/d")

    assert CANARY not in repr([job, job.worker(), vars(job.worker())["_database"]])


async def test_tables_are_made_once(gateway: CountingGateway, dsn: str) -> None:
    """Also if two want to make them; those of another version are refused."""
    job = gateways.job(gateway, dsn, rate_limit=RateLimit(1))
    with pytest.raises(JournalError, match="run `gateway fleet init`"):
        await job.plan("p", [series(1)])

    assert any(await asyncio.gather(job.init(), job.init()))
    assert not await job.init()

    async with job.worker():
        pass
    await change(dsn, "update gateway_fleet.version set version = version + 1")
    for use in (job.init, lambda: job.status("p"), job.worker().__aenter__):
        with pytest.raises(JournalError, match=f"of version {VERSION + 1}, this gateway_sdk"):
            await use()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("postgresql://fleet:{secret}@127.0.0.1:9/x", "Connection refused"),
        ("{secret}", r"\(ProgrammingError\)"),
    ],
)
async def test_a_database_that_cannot_be_used_is_named(address: str, message: str) -> None:
    """Without the password, also where libpq would show it."""
    job = Job("j", operation="list_countries", database=address.format(secret=CANARY))

    uses = (job.init, lambda: job.collect("p", "p.csv"), job.worker().__aenter__)
    for use in uses:
        with pytest.raises(JournalError, match=message) as caught:
            await use()
        assert CANARY not in str(caught.value)


async def test_a_database_that_cannot_hold_all_texts_is_refused(postgres: PostgresServer) -> None:
    """Its encoding is that of the locale in which the server was installed."""
    await postgres.execute(
        "drop database if exists ascii",
        "create database ascii encoding 'SQL_ASCII' template template0",
    )
    job = Job("j", operation="list_countries", database=postgres.address("ascii"))

    with pytest.raises(JournalError, match="has the encoding SQL_ASCII, and a fleet needs UTF8"):
        await job.init()


async def test_a_plan_is_there_or_not(job: Job) -> None:
    """The same items again are the same plan; others need another name."""

    async def items() -> AsyncIterator[Any]:
        for number in range(10):
            yield series(number)

    async def broken() -> AsyncIterator[Any]:
        yield series(1)
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - the one of the items
        await job.plan("p", broken())
    assert await job.plan("p", items(), chunk=4)
    assert not await job.plan("p", map(series, range(10)))
    with pytest.raises(InvalidArgumentError, match="'p' is there with other items"):
        await job.plan("p", map(series, range(9)))

    assert await job.chunks("p") == [0, 1, 2]
    status = await job.status("p")
    assert (status.items, status.missing, status.chunks, status.open_chunks) == (10, 10, 3, 3)
    assert not status.is_complete


async def test_a_plan_is_of_one_version(job: Job, gateway: CountingGateway, dsn: str) -> None:
    await job.plan("p", [series(1)])
    newer = gateways.job(gateway, dsn, version="2")

    with pytest.raises(InvalidArgumentError, match="of another job or version"):
        await newer.plan("p", [series(1)])
    async with newer.worker() as worker:
        assert not await worker.run_chunk("p", 0)  # a queue must keep it for another one
    assert not gateway.requests


@pytest.mark.parametrize(
    ("plan", "items", "chunk", "message"),
    [
        ("a b", [1], 1, "plan must be up to 100 letters"),
        ("p", [], 1, "must have items: there are none"),
        ("p", "text", 1, "items must be an iterable"),
        ("p", 3, 1, "items must be an iterable"),
        ("p", [1], True, "chunk must be a whole number"),
        ("p", [1], 0, "chunk must be a whole number of items, from 1 to 100000"),
        ("p", [{}, object()], 1, "item 1: it is no JSON value"),
        ("p", [10**5000], 1, "item 0: it is no JSON"),
    ],
)
async def test_wrong_plans_are_refused(
    job: Job, plan: Any, items: Any, chunk: Any, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        await job.plan(plan, items, chunk=chunk)
    with pytest.raises(InvalidArgumentError, match="there is no plan 'p'"):
        await job.status("p")


async def test_an_error_of_the_database_shows_no_item(job: Job, dsn: str) -> None:
    """The server adds the line at which it was."""

    async def items() -> AsyncIterator[Any]:
        cancel = "select pg_cancel_backend(pid) from pg_stat_activity where query like 'copy%%'"
        yield {"name": CANARY}
        await rows_of(dsn, cancel)
        yield series(2)

    with pytest.raises(JournalError, match=r"canceling statement due to user request$"):
        await job.plan("p", items(), chunk=1)


async def test_what_must_not_be_sent_twice_is_there_once(dsn: str) -> None:
    job = Job("customers", operation="create_customer", database=dsn)
    await job.init()

    with pytest.raises(InvalidArgumentError, match="item 1 is there twice"):
        await job.plan("p", [customer(0), customer(1), customer(2), customer(1)], chunk=2)
    assert await job.plan("p", [customer(0), customer(1)])


async def test_the_file_has_the_items_in_order(job: Job, tmp_path: Path) -> None:
    """The rates of a series, or a row per item; a part of them only if that was asked for."""
    await job.plan("p", map(series, range(5)), chunk=2)
    out = tmp_path / "p.ndjson"
    with pytest.raises(JournalError, match="5 of 5 items have no result yet"):
        await job.collect("p", out)
    written = await job.collect("p", out, partial=True)
    assert (written.rows, written.failed) == (5, 5)
    assert {json.loads(line)["state"] for line in out.read_text().splitlines()} == {"missing"}

    await do_all(job, "p")
    written = await job.collect("p", out)

    assert (written.rows, written.failed) == (5, 0)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [number_of(line["item"]) for line in lines] == list(range(5))
    assert [line["value"]["seen"]["base"] for line in lines] == [f"B{n}" for n in range(5)]
    await job.collect("p", tmp_path / "p.parquet")
    assert parquet.read_table(tmp_path / "p.parquet")["state"].to_pylist() == ["done"] * 5


async def test_rates_are_exact(job: Job, gateway: CountingGateway, tmp_path: Path) -> None:
    async def answer(body: Any) -> httpx.Response:
        rates = f'{{"rates": {{"2026-01-02": {{"USD": 1.10000000000000000001{number_of(body)}}}}}}}'
        return httpx.Response(200, content=rates, headers={"Content-Type": "application/json"})

    gateway.answer = answer
    await job.plan("p", map(series, range(3)), chunk=2)
    await do_all(job, "p")
    out = tmp_path / "p.csv"

    assert (await job.collect("p", out)).rows == 3
    rates = [Decimal(line.split(",")[3]) for line in out.read_text().splitlines()[1:]]
    assert len(rates) == 3


async def test_failures_are_listed_and_done_again(job: Job, gateway: CountingGateway) -> None:
    """By default those that may pass; what is unknown stays."""
    wrong = {1: 404, 4: 403}
    gateway.answer = refusing(wrong)
    await job.plan("p", map(series, range(6)), chunk=2)
    await do_all(job, "p")

    failed = [row async for row in job.failed("p")]
    assert [(row["number"], row["status"], row["error"]) for row in failed] == [
        (1, 404, "NotFoundError"),
        (4, 403, "ForbiddenError"),
    ]
    assert failed[0]["item"] == series(1)
    assert [row async for row in job.unknown("p")] == []
    assert (await job.status("p")).failed == 2
    assert await job.retry("p") == 0
    wrong.clear()
    assert await job.retry("p", every=True) == 2
    assert await job.chunks("p") == [0, 2]
    before = gateway.requests
    await do_all(job, "p")
    assert gateway.requests == before + 2
    assert (await job.status("p")).done == 6


async def test_a_plan_is_deleted_with_all_that_is_of_it(job: Job, dsn: str) -> None:
    await job.plan("p", map(series, range(6)), chunk=2)
    await do_all(job, "p")
    await job.delete("p")

    left = await rows_of(
        dsn,
        "select (select count(*) from gateway_fleet.plan), (select count(*) from"
        " gateway_fleet.part), (select count(*) from gateway_fleet.chunk), (select count(*) from"
        " gateway_fleet.result)",
    )
    assert left == [(0, 0, 0, 0)]


@pytest.mark.parametrize(
    "use",
    [
        lambda job: job.chunks("p"),
        lambda job: anext(job.failed("p")),
        lambda job: job.retry("p"),
        lambda job: job.delete("p"),
        lambda job: job.collect("p", "p.csv"),
    ],
)
async def test_a_plan_that_is_not_there_is_named(job: Job, use: Callable[[Job], Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="there is no plan 'p'"):
        await use(job)


@pytest.mark.parametrize("use", [Job.delete, Job.retry])
async def test_nothing_of_a_plan_is_changed_while_a_worker_has_a_chunk(
    job: Job, dsn: str, use: Callable[[Job, str], Any]
) -> None:
    """Also one that it takes in the same moment."""
    await job.plan("p", [series(1)])
    async with await psycopg.AsyncConnection.connect(dsn) as taking:
        await taking.execute("update gateway_fleet.chunk set lease = now() + interval '1 minute'")
        using = asyncio.create_task(use(job, "p"))
        while not await rows_of(dsn, "select from pg_locks where not granted"):
            pass
    with pytest.raises(JournalError, match="a worker has a chunk of 'p' now"):
        await using


async def test_a_file_is_of_one_moment(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever becomes of the plan while it is written."""
    status = Plan.status

    async def deleting(plan: Plan) -> Any:
        found = await status(plan)
        await job.delete("p")
        return found

    monkeypatch.setattr(Plan, "status", deleting)
    await job.plan("p", map(series, range(5)), chunk=2)

    assert (await job.collect("p", tmp_path / "p.csv", partial=True)).rows == 5


async def test_a_file_may_take_longer_than_the_server_lets_others_be_idle(
    job: Job, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = bulk.write_results

    def write_slowly(*given: Any, **more: Any) -> Any:
        with psycopg.connect(dsn) as connection:
            connection.execute("select pg_sleep(1)")  # which is longer than 0.5 s
        return write(*given, **more)

    await job.plan("p", map(series, range(5)), chunk=2)
    job._database += "?options=-cidle_in_transaction_session_timeout%3D500"
    monkeypatch.setattr(bulk, "write_results", write_slowly)

    assert (await job.collect("p", tmp_path / "p.csv", partial=True)).rows == 5


async def with_a_zero(gateway: Any, item: str) -> None:
    raise InvalidArgumentError(f"wrong: {item}")


async def test_a_failure_can_be_read_whatever_its_text(
    gateway: CountingGateway, dsn: str, tmp_path: Path
) -> None:
    job = gateways.job(gateway, dsn, function=with_a_zero)
    await job.init()
    await job.plan("p", ["a\0b"])
    await do_all(job, "p")

    assert [row["message"] async for row in job.failed("p")] == ["wrong: a\ufffdb"]
    assert (await job.collect("p", tmp_path / "p.csv")).failed == 1
    assert await job.retry("p", every=True) == 1


async def test_the_rows_hold_no_token(gateway: CountingGateway, dsn: str) -> None:
    settings = gateway.settings(access_token=CANARY)
    job = Job(
        "j", operation="exchange_rate_series", database=dsn, session=settings,
        rate_limit=RateLimit(1000),
    )  # fmt: skip
    await job.init()
    await job.plan("p", [series(1)])
    await do_all(job, "p")

    rows = await rows_of(dsn, "select schema_to_xml('gateway_fleet', false, false, '')::text")
    assert "<base>" not in str(rows)
    assert "B1" in str(rows)  # items are in clear, as the documents say
    assert CANARY not in str(rows)


@pytest.mark.parametrize(
    ("missing", "error", "message"),
    [
        ("psycopg", MissingExtraError, r"needs the extra \[fleet\]"),
        ("gateway_sdk.fleet._job", ModuleNotFoundError, "_job"),
    ],
)
def test_the_extra_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, missing: str, error: type[Exception], message: str
) -> None:
    for name in [name for name in sys.modules if name.startswith("gateway_sdk.fleet")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(error, match=message):
        import_module("gateway_sdk.fleet")


async def test_a_write_that_was_done_is_never_done_again(
    job: Job, gateway: CountingGateway
) -> None:
    """Its reply cannot be read, so it failed; one that was refused may be made after a change."""

    async def answer(body: Any) -> httpx.Response:
        status = 404 if number_of(body) else 200
        return httpx.Response(status, headers={"Content-Type": "application/json"}, text="{")

    gateway.answer = answer
    await job.plan("p", map(customer, range(2)))
    await do_all(job, "p")
    failed = [(row["number"], row["outcome"], row["advice"]) async for row in job.failed("p")]
    assert failed == [(0, "APPLIED", "check"), (1, "REFUSED", "fix")]

    assert await job.retry("p", every=True) == 1
    await do_all(job, "p")

    assert gateway.requests == 3
