"""The commands `gateway fleet ...`, on a real PostgreSQL and the sandbox."""

import asyncio
import io
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk.cli import fleet
from gateway_sdk.cli.process import Status
from gateway_sdk.fleet import Status as PlanStatus, Waiting, Worker
from gateway_sdk.sandbox import Fault, Sandbox
from tests.cli.support import GATEWAY, Call, Ended, StartInTerminal
from tests.support.postgres_server import NEEDS_POSTGRES

pytestmark = NEEDS_POSTGRES

MODULE = """
import os

from gateway_sdk import fleet

rates = fleet.Job(
    "rates", operation="exchange_rate_series", database=os.environ["FLEET_DATABASE"], lease=1.0
)
other = 3
"""


@pytest.fixture(autouse=True)
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dsn: str) -> Iterator[None]:
    """Work in a folder with the module of a job, and the items of a plan."""
    monkeypatch.setenv("FLEET_DATABASE", dsn)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    (tmp_path / "jobs.py").write_text(MODULE)
    queries = [
        {"base": "EUR", "symbols": symbol, "start_date": "2026-01-01", "end_date": "2026-01-31"}
        for symbol in ("USD", "GBP", "JPY", "CHF", "XXX")
    ]
    lines = "".join(f"{json.dumps(query)}\n" for query in queries)
    (tmp_path / "queries.ndjson").write_text(lines)
    before = [(one, signal.getsignal(one)) for one in (signal.SIGTERM, signal.SIGINT)]
    yield
    sys.modules.pop("jobs", None)
    for one, handler in before:
        signal.signal(one, handler)


@pytest.fixture
def planned(call_gateway: Call) -> Call:
    def fleet(command: str, *arguments: str) -> Ended:
        return call_gateway("fleet", command, "jobs:rates", *arguments)

    assert fleet("init") == Ended(0, "", "The tables were made.\n")
    assert fleet("init") == Ended(0, "", "The tables are there already.\n")
    ended = fleet("plan", "p", "queries.ndjson", "--chunk", "2")
    assert ended == Ended(0, "", "p: 5 items in 3 chunks\n")
    return fleet


def work(planned: Call) -> Ended:
    """Let a worker do the plan, and end as SIGTERM tells it."""
    done = threading.Event()
    seen = 0
    release = Worker._release

    async def count(self: Worker, delivery: Any) -> bool:
        nonlocal seen
        closed = await release(self, delivery)
        seen += 1
        if seen == 3:
            done.set()
            signal.raise_signal(signal.SIGTERM)
        return closed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Worker, "_release", count)
        return planned("worker")


def test_from_a_plan_to_a_file(planned: Call, served: Sandbox) -> None:
    """A failure is in the exit status, is listed, and is done again."""
    ended = planned("status", "p")
    assert ended.status == Status.UNCHANGED
    assert ended.out.splitlines() == [
        "done     0 of 5",
        "missing  5, in 3 chunks; 0 of them in work by 0 workers",
    ]
    ended = planned("collect", "p", "p.csv")
    assert ended.status == Status.UNCHANGED
    assert "5 of 5 items have no result yet" in ended.err
    assert planned("collect", "p", "p.csv", "--partial").status == Status.UNCHANGED
    ended = planned("worker", "--check")
    assert (ended.status, "no worker of rates is alive on" in ended.err) == (Status.FAILED, True)

    ended = work(planned)
    assert ended == Ended(0, "", "A worker of rates has begun.\nThe worker has ended.\n")

    ended = planned("status", "p")
    assert ended.status == Status.FAILED
    assert ended.out == "done     4 of 5\nfailed   1: `gateway fleet failed` lists them\n"
    assert json.loads(planned("status", "p", "--json").out) == {
        "items": 5, "done": 4, "failed": 1, "unknown": 0, "begun": 0, "chunks": 3,
        "open_chunks": 0, "working": 0, "workers": 0, "waiting": [], "missing": 0,
    }  # fmt: skip
    (line,) = planned("failed", "p").out.splitlines()
    assert (json.loads(line)["number"], json.loads(line)["status"]) == (4, 404)
    assert planned("unknown", "p") == Ended(0, "", "")
    ended = planned("collect", "p", "p.csv")
    assert ended.status == Status.FAILED
    assert ended.err.splitlines()[1] == "done     4 of 5"
    rows = Path("p.csv").read_text().splitlines()
    assert rows[0] == "base,symbol,date,rate"
    assert len(rows) > 80

    assert planned("retry", "p").err == "p: 0 items are done again\n"
    assert planned("retry", "p", "--all").err == "p: 1 items are done again\n"
    assert planned("plan", "p", "queries.ndjson").err.endswith(", which are there already\n")
    assert planned("delete", "p").err == "p: deleted\n"
    ended = planned("status", "p")
    assert (ended.status, "there is no plan 'p'" in ended.err) == (Status.MISUSED, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("status", "jobs", "p"), "cannot import jobs: module 'jobs' has no attribute 'job'"),
        (("status", "jobs:other", "p"), "jobs:other is no fleet.Job"),
        (("status", "nothing:rates", "p"), "cannot import nothing:rates: No module named"),
        (("status", "a b:rates", "p"), "cannot import a b:rates: invalid format"),
        (("--tenant", "x", "fleet", "status", "jobs:rates", "p"), "does not take --tenant"),
        (("collect", "jobs:rates", "p", "p.txt"), "must end with one of .csv"),
        (("status", "broken:rates", "p"), "No module named 'nonsense'"),
        (("status", "wrong:rates", "p"), "gateway: operation must be one of"),
        (("worker", "late:rates"), "gateway: timeout must be more than 0 seconds"),
        (("worker", "unset:rates"), "or give --base-url"),
    ],
)
def test_what_is_wrong_is_named(
    call_gateway: Call, arguments: tuple[str, ...], message: str
) -> None:
    call_gateway("fleet", "init", "jobs:rates")
    Path("broken.py").write_text("import nonsense\n")
    Path("wrong.py").write_text(MODULE.replace("exchange_rate", "exchanged_rate"))
    late = 'session={"base_url": "https://a.test", "access_token": "t", "timeout": -1}'
    Path("late.py").write_text(MODULE.replace("lease=1.0", late))
    Path("unset.py").write_text(MODULE)
    first = () if arguments[0].startswith("-") else ("fleet",)

    ended = call_gateway(*first, *arguments)

    assert ended.status == Status.MISUSED
    assert message in ended.err


