"""Locks that other programs have on a journal: a run waits for them, and loses no outcome."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import JournalError, bulk
from gateway_sdk.bulk import _journal
from tests.bulk.runs import JOB, Answering, created, fetch, refused, rows, same, session

READER, WRITER = "select * from items", "begin immediate"
HOLD = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None).execute(sys.argv[2])
held.fetchone()  # and no further: as pandas.read_sql(chunksize=1) does
print("held", flush=True)
sys.stdin.read()
"""
LOCKED = "is locked by another program, such as one that reads it with an open cursor"


@contextmanager
def connection(path: Path, statement: str) -> Iterator[Callable[[], object]]:
    database = sqlite3.connect(path, isolation_level=None)
    cursor = database.execute(statement)
    cursor.fetchone()
    with ExitStack() as held:
        held.callback(database.close)
        held.callback(cursor.close)
        yield held.close


@contextmanager
def process(path: Path, statement: str) -> Iterator[Callable[[], object]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), statement],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        yield other.communicate
        if other.poll() is None:
            other.communicate()


@pytest.fixture(autouse=True)
def impatient_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_journal, "_IN_SQLITE", 0)


class Clock:
    """The time of the journal: it is asked for before the first try, and after each that failed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, step: float = 0.0) -> None:
        self.now, self.step = 0.0, step
        self.releases: dict[int, Callable[[], object]] = {}  # by the number of failed tries
        self.failed = -1
        monkeypatch.setattr(_journal, "monotonic", self)

    def __call__(self) -> float:
        self.failed += 1
        self.releases.get(self.failed, lambda: None)()
        self.now += self.step
        return self.now


@pytest.mark.parametrize("hold", [connection, process])
@pytest.mark.parametrize("statement", [READER, WRITER])
@pytest.mark.parametrize("patience", [3600, None])
async def test_a_run_begins_when_the_lock_is_gone(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    hold: Any,
    statement: str,
    patience: float | None,
) -> None:
    """It says once what it waits for, and how to end this."""
    await fetch(path, [1, 2, 3], same)
    clock = Clock(monkeypatch)

    with hold(path, statement) as clock.releases[3]:
        results = await fetch(path, [2, 3, 4], same, patience=patience)

    assert caplog.messages == [f"the journal {path} {LOCKED}: the run waits"]
    assert {item: one.from_journal for item, one in results.items()} == {2: True, 3: True, 4: False}
    assert [*path.parent.iterdir()] == [path]


@pytest.mark.parametrize("hold", [connection, process])
async def test_writes_that_were_sent_keep_their_outcomes(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    hold: Any,
) -> None:
    """Whoever locks the file meanwhile: no customer is UNKNOWN, and none is created twice."""
    engine, locks = Answering(created), ExitStack()

    async def create(item: int) -> Any:
        done = await gateway.customer.create_customer({"customerName": str(item)})
        if item == 3:  # what was sent is not written yet
            clock = Clock(monkeypatch)
            clock.releases[2] = locks.enter_context(hold(path, WRITER))
        return done

    async with session(engine) as gateway:
        with locks:
            results = await fetch(path, range(10), create, concurrency=2)

    assert {result.error for result in results.values()} == {None}
    assert [row["state"] for row in rows(path)] == ["done"] * 10
    assert len(engine.asked) == 10
    assert caplog.messages == [f"the journal {path} {LOCKED}: the run waits"]


@pytest.mark.parametrize("statement", [READER, WRITER, "begin exclusive"])
@pytest.mark.parametrize(("patience", "step"), [(0, 0.0), (3600, 3601.0), (10, 3.0)])
async def test_the_patience_of_a_run_ends_the_wait(
    path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, patience: float, step: float
) -> None:
    """Then it ends, nothing is lost, and the next run goes on."""
    await fetch(path, [1, 2, 3], same)
    clock = Clock(monkeypatch, step=step)

    with connection(path, statement):
        with pytest.raises(JournalError, match=f"{LOCKED}; its rows are kept: run the same again"):
            await fetch(path, [1, 4], refused, patience=patience)
        assert clock.now <= patience + 3 * step

    assert (await fetch(path, [1], refused))[1].value == 1


@pytest.mark.parametrize("is_released", [False, True])
async def test_a_lock_that_stays_loses_no_reply(
    path: Path, monkeypatch: pytest.MonkeyPatch, is_released: bool
) -> None:
    """The customer is yielded before the error; the run tries once more to write when it closes."""
    with ExitStack() as locks:

        async def create(item: int) -> Any:
            done = await gateway.customer.create_customer({"customerName": str(item)})
            clock = Clock(monkeypatch, step=2.0)
            release = locks.enter_context(connection(path, WRITER))
            clock.releases |= {3: release} if is_released else {}  # when the last try begins
            return done

        async with session(Answering(created)) as gateway:
            run = bulk.run(create, [1], journal=path, job=JOB, patience=3)
            assert (await anext(run)).value == {"customerId": "c-1"}
            with pytest.raises(JournalError, match="kept: run the same again") as caught:
                await anext(run)

    assert ("calls unknown: 1;" in str(caught.value)) is not is_released
    assert [row["state"] for row in rows(path)] == ["done" if is_released else "begun"]
    assert len(bulk.unknown(path)) == (not is_released)


async def test_a_run_that_waits_for_a_lock_can_be_cancelled(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fetch(path, range(3), same)
    waiting = asyncio.ensure_future(fetch(path, [1], refused))
    Clock(monkeypatch).releases[2] = waiting.cancel

    with connection(path, READER):
        await asyncio.wait([waiting])

    assert waiting.cancelled()
    assert [*path.parent.iterdir()] == [path]
