"""The commands of a fleet: `gateway bulk plan`, `submit`, `worker`, `status` and others."""

import asyncio
import gc
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyarrow import parquet  # type: ignore[import-untyped]

from gateway_sdk.errors import ConfigurationError
from gateway_sdk.fleet._chunk import LOGIN
from gateway_sdk.fleet._store import ChunkState, PlanRecord
from gateway_sdk.sandbox import Fault, Sandbox
from tests.cli.ended import Ended
from tests.cli.terminal import Terminal
from tests.support.postgres_server import NEEDS_POSTGRES

pytestmark = pytest.mark.usefixtures("collectable")

Call = Callable[..., Ended]

MODULE = """
import os

from gateway_sdk import fleet
from tests.cli.commands.test_bulk_fleet import Broker
from tests.support.memory_store import MemoryStore

place = os.environ.get("FLEET_DATABASE")
store = fleet.PostgresStore(place) if place else MemoryStore()
rates = fleet.Job("rates", operation="exchange_rate_series", store=store, concurrency=1)
customers = fleet.Job("customers", operation="create_customer", store=MemoryStore(), max_starts=1)
broker = Broker()
number = 3
"""


class Broker:
    def __init__(self) -> None:
        self.done: list[Any] = []

    async def startup(self) -> None:
        self.done.append("startup")

    async def shutdown(self) -> None:
        self.done.append("shutdown")

    def find_task(self, name: str) -> "Broker":
        assert name == "gateway_sdk.fleet:rates"
        return self

    def kicker(self) -> "Broker":
        return self

    def with_labels(self, **labels: str) -> "Broker":
        return self

    async def kiq(self, address: str, chunk: int) -> None:
        self.done.append(chunk)


@pytest.fixture(autouse=True)
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Work in a folder with the module of a job, and the items of a plan."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    (tmp_path / "jobs.py").write_text(MODULE)
    queries = [
        {"base": "EUR", "symbols": symbol, "start_date": "2026-01-01", "end_date": "2026-01-31"}
        for symbol in ("USD", "GBP", "JPY", "CHF", "XXX")
    ]
    lines = "".join(f"{json.dumps(query)}\n" for query in queries)
    (tmp_path / "queries.jsonl").write_text(lines)
    yield lambda: sys.modules["jobs"]
    sys.modules.pop("jobs", None)


@pytest.fixture
def planned(call_gateway: Call) -> Call:
    """Provide the command line, with a plan in the store."""
    ended = call_gateway("bulk", "plan", "jobs:rates", "queries.jsonl", "--chunk", "2")
    assert ended == Ended(0, "", "rates: 5 items in 3 chunks\n")
    return call_gateway


def test_a_plan_is_tried_without_a_queue(planned: Call, served: Sandbox) -> None:
    """Planned, run in this process, looked at and collected; a second run asks for nothing."""
    assert planned("bulk", "status", "jobs:rates").out.splitlines() == [
        "done     0 of 5",
        "missing  5, in chunks under way: 0",
    ]

    for _ in range(2):
        ended = planned("bulk", "worker", "jobs:rates", "--here")
        assert ended.status == 0
        assert ended.out.splitlines() == ["done     4 of 5", "failed   1: NotFoundError 404"]
    assert len(served.received) == 5

    assert planned("bulk", "collect", "jobs.py:rates", "all.parquet").err == "all.parquet: 5 rows\n"
    assert parquet.read_table("all.parquet").num_rows == 5
    assert planned("bulk", "unknown", "jobs:rates") == Ended(0, "", "")


@pytest.mark.usefixtures("served")
def test_a_run_here_looks_for_garbage_less_often(planned: Call) -> None:
    """The process does nothing else; other commands leave the collector alone."""
    kept = gc.get_freeze_count()
    gc.set_threshold(700, 9, 8)
    planned("bulk", "status", "jobs:rates")
    assert (gc.get_threshold(), gc.get_freeze_count()) == ((700, 9, 8), kept)

    planned("bulk", "worker", "jobs:rates", "--here")
    assert gc.get_threshold() == (10_000, 9, 8)
    assert gc.get_freeze_count() > kept


