"""Processes end, stop or lack something: the run goes on, or says what is wrong."""

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from gateway_sdk import RateLimit, bulk, cluster
from gateway_sdk.bulk import BulkResult
from gateway_sdk.bulk.results import StoredValue
from gateway_sdk.cluster import _ENDS, _Chunks, _dask
from gateway_sdk.cluster._worker import Sealed
from gateway_sdk.errors import ConfigurationError, ConnectionFailedError, GatewayError, OutageError
from gateway_sdk.outcome import Outcome
from tests.bulk.runs import rows
from tests.cluster import jobs
from tests.cluster.conftest import ROOT, Cluster, Gateway
from tests.cluster.test_run import Results, assert_holds, results_of, until_nothing_is_left
from tests.support import virtual_time
from tests.support.ports import free_port

FULL = pytest.mark.full


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait seconds, where a user waits longer."""
    for name, seconds in {"_LOOK": 0.2, "_JOIN": 40.0}.items():
        monkeypatch.setattr(_dask, name, seconds)


async def begun(gateway: Gateway, requests: int, *numbers: int, **options: Any) -> Any:
    """Begin a run of as many items, and return it when as many requests were made."""
    before = gateway.counts()["requests"]
    run = asyncio.create_task(results_of(jobs.rates, range(*numbers), **options))
    await gateway.until(before + requests, run)
    return run


def assert_all_done(results: Results, number: int) -> None:
    assert sorted(result.item for result in results) == list(range(number))
    assert [result.error for result in results] == [None] * number


@pytest.mark.parametrize(
    "own",
    [{}, pytest.param({"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}, marks=FULL)],
    ids=["pending", "KilledWorker"],  # what becomes of the tasks of a dead worker
    indirect=True,
)
async def test_a_worker_is_killed_and_another_one_stopped(
    gateway: Gateway, own: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, stopped, _ = own.add_workers(3)
    run = await begun(gateway, 100, 800, address=own.address, chunk=25, concurrency=2)
    monkeypatch.setattr(_dask, "_SILENT", 4.0)
    killed.kill()
    stopped.signal(signal.SIGSTOP)
    results = await run
    stopped.signal(signal.SIGCONT)

    assert_all_done(results, 800)


async def test_an_error_of_the_chunk_itself_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def do(*_: Any) -> Any:
        raise TypeError("canary")

    monkeypatch.setattr(_dask.Workers, "do", do)
    with pytest.raises(GatewayError, match=r"^a chunk failed with TypeError$"):
        await results_of(jobs.same, range(3))


@FULL
async def test_the_scheduler_dies_and_all_workers_with_it(gateway: Gateway, own: Cluster) -> None:
    own.add_workers()
    told = set[str]()

    def note(progress: bulk.Progress) -> None:
        if progress.outage:
            told.add(str(progress.outage.error))

    options: Any = {"address": own.address, "chunk": 25, "concurrency": 2, "on_progress": note}
    run = await begun(gateway, 60, 500, **options)
    own.scheduler.kill()
    while not told:
        assert not run.done()
        await asyncio.sleep(0.02)
    await asyncio.to_thread(own.scheduler.start)
    await asyncio.to_thread(own.add_workers)

    assert_all_done(await run, 500)
    assert all(f"the scheduler {own.address}" in text for text in told)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, marks=FULL),
        pytest.param(signal.SIGTERM, marks=FULL),
        signal.SIGKILL,
    ],
)
async def test_the_program_ends_and_the_workers_stop_and_only_what_is_missing_is_done(
    gateway: Gateway, shared: Cluster, tmp_path: Path, number: int
) -> None:
    options: Any = {"address": shared.address, "journal": str(tmp_path / "j.db"), "job": "test"}
    code = (
        "import asyncio; from tests.cluster.test_run import *\n"
        f"run = results_of(jobs.some, range(600), **{options}, concurrency=1, chunk=20)\n"
        "asyncio.run(run)"
    )
    before = gateway.counts()["requests"]
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, cwd=ROOT, stderr=subprocess.DEVNULL
    )
    await gateway.until(before + 250)
    while not rows(tmp_path / "j.db"):  # noqa: ASYNC110 - the disk of another process may be slow
        await asyncio.sleep(0.02)
    program.send_signal(number)
    await program.wait()
    await until_nothing_is_left(shared)

    results = await results_of(jobs.rates, range(600), **options)

    assert_all_done(results, 600)
    assert any(result.from_journal for result in results)


@FULL
async def test_all_workers_are_gone_for_longer_than_patience(
    gateway: Gateway, own: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (worker,) = own.add_workers()
    run = await begun(gateway, 30, 500, address=own.address, concurrency=1, patience=3)
    monkeypatch.setattr(_dask, "_JOIN", 2.0)
    worker.kill()

    with pytest.raises(OutageError, match="has no worker any more"):
        await run


async def test_there_is_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_dask, "_SILENT", 1.0)
    address = f"tcp://127.0.0.1:{free_port()}"
    with pytest.raises(ConnectionFailedError, match=rf"{address} does not answer.*is it running"):
        await results_of(jobs.same, [1], address=address)


async def test_a_run_whose_scheduler_is_silent_is_left_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_dask, "_SILENT", 1000.0)
    asked, is_over = asyncio.Event(), asyncio.Event()

    async def keep_silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await is_over.wait()
        writer.close()

    async with await asyncio.start_server(keep_silent, "127.0.0.1", port := free_port()):
        options: Any = {"address": f"tcp://127.0.0.1:{port}"}
        run = asyncio.create_task(results_of(jobs.same, [1], **options))
        await asked.wait()
        run.cancel()
        await asyncio.wait([run], timeout=20)
        is_over.set()
        assert run.cancelled()


async def test_the_workers_of_this_machine_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, given in {"_WORKERS": ("-c", "0"), "_START": 0.5, "_JOIN": 0.5}.items():
        monkeypatch.setattr(_dask, name, given)
    with pytest.raises(
        ConnectionFailedError, match="machine has no worker after 0 s: did it start"
    ):
        await results_of(jobs.same, [1])


async def test_there_is_no_worker(own: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_dask, "_JOIN", 1.0)
    with pytest.raises(ConnectionFailedError, match="no worker after 1 s: start one with `dask"):
        await results_of(jobs.same, [1], address=own.address)


LACKS: dict[str, tuple[str, str]] = {
    "the package": (
        "import sys; sys.modules['gateway_sdk'] = None",
        r"gateway_sdk.*; it needs gateway-sdk\[cluster\]",
    ),
    "the version": (
        "import platform; platform.python_version = lambda: '3.9.1'",
        r"it has gateway-sdk .*, Python 3\.9, and the program .*: install the same",
    ),
    "the function": (
        "import sys; sys.modules['tests.cluster.jobs'] = None",
        r"ModuleNotFoundError.*import of tests\.cluster\.jobs halted",
    ),
    "a file of the function": (
        "import os; os.environ['JOBS_READ'] = '/no/file'",
        r"FileNotFoundError.*/no/file",
    ),
}


def lacking(what: str, folder: Path) -> dict[str, str]:
    """Return the environment of a process that lacks something."""
    (folder / "sitecustomize.py").write_text(LACKS[what][0])
    return {"PYTHONPATH": str(folder)}


@FULL
@pytest.mark.parametrize("what", LACKS)
async def test_a_worker_that_lacks_something_and_one_that_does_not(
    gateway: Gateway, own: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    own.add_workers(1, **lacking(what, tmp_path))
    monkeypatch.setattr(_dask, "_JOIN", 1.0)
    options: Any = {"address": own.address, "chunk": 2}

    with pytest.raises(ConfigurationError, match=f"1 workers, and none is fit.*{LACKS[what][1]}"):
        await results_of(jobs.rates, range(8), **options)

    own.add_workers()
    assert_all_done(await results_of(jobs.rates, range(8), **options), 8)


@FULL
@pytest.mark.parametrize("what", ["the package", "the version"])
async def test_a_scheduler_that_lacks_something(
    gateway: Gateway, tmp_path: Path, what: str
) -> None:
    environment = gateway.environment | lacking(what, tmp_path)
    with closing(Cluster(tmp_path, **environment)) as bad:
        bad.scheduler.start()
        with pytest.raises(ConfigurationError, match=f"cannot be used.*{LACKS[what][1]}"):
            await results_of(jobs.same, [1], address=bad.address)


SCRIPT = """
import asyncio
from gateway_sdk import cluster

