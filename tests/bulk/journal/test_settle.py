"""Items of unknown outcome: they are listed, and a person says what became of them."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import aclosing, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_sdk import Advice, InvalidArgumentError, JournalError, NotFoundError, Outcome, bulk
from gateway_sdk.bulk import Entry, State, _journal
from gateway_sdk.models import CreateRequest, PersonData
from tests.bulk.journal.test_file import opened
from tests.bulk.journal.test_locks import LOCKED, READER, connection
from tests.bulk.runs import JOB, content, created, fetch, refused, rows, same, session

DONE = {"customerId": "c-7"}


def names(request: CreateRequest) -> Any:
    return {"name": request.customer_name}


def plain(name: str) -> Any:
    return {"customerName": name}


def model(name: str) -> Any:
    return CreateRequest(customer_name=name)


def secret(name: str) -> Any:
    return CreateRequest(customer_name=name, person=PersonData(password="canary"))


ITEMS = [(plain, None), (model, None), (secret, names)]


async def create(path: Path, items: list[Any], *, loses: str = "", **options: Any) -> Any:
    """Run over customers, of whom one gets no reply; return its result, and who was sent."""
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.content.decode())
        if loses and loses in sent[-1]:
            raise httpx.ReadError("canary")
        return created(request)

    async with session(answer) as gateway:
        run = bulk.run(gateway.customer.create_customer, items, journal=path, job=JOB, **options)
        results = [result async for result in run]
    return next(it for it in results if it.item == items[0]), sent


def decisions(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("select * from decisions").fetchall()


@pytest.mark.parametrize("by_digest", [False, True])
@pytest.mark.parametrize(("make", "key"), ITEMS)
@pytest.mark.parametrize("done", [DONE, None, "c-7", [CreateRequest(customer_name="Ada")]])
async def test_what_was_done_has_the_value_that_was_found(
    path: Path, make: Callable[[str], Any], key: Any, done: Any, by_digest: bool
) -> None:
    items = [make("Ada"), make("Bob")]
    lost, _ = await create(path, items, loses="Ada", key=key)
    assert lost.error.outcome is Outcome.UNKNOWN
    (entry,) = bulk.unknown(path)
    assert entry.failure is not None
    found = entry.key if by_digest else items[0] if key is None else key(items[0])

    before = datetime.now(UTC)
    bulk.settle(path, JOB, found, done=done)

    for retry_failed in (False, True):
        result, sent = await create(path, items, key=key, retry_failed=retry_failed)
        value = [{"customerName": "Ada"}] if isinstance(done, list) else done
        assert (result.error, result.from_journal, sent) == (None, True, [])
        assert result.value == value or isinstance(done, list)
    assert bulk.unknown(path) == []
    ((time, *decided, failed),) = decisions(path)
    assert abs(datetime.fromisoformat(time) - before).total_seconds() < 60
    assert decided == ["done", 1, "ReplyLostError", entry.failure.message, "create_customer"]
    assert entry.time is not None
    assert failed == entry.time.isoformat(timespec="milliseconds")
    assert b"canary" not in content(path)


@pytest.mark.parametrize(("make", "key"), ITEMS)
async def test_what_was_not_done_is_made_by_the_next_run(
    path: Path, make: Callable[[str], Any], key: Any
) -> None:
    """Once, and it may be lost again: then it is unknown again."""
    items = [make("Ada"), make("Bob")]
    found = items[0] if key is None else key(items[0])
    for number in (1, 2):
        lost, sent = await create(path, items, loses="Ada", key=key)
        assert lost.error.advice is Advice.CHECK
        assert len(sent) == (2 if number == 1 else 1)
        bulk.settle(path, JOB, found, not_done=True)
        assert rows(path)[0]["state"] == "interrupted"

    result, sent = await create(path, items, key=key)
    again, nothing = await create(path, items, key=key)

    assert (result.value, result.from_journal, len(sent)) == ({"customerId": "c-1"}, False, 1)
    assert (again.value, again.from_journal, nothing) == ({"customerId": "c-1"}, True, [])
    assert [row[1] for row in decisions(path)] == ["not done"] * 2


async def test_a_wrong_decision_is_taken_back_until_a_run_has_begun_the_item(path: Path) -> None:
    items = [plain("Ada"), plain("Bob")]
    await create(path, items, loses="Ada")
    bulk.settle(path, JOB, items[0], not_done=True)
    await fetch(path, [], refused)  # which has begun nothing
    bulk.settle(path, JOB, items[0], done=DONE)

    result, sent = await create(path, items)
    assert (result.value, sent) == (DONE, [])
    assert [row[1] for row in decisions(path)] == ["not done", "done"]
    with pytest.raises(JournalError, match="has no item with this key"):
        bulk.settle(path, JOB, items[0], not_done=True)


async def written(path: Path, entry: Entry) -> None:
    async with opened(path) as ledger:
        await ledger.write([entry])


async def test_what_a_killed_run_had_begun_is_listed_and_settled(path: Path) -> None:
    """Nobody has to begin another run before."""
    await written(path, Entry(key=b"1", state=State.BEGUN, once=True, item='"Ada"'))

    (entry,) = bulk.unknown(path)
    bulk.settle(path, None, entry.key, done=7)

    assert (entry.state, entry.item) == (State.BEGUN, '"Ada"')
    assert [(row["state"], row["value"]) for row in rows(path)] == [("done", 7)]


async def test_a_value_goes_through_load(path: Path) -> None:
    await create(path, [plain("Ada")], loses="Ada")
    bulk.settle(path, JOB, plain("Ada"), done=[1])

    result, _ = await create(path, [plain("Ada")], load=tuple)

    assert result.value == (1,)


@pytest.mark.parametrize("state", sorted({*State} - {State.BEGUN, State.UNKNOWN}))
@pytest.mark.parametrize("how", [{"done": 1}, {"not_done": True}])
async def test_what_is_known_is_not_settled(path: Path, state: State, how: Any) -> None:
    failure = bulk.Failure(error="NotFoundError", outcome="REFUSED", status=404)
    entry = Entry(key=b"1", state=state, failure=failure if state is State.FAILED else None)
    await written(path, entry)
    before = rows(path)

    for key in (b"1", b"2"):
        with pytest.raises(JournalError, match="has no item with this key whose outcome is unkno"):
            bulk.settle(path, JOB, key, **how)

    assert rows(path) == before
    assert [*path.parent.iterdir()] == [path]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "give either done=, with the value, or not_done=True"),
        ({"done": 1, "not_done": True}, "give either done=, with the value, or not_done=True"),
        ({"done": object()}, r"done cannot be written as JSON \(PydanticSerializationError\)"),
        ({"done": "\ud800"}, r"done cannot be written as JSON \(.*Error\)"),
        ({"key": object(), "done": 1}, "the key of an item holds a object, which is no JSON value"),
        ({"key": secret("Ada"), "done": 1}, "holds a SecretStr, which is no JSON value"),
        ({"job": "other", "done": 1}, "belongs to the job 'test', not to 'other'"),
    ],
)
async def test_what_is_wrong_changes_nothing(
    path: Path, given: dict[str, Any], problem: str
) -> None:
    await create(path, [plain("Ada")], loses="Ada")
    before = content(path)

    with pytest.raises((InvalidArgumentError, JournalError), match=problem) as caught:
        bulk.settle(path, **{"job": JOB, "key": plain("Ada"), **given})

    assert content(path) == before
    assert caught.value.__cause__ is None


async def test_a_run_has_its_journal_for_itself(path: Path) -> None:
    """It knows what is unknown, and would overwrite the decision; whoever reads may look."""
    await create(path, [plain("Ada")], loses="Ada")
    async with aclosing(bulk.run(same, [1, 2], journal=path, job=JOB)) as run:
        await anext(run)
        assert len(await asyncio.to_thread(bulk.unknown, path)) == 1
        with pytest.raises(JournalError, match="in use by another run"):
            await asyncio.to_thread(bulk.settle, path, JOB, plain("Ada"), not_done=True)

    bulk.settle(path, JOB, plain("Ada"), not_done=True)


async def test_a_locked_journal_is_not_settled(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await create(path, [plain("Ada"), plain("Bob"), plain("Eve")], loses="Ada")
    monkeypatch.setattr(_journal, "_IN_SQLITE", 0)

    with connection(path, READER), pytest.raises(JournalError, match=f"{LOCKED}: end that first"):
        bulk.settle(path, JOB, plain("Ada"), not_done=True)

    assert len(bulk.unknown(path)) == 1


async def test_only_what_is_unknown_is_listed(path: Path) -> None:
    async def call(item: int) -> int:
        if item:
            raise NotFoundError("404", status=404)
        return item

    await fetch(path, [0, 1], call)

    assert bulk.unknown(path) == []
    assert (await fetch(path, [0], refused))[0].value == 0