def test_items_come_from_standard_input(
    call_gateway: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from any program that writes JSON lines."""
    given = Path("queries.jsonl").read_text()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))

    assert call_gateway("bulk", "plan", "jobs:rates", "-").err == "rates: 5 items in 1 chunks\n"


def test_what_is_missing_is_submitted(planned: Call, served: Sandbox, jobs: Any) -> None:
    """And again what failed, if that is asked for."""
    assert planned("bulk", "submit", "jobs:rates").err == "3 chunks submitted\n"
    assert jobs().broker.done == ["startup", 0, 1, 2, "shutdown"]

    served.faults.on("exchange_rate_series", Fault.status(404), at=1)
    planned("bulk", "worker", "jobs:rates", "--here")
    assert planned("bulk", "submit", "jobs:rates").err == "0 chunks submitted\n"
    assert planned("bulk", "submit", "jobs:rates", "--retry-failed").err == "2 chunks submitted\n"


def test_a_broker_that_is_away_is_named(planned: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the text of its error, which may show its address with a password."""

    async def refuse(self: Broker) -> None:
        raise ConnectionRefusedError("amqp://user:secret@localhost")

    monkeypatch.setattr(Broker, "startup", refuse)
    ended = planned("bulk", "submit", "jobs:rates")

    assert ended.status == 4
    assert "does not take messages (ConnectionRefusedError): start it" in ended.err
    assert "secret" not in ended.err


def test_an_error_of_the_plan_keeps_its_words(
    planned: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong with the store or the settings is not said of the broker."""

    async def refuse(self: Broker) -> None:
        raise ConfigurationError("the queue has no delivery limit")

    monkeypatch.setattr(Broker, "startup", refuse)
    ended = planned("bulk", "submit", "jobs:rates")

    assert "gateway: the queue has no delivery limit" in ended.err


def test_what_is_no_broker_is_refused(planned: Call) -> None:
    """Before anything is sent."""
    ended = planned("bulk", "submit", "jobs:rates", "--broker", "number")

    assert ended.status == 2
    assert "number of jobs is no broker" in ended.err


def test_a_worker_without_a_broker_is_not_started(
    call_gateway: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option for its name is told."""
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("started"))
    ended = call_gateway("bulk", "worker", "jobs:rates", "--broker", "number")

    assert ended.status == 2
    assert "number of jobs is no broker\n--broker names another object" in ended.err


def test_a_worker_is_that_of_taskiq(planned: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of this process, with the broker of the job's module."""
    started: list[Any] = []
    monkeypatch.setattr(os, "execv", lambda *command: started.append(command))

    planned("bulk", "worker", "jobs:rates", "--workers", "3")

    ((program, command),) = started
    assert program == sys.executable
    assert command[1:] == [
        "-m", "taskiq", "worker", "jobs:broker", "--workers", "3", "--max-async-tasks", "2",
    ]  # fmt: skip


def test_what_must_be_looked_into_is_listed(call_gateway: Call, jobs: Any) -> None:
    """What may have been sent, what waits, and what is broken; each chunk once."""
    Path("customers.jsonl").write_text('{"person": {"email": "a"}}\n{"person": {"email": "b"}}\n')
    arguments = ("bulk", "plan", "jobs:customers", "customers.jsonl", "--chunk", "1")
    assert call_gateway(*arguments).status == 0
    store = jobs().customers._parts.store
    (record,) = store.plans.values()
    asyncio.run(_trouble(store, record))

    listed = call_gateway("bulk", "unknown", "jobs:customers")
    status = call_gateway("bulk", "status", "jobs:customers")

    assert json.loads(listed.out) == {"index": 0, "item": {"person": {"email": "a"}}, "error": None}
    assert status.out.splitlines() == [
        "done     0 of 2",
        "unknown  1: `gateway bulk unknown` lists them",
        "begun    1: may be under way, and are not sent twice",
        "waiting for a login: run `gateway login`",
        "chunk 1: started 1 times without an end",
    ]


async def _trouble(store: Any, record: PlanRecord) -> None:
    await store.begin(record, 0, uuid4())
    await store.settle_unknown(record, [0])
    await store.begin(record, 1, uuid4())
    await store.mark_chunk(record, 0, ChunkState.WAITING, LOGIN)
    await store.start_chunk(record, 1)
    await store.mark_chunk(record, 1, ChunkState.BROKEN, "started 1 times without an end")


def test_a_chunk_that_never_ends_is_left_out(planned: Call, served: Sandbox, jobs: Any) -> None:
    """The others are done, and the same command gives it a new chance."""
    store = jobs().store

    async def start_often() -> None:
        record = await store.find_plan("rates")
        assert record is not None
        for _ in range(10):
            await store.start_chunk(record, 1)

    asyncio.run(start_often())
    ended = planned("bulk", "worker", "jobs:rates", "--here")

    assert ended.status == 4
    assert "chunk 1: started 10 times without an end" in ended.out
    assert "something is missing" in ended.err
    assert "done     2 of 5" in ended.out
    assert planned("bulk", "worker", "jobs:rates", "--here").status == 0


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["status", "nowhere:rates"], 2, "there is no module nowhere in this folder"),
        (["status", "nowhere.else:rates"], 2, "there is no module nowhere.else in this folder"),
        (["status", "jobs:nothing"], 2, "the module jobs has no nothing"),
        (["status", "jobs"], 2, "the module jobs has no job"),
        (["status", "jobs:number"], 2, "jobs:number is not a fleet.Job"),
        (["status", "../jobs:rates"], 2, "written as MODULE:NAME"),
        (["worker", "jobs:rates", "--broker", "none"], 2, "the module jobs has no none"),
        (["worker", "jobs:rates", "--broker", "none"], 2, "--broker NAME its broker"),
        (["worker", "jobs:rates", "--sandbox"], 2, "--sandbox has no effect here"),
        (["status", "jobs:rates", "--base-url", "https://x"], 2, "--base-url has no effect here"),
        (["status", "jobs:rates"], None, "it was not planned, or not to its end"),
        (["plan", "jobs:rates", "nowhere"], 2, "cannot read nowhere: No such file"),
        (["plan", "jobs:rates", "jobs.py"], 2, "line 1 of jobs.py is not JSON"),
        (["plan", "jobs:rates", sys.executable], 2, "is not JSON"),  # nor UTF-8
        (["plan", "jobs:rates", "queries.jsonl", "--chunk", "0"], 2, "--chunk"),
    ],
)
def test_misuse_is_told(
    call_gateway: Call, arguments: list[str], status: int | None, message: str
) -> None:
    """By the name of what is wrong."""
    ended = call_gateway("bulk", *arguments)

    assert message in ended.err
    assert ended.status == status or (status is None and ended.status)