async def latest(gateway, number):
    return await gateway.currency.exchange_rate_series("EUR", f"C{number}", "a", "b")

async def main():
    async for result in cluster.run(latest, range(30)):
        print(result.value["base"])

asyncio.run(main())
"""


@FULL
async def test_a_script_without_a_guard_starts_a_cluster_on_this_machine(
    gateway: Gateway, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "script.py", cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await process.communicate()

    assert out.split() == [b"EUR"] * 30
    assert err == b""


@pytest.mark.parametrize("limit", [None, RateLimit(1000, 0.01)])
@pytest.mark.parametrize(("times", "named"), [(_ENDS, set()), (100, {7})])
async def test_an_item_that_ends_each_worker_is_done_alone_and_named(
    monkeypatch: pytest.MonkeyPatch, limit: RateLimit | None, times: int, named: set[int]
) -> None:
    """Also without a rate limit, which gives it no turn of its own; by chance, it is done then."""
    left = iter(range(times))

    async def do(_: _dask.Workers, sealed: Sealed) -> Any:
        _, _, items = sealed.open()
        done = BulkResult[Any, Any](item=(), error=None, elapsed=0.0, _value=StoredValue(""))
        if 7 in items and next(left, None) is not None:
            return None
        return dict.fromkeys(range(len(items)), done), None

    monkeypatch.setattr(_dask.Workers, "do", do)
    options: Any = {"chunk": 5, "at_once": 1, "rate_limit": limit}
    results = await results_of(jobs.same, range(20), **options)

    failed = {result.item: str(result.error) for result in results if result.error}
    assert failed == dict.fromkeys(named, "each process ended that did this item alone")
    assert len(results) == 20


@virtual_time.in_virtual_time
async def test_no_chunk_begins_while_the_user_leaves_what_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Values of 9 MB, two of which fill a chunk; the user takes one each minute."""
    given = 0

    async def do(_: _dask.Workers, sealed: Sealed) -> Any:
        nonlocal given
        done = list[BulkResult[Any, Any]]()
        for item in sealed.open()[2][:2]:
            value = StoredValue(json.dumps(str(item) * 9_000_000))
            done.append(BulkResult(item=(), error=None, elapsed=0.0, _value=value))
        given += len(done)
        return dict(enumerate(done)), None

    monkeypatch.setattr(_dask.Workers, "do", do)
    taken = list[int]()
    async with aclosing(cluster.run(jobs.same, range(10), at_once=2)) as results:
        async for result in results:
            taken.append(int(result.value[0]))
            await asyncio.sleep(60)
            assert given <= len(taken) + 5  # one waits, and two chunks of two have begun

    assert sorted(taken) == list(range(10))


