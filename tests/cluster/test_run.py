"""A run on the workers of a cluster gives what `bulk.run` gives."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import aclosing, closing
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, Security

from gateway_sdk import RateLimit, bulk, cluster, operations
from gateway_sdk.cluster import _dask
from gateway_sdk.errors import ConfigurationError, InvalidArgumentError, JournalError
from gateway_sdk.models import ExchangeRateSeriesRequest
from gateway_sdk.outcome import Advice, Outcome, Repeatability
from tests.cluster import jobs
from tests.cluster.conftest import Cluster, Gateway

Results = list[bulk.BulkResult[Any, Any]]


async def results_of(work: Any, items: Iterable[Any], **options: Any) -> Results:
    async with aclosing(cluster.run(work, items, **options)) as results:
        return [result async for result in results]


async def test_each_item_has_its_result_and_the_journal_keeps_it(
    gateway: Gateway, shared: Cluster, tmp_path: Path
) -> None:
    before, told = gateway.counts()["requests"], list[bulk.Progress]()
    options: Any = {"address": shared.address, "journal": tmp_path / "j.db", "job": "test"}

    options |= {"key": lambda item: item % 1000}  # so that the last item is like the second
    items = [*range(250), 1001]
    first = await results_of(jobs.rates, items, **options, on_progress=told.append, chunk=40)
    again = await results_of(jobs.rates, range(251), **options)

    assert sorted(result.item for result in first) == items
    assert {(result.attempts, result.error, result.from_journal) for result in first} == {
        (1, None, False)
    }
    assert all(0.005 <= result.elapsed < 60 for result in first)
    assert told[-1] == bulk.Progress(251, 0, 0, 251)
    assert Counter(result.from_journal for result in again) == {True: 250, False: 1}
    assert [result.value for result in first] == [again[0].value] * 251
    assert gateway.counts()["requests"] == before + 251
    assert bulk.export(tmp_path / "j.db", tmp_path / "rates.csv").rows == 30  # all are equal


@pytest.mark.parametrize(
    "item",
    [
        {"base": "EUR", "symbols": "USD", "start_date": "2026-01-01", "end_date": "2026-01-31"},
        ExchangeRateSeriesRequest(base="EUR", symbols="USD", start_date="a", end_date="b"),
    ],
)
async def test_an_operation_by_its_name(gateway: Gateway, shared: Cluster, item: Any) -> None:
    (result,) = await results_of("exchange_rate_series", [item], address=shared.address)

    assert result.item == item
    assert result.value["base"] == "EUR"


@pytest.mark.parametrize("operation", operations.OPERATIONS, ids=lambda one: one.name)
def test_an_operation_that_must_not_be_sent_twice_is_refused_at_once(operation: Any) -> None:
    if operation.repeatability is not Repeatability.ONCE:
        cluster.run(operation.name, [])
        return
    with pytest.raises(InvalidArgumentError, match=r"must not be sent twice.*use bulk\.run on one"):
        cluster.run(operation.name, [])


async def test_a_request_that_must_not_be_sent_twice_is_not_sent(
    gateway: Gateway, shared: Cluster, tmp_path: Path
) -> None:
    before = gateway.counts()["customers"]

    results = await results_of(jobs.customer, range(20), address=shared.address, chunk=5)

    for result in results:
        if result.item % 2:
            assert result.error is None
        else:
            assert isinstance(result.error, InvalidArgumentError)
            assert result.error.outcome is Outcome.NOT_SENT
            assert result.error.advice is Advice.FIX
            assert result.error.field == "request"
            assert "use bulk.run on one machine, with its journal, or a queue" in str(result.error)
    assert gateway.counts()["customers"] == before


async def test_an_error_of_the_function(gateway: Gateway, shared: Cluster, tmp_path: Path) -> None:
    options: Any = {"address": shared.address, "journal": tmp_path / "j.db", "job": "test"}
    (result,) = await results_of(jobs.failing, ["value"], **options)

    assert repr(result.error) == repr(ValueError("zero"))


ALONE: dict[str, tuple[Any, str]] = {
    "is not loaded": (jobs.Own(), "loaded in a worker (ValueError)"),
    "is not pickled": (threading.Lock(), "item of the type lock cannot be pickled"),
    "has an error that is not made again": ("own", "OwnError, in a worker: its class cannot be"),
    "has an error that is not pickled": ("lock", "ValueError, in a worker: "),
    "has an error that is not loaded": ("foreign", "ThereError, in a worker: "),
}


@pytest.mark.parametrize("what", ALONE)
async def test_an_item_with_what_cannot_travel_fails_alone(
    gateway: Gateway, shared: Cluster, what: str
) -> None:
    item, problem = ALONE[what]
    items = [0, item, 2, 3]
    results = await results_of(jobs.failing, items, address=shared.address, at_once=1)

    (failed,) = [result for result in results if result.error]
    assert failed.item is item
    assert problem in str(failed.error)
    assert "canary" not in str(failed.error)
    assert getattr(failed.error, "field", "item") == "item"
    is_ours = isinstance(failed.error, InvalidArgumentError)  # else the function may have called
    assert failed.outcome is (Outcome.NOT_SENT if is_ours else Outcome.UNKNOWN)
    assert failed.advice is (Advice.FIX if is_ours else Advice.CHECK)
    assert sorted(result.value for result in results if not result.error) == [0, 2, 3]


BASE = {"base_url": "https://a", "tenant_id": "a"}
SETTINGS: dict[str, Any] = BASE | {"access_token": jobs.no_token}
ENDS: dict[str, tuple[Any, dict[str, Any], Any, str]] = {
    "no Exception": ("panic", {}, jobs.Panic, r"^one$"),
    "a wrong setting": (3, {"access_token": jobs.no_token}, ConfigurationError, "access_token is"),
    "an unknown setting": (3, {"no_such": 1}, ConfigurationError, r"none is fit.*no_such"),
    # A file that is missing when the session is opened.
    "a missing file": (3, SETTINGS | {"verify": "no"}, ConfigurationError, r"none is fit.*verify"),
    "a missing module": (
        jobs.Own(ModuleNotFoundError), {}, ConfigurationError, r"none is fit.*ModuleNotFoundError",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ENDS)
async def test_what_is_not_about_one_item_ends_the_run(
    gateway: Gateway, shared: Cluster, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    item, session, error, text = ENDS[what]
    monkeypatch.setattr(_dask, "_JOIN", 1.0)
    work = jobs.rates if item == 3 else jobs.failing
    with pytest.raises(error, match=text):
        await results_of(work, [2, item, 4], address=shared.address, session=session)


@pytest.mark.parametrize("journal", [False, True])
async def test_a_function_in_no_module_travels_as_it_is_and_load_makes_its_value(
    gateway: Gateway, shared: Cluster, tmp_path: Path, *, journal: bool
) -> None:
    added = 2

    async def more(_: Any, number: int) -> int:
        return number + added

    options: Any = {"journal": tmp_path / "j.db", "job": "test"} if journal else {}
    (result,) = await results_of(more, [40], address=shared.address, load=str, **options)

    assert result.value == "42"


async def test_a_chunk_of_large_values_ends_early_and_the_rest_is_given_again(
    gateway: Gateway, shared: Cluster
) -> None:
    options: Any = {"at_once": 1, "concurrency": 1}  # so that all are one chunk
    results = await results_of(jobs.large, range(5), address=shared.address, **options)

    assert {result.item: result.value[0] for result in results} == dict(enumerate("01234"))


@pytest.mark.parametrize("chunk", [2, 15])
async def test_the_gateway_is_away_and_no_item_fails(
    gateway: Gateway, shared: Cluster, chunk: int
) -> None:
    outages = list[bulk.Outage | None]()
    loop = asyncio.get_running_loop()
    gateway.answer(503)

    def note(progress: bulk.Progress) -> None:
        outages.append(progress.outage)
        if progress.outage:
            loop.call_later(0.5, gateway.answer, 200)

    # A chunk of more items than are an outage: some of them are not tried in it.
    options: Any = {"chunk": chunk, "concurrency": 2, "at_once": 2, "on_progress": note}
    results = await results_of(jobs.rates, range(30), address=shared.address, **options)

    assert [result.error for result in results] == [None] * 30
    assert any(outages)


async def test_two_runs_on_one_cluster_and_two_with_one_journal(
    gateway: Gateway, shared: Cluster, tmp_path: Path
) -> None:
    options: Any = {"address": shared.address, "journal": tmp_path / "j.db", "job": "test"}
    async with aclosing(cluster.run(jobs.rates, range(60), **options)) as results:
        first = [await anext(results)]
        with pytest.raises(JournalError, match="in use by another run"):
            await results_of(jobs.rates, range(60), **options)
        other = await results_of(jobs.rates, range(60), address=shared.address)
        first += [result async for result in results]

    assert len(first) == len(other) == 60


async def until_nothing_is_left(cluster: Cluster) -> None:
    async with Client(cluster.address, asynchronous=True) as client:
        is_left = True
        while is_left:
            await asyncio.sleep(0.1)
            is_left = any((await client.run(jobs.left)).values())


@pytest.mark.parametrize("ends", ["early", "deadline"])
async def test_nothing_is_left_on_any_worker(gateway: Gateway, shared: Cluster, ends: str) -> None:
    await until_nothing_is_left(shared)
    before = gateway.counts()["requests"]
    options: Any = {"address": shared.address, "chunk": 1, "at_once": 16, "deadline": 600}
    run = asyncio.create_task(results_of(jobs.endless, range(16), **options))
    await gateway.until(before + 8, run)  # of 16: a worker does four at a time
    if ends == "deadline":
        loop: Any = asyncio.get_running_loop()
        (timer,) = (it for it in loop._scheduled if "_expire" in repr(it))
        timer._run()
        assert {type(result.error).__name__ for result in await run} == {"DeadlineExceededError"}
    else:
        run.cancel()
        await asyncio.wait([run])
    await until_nothing_is_left(shared)
    assert gateway.counts()["requests"] == before + 8


@pytest.mark.full
async def test_over_tls_no_log_of_dask_shows_an_item_or_a_value(
    gateway: Gateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    security = Security.temporary()
    tls = {"DASK_DISTRIBUTED__COMM__TLS__CA_FILE": security.tls_ca_file}
    for name in ("SCHEDULER", "WORKER"):
        tls[f"DASK_DISTRIBUTED__COMM__TLS__{name}__KEY"] = security.tls_client_key
        tls[f"DASK_DISTRIBUTED__COMM__TLS__{name}__CERT"] = security.tls_client_cert
    for number, (name, text) in enumerate(tls.items()):
        (file := tmp_path / f"{number}.pem").write_text(text)
        tls[name] = str(file)
    settings = gateway.environment | tls | {"DASK_LOGGING__DISTRIBUTED": "debug"}
    with closing(Cluster(tmp_path, "tls", **settings)) as own:
        own.scheduler.start()
        own.add_workers()
        options: Any = {"address": own.address, "security": security}
        (result,) = await results_of(jobs.same, ["canary"], **options)
        (wrong,) = await results_of(jobs.failing, ["key"], **options)

    assert result.value == "canary"
    assert repr(wrong.error) == "KeyError('canary')"
    assert "canary" not in own.logs() + caplog.text
    assert "DEBUG" in own.logs()


def assert_holds(limit: RateLimit, times: list[float]) -> None:
    """Look at each window of the limit; a thousandth is for what rounds."""
    end = 0.999 * limit.seconds
    assert max(sum(then <= time < then + end for time in times) for then in times) <= limit.requests


@pytest.mark.parametrize("at_once", [2, 8])
async def test_the_rate_is_that_of_all_workers_together(
    gateway: Gateway, shared: Cluster, at_once: int
) -> None:
    limit = RateLimit(30, 0.5)
    options: Any = {"address": shared.address, "rate_limit": limit, "chunk": 4, "at_once": at_once}
    times = [result.value for result in await results_of(jobs.timed, range(90), **options)]

    assert_holds(limit, times)
    assert 1.0 < max(times) - min(times) < 20


@pytest.mark.parametrize(("requests", "at_once"), [(600, 16), (601, 8), (30, 4), (3, 8), (17, 2)])
def test_all_slots_together_have_the_rate_and_so_has_a_chunk_alone(
    requests: int, at_once: int
) -> None:
    limits = import_module("gateway_sdk.cluster")._limits
    *shares, alone = limits(RateLimit(requests, 2.0), at_once)

    # In any period of 2 s, a slot may use up its own period so often.
    all_slots = sum(share.requests * round(2.0 / share.seconds) for share in shares)
    assert 0.9 * requests <= all_slots <= requests
    assert len(shares) <= at_once
    assert alone.requests * round(2.0 / alone.seconds) == all_slots


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"work": 3}, "work must be a coroutine function"),
    ({"work": "no_operation"}, "or the name of an operation"),
    ({"chunk": 0}, "chunk must be a whole number of at least 1"),
    ({"at_once": True}, "at_once must be"),
    ({"workers": "2"}, "workers must be"),
    ({"job": "test", "journal": object()}, "journal must be the path of a file"),
    ({"rate_limit": 3}, "rate_limit must be a RateLimit"),
    ({"concurrency": 0}, "concurrency must be a whole number of at least 1, 'adaptive'"),
    ({"load": 3}, "load must be a plain function"),
    ({"address": 3}, "address must be the address of a scheduler"),
    ({"allow_insecure": True, "address": ""}, "address must be the address of a scheduler"),
    ({"allow_insecure": "no"}, "allow_insecure must be True or False"),
    ({"session": [1]}, "session must be a mapping"),
    ({"address": "tcp://10.0.0.1:8786", "security": True}, "security must be Dask's Security"),
    ({"deadline": -1}, "deadline must be"),
    ({"journal": "j.db", "job": "test", "retry_failed": 1}, "retry_failed must be"),
    ({"patience": -1}, "patience must be"),
    ({"journal": "j.db", "job": None}, "job must name the work"),
    ({"items": 3}, "items must be an iterable"),
    ({"job": "test"}, "job goes with a journal"),
    ({"address": "tcp://10.0.0.1:8786"}, r"address is tcp:// to another machine.*use tls://"),
    ({"address": "scheduler:8786"}, "is tcp:// to another machine"),
    ({"address": "ws://scheduler:8786"}, "is ws:// to another machine"),
    ({"session": {"access_token": "secret"}}, "session cannot hold access_token, which would"),
    ({"session": {"headers": {"a": "b"}}}, "session cannot hold headers"),
    ({"session": {"token_header": "secret"}}, "session cannot hold token_header"),
    ({"session": {"cert": ("a", "b", "secret")}}, "session cannot hold cert with a password"),
    ({"session": {"proxy": "http://a:secret@b"}}, "session cannot hold proxy with a password"),
    ({"work": threading.Lock().acquire}, "work cannot be pickled"),
]


@pytest.mark.parametrize(("given", "problem"), WRONG)
def test_what_is_wrong_is_refused_at_once(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem) as caught:
        cluster.run(**{"work": jobs.same, "items": [], **given})

    assert "secret" not in str(caught.value)
    assert caught.value.field == [*given][-1]


@pytest.mark.parametrize("name", ["ordered", "observers", "dump"])
def test_what_has_no_meaning_is_refused_by_name(name: str) -> None:
    unknown: Any = {name: True}
    with pytest.raises(TypeError, match=name):
        cluster.run(jobs.same, [], **unknown)


@pytest.mark.parametrize(
    "given",
    [
        {"address": "tcp://10.0.0.1:8786", "allow_insecure": True},
        {"address": "tls://scheduler:8786"},
        {"address": "[::1]:8786"},
        {"address": "localhost:8786"},
        {"session": {"access_token": jobs.no_token}},
    ],
)
def test_what_is_right_is_taken(given: dict[str, Any]) -> None:
    cluster.run(jobs.same, [], **given)