def test_a_byte_order_mark_is_no_part_of_the_first_item(call_gateway: Call, tmp_path: Path) -> None:
    """Windows' editors write one."""
    queries = tmp_path / "queries.jsonl"
    queries.write_bytes(b"\xef\xbb\xbf" + queries.read_bytes())

    assert "5 items" in call_gateway("bulk", "plan", "jobs:rates", "queries.jsonl").err


def test_a_module_that_lacks_another_shows_it(
    call_gateway: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's own imports are not taken for the job."""
    (tmp_path / "broken_jobs.py").write_text("import package_of_nobody")
    with pytest.raises(ModuleNotFoundError, match="package_of_nobody"):
        call_gateway("bulk", "status", "broken_jobs:rates")


def test_an_error_of_the_module_is_not_taken_for_one_of_the_output(
    call_gateway: Call, tmp_path: Path
) -> None:
    """A job may read a file when it is imported."""
    (tmp_path / "reading_jobs.py").write_text("open('list.txt')")
    with pytest.raises(FileNotFoundError, match=r"list\.txt"):
        call_gateway("bulk", "collect", "reading_jobs:rates", "x.parquet")


def test_a_file_that_cannot_be_written_is_told(planned: Call) -> None:
    """With what is missing, and why."""
    ended = planned("bulk", "collect", "jobs:rates", "x.parquet")
    assert "5 of 5 items have no result yet" in ended.err
    ended = planned("bulk", "collect", "jobs:rates", "nowhere/x.parquet", "--partial")

    assert ended.status == 1
    assert "cannot write nowhere/x.parquet: " in ended.err


@pytest.fixture
def database(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the plan of `rates` where other processes find it."""
    monkeypatch.setenv("FLEET_DATABASE", dsn)


@pytest.fixture
def pythonpath() -> str:
    """Provide where a process finds these tests."""
    return str(Path(__file__).parents[3])


@NEEDS_POSTGRES
@pytest.mark.usefixtures("database")
def test_a_bar_shows_how_far_a_plan_is(
    planned: Call, served: Sandbox, pythonpath: str,
    start_in_terminal: Callable[..., Terminal],
) -> None:  # fmt: skip
    """In a terminal, until the plan is complete."""
    shown = start_in_terminal("bulk", "status", "jobs:rates", PYTHONPATH=pythonpath)
    shown.read_until("0/5")

    planned("bulk", "worker", "jobs:rates", "--here")
    status, text = shown.end()

    assert status == 0
    assert "done     4 of 5" in text


@NEEDS_POSTGRES
@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_asked_to_end_loses_nothing(
    planned: Call, served: Sandbox, pythonpath: str, stop: signal.Signals,
    start_gateway: Callable[..., subprocess.Popen[str]],
) -> None:  # fmt: skip
    """What was stored stays; the call in flight ends, and the same command goes on."""
    served.faults.on("exchange_rate_series", Fault.latency(1), at=4)
    worker = start_gateway("bulk", "worker", "jobs:rates", "--here", PYTHONPATH=pythonpath)
    while len(served.received) < 3:
        os.sched_yield()
    worker.send_signal(stop)
    out, err = worker.communicate()

    assert worker.returncode == (4 if stop is signal.SIGTERM else 130), err
    if stop is signal.SIGTERM:
        assert "the same command goes on from there" in err
        assert re.search(r"done     [2-4] of 5", out)
    assert planned("bulk", "worker", "jobs:rates", "--here").status == 0