async def test_a_client_whose_closing_is_cancelled_is_closed_at_the_end() -> None:
    """It may be that of a look that found the scheduler gone; closing it may fail, too."""
    asked = asyncio.Event()

    class Client:
        status = "running"
        closings = 0

        async def close(self) -> None:
            self.status, self.closings = "closing", self.closings + 1
            asked.set()
            if self.closings == 1:
                await asyncio.Event().wait()
            raise OSError

    workers = _dask.Workers(Sealed(()), "tcp://127.0.0.1:1", None)
    workers._client = client = Client()
    workers._looking = asyncio.ensure_future(workers._leave())
    await asked.wait()
    await workers.aclose()

    assert (client.status, client.closings) == ("closed", 2)


@virtual_time.in_virtual_time
async def test_a_value_that_could_not_be_converted_does_not_wait_to_be_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its `load` asks a gateway, say, which is away: the item is done again, and has much text."""
    tries = iter(range(2))

    async def do(_: _dask.Workers, __: Sealed) -> Any:
        value = StoredValue(json.dumps("x" * 2 * 2**24))
        return {0: BulkResult[Any, Any](item=(), error=None, elapsed=0.0, _value=value)}, None

    def load(value: Any) -> int:
        if next(tries, None) is not None:
            raise ConnectionFailedError("the gateway is away")
        return len(value)

    monkeypatch.setattr(_dask.Workers, "do", do)
    async with asyncio.timeout(600):
        [result] = await results_of(jobs.same, [1], load=load, patience=300)
    assert result.value == 2 * 2**24


async def test_an_item_that_nobody_waits_for_any_more_keeps_no_other_from_its_result() -> None:
    """One call of a chunk is cancelled while the worker has it."""
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def do(sealed: Sealed) -> Any:
        begun.set()
        await may_end.wait()
        done = BulkResult[Any, Any](item=(), error=None, elapsed=0.0, _value=StoredValue('"done"'))
        return dict.fromkeys(range(2), done), None

    chunks = _Chunks(Mock(do=do, aclose=AsyncMock()), 2, None, 1, None)
    left, other = (asyncio.create_task(chunks.call(item)) for item in range(2))
    await begun.wait()
    left.cancel()
    may_end.set()

    assert (await other).value == "done"
    await chunks.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@FULL
async def test_an_item_that_kills_its_process_is_named(gateway: Gateway) -> None:
    options: Any = {"rate_limit": RateLimit(30, 0.5), "at_once": 4}
    results = {
        result.item: result for result in await results_of(jobs.killing, range(100), **options)
    }

    error = results.pop(7).error
    assert isinstance(error, GatewayError)
    assert error.outcome is Outcome.UNKNOWN
    assert str(error) == "each process ended that did this item alone"
    assert [result.error for result in results.values()] == [None] * 99
    assert_holds(RateLimit(30, 0.5), [result.value for result in results.values()])