def test_items_that_cannot_be_read_are_named(planned: Call) -> None:
    for file, problem in {
        "missing.ndjson": "cannot read missing.ndjson",
        "/proc/self/mem": "cannot read /proc/self/mem: Input/output",
        "jobs.py": "line 1 of jobs.py is not JSON",
    }.items():
        ended = planned("plan", "q", file)
        assert (ended.status, problem in ended.err) == (Status.MISUSED, True)


def test_items_come_from_standard_input(planned: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Path("queries.ndjson").read_text()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))

    assert planned("plan", "q", "-").err == "q: 5 items in 1 chunks\n"


def test_a_full_disk_is_named(planned: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gateway_sdk.bulk._export.os.fsync", full)
    ended = planned("collect", "p", "p.csv", "--partial")

    assert ended.status == Status.FAILED
    assert "cannot write p.csv: No space left on device" in ended.err


def test_what_is_waited_for_and_unknown_is_told(
    planned: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import UTC, datetime  # noqa: PLC0415 - for one test

    since = datetime(2026, 1, 31, 12, tzinfo=UTC)
    numbers: dict[str, Any] = {"chunks": 1, "working": 0, "items": 5, "done": 3, "failed": 0}
    reason = Waiting(reason="the gateway is away", since=since, workers=2)
    waiting = PlanStatus(**numbers, unknown=1, begun=1, open_chunks=1, workers=2, waiting=(reason,))
    complete = PlanStatus(
        **{**numbers, "done": 4}, unknown=1, begun=0, open_chunks=0, workers=0, waiting=()
    )
    seen = [waiting, waiting, complete]

    async def status(*_: object) -> PlanStatus:
        return seen.pop(0)

    monkeypatch.setattr("gateway_sdk.fleet.Job.status", status)
    lines = planned("status", "p").out.splitlines()
    assert lines[1:3] == [
        "unknown  1: `gateway fleet unknown` lists them",
        "begun    1: may be under way, and are not sent twice",
    ]
    assert lines[4].startswith("waits    2 workers since ")
    assert lines[4].endswith(": the gateway is away")
    told = json.loads(planned("status", "p", "--json").out)
    assert told["waiting"] == [
        {"reason": "the gateway is away", "since": "2026-01-31T12:00:00+00:00", "workers": 2}
    ]
    assert planned("status", "p").status == Status.UNKNOWN


def test_a_bar_shows_the_progress_until_the_plan_is_complete(
    planned: Call, served: Sandbox, start_in_terminal: StartInTerminal
) -> None:
    """While workers, which may be elsewhere, do it; a container asks whether they are alive."""
    served.faults.on("exchange_rate_series", Fault.status(503), at=1)
    watching = start_in_terminal("fleet", "status", "jobs:rates", "p", "--watch")
    watching.read_until("0/5")
    command = [*GATEWAY, "fleet", "worker", "jobs:rates"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as worker:
        watching.read_until("done     4 of 5")
        assert planned("worker", "--check").status == 0
        worker.terminate()
        assert worker.wait() == 0


def test_a_worker_that_cannot_start_ends_with_a_line(planned: Call) -> None:
    ended = planned("worker")

    assert ended.status == Status.MISUSED
    assert "GATEWAY_BASE_URL" in ended.err


def test_commands_run_on_the_loop_that_psycopg_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not Windows' usual one."""

    class Needed(asyncio.SelectorEventLoop): ...

    async def kind() -> type:
        return type(asyncio.get_running_loop())

    monkeypatch.setattr(fleet, "SelectorEventLoop", Needed)
    assert fleet.run(kind()) is Needed
