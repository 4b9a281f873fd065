"""The rows of a journal, their values, and how a later run uses them."""

import asyncio
import json
import os
import shutil
import stat
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, SecretStr, ValidationError

from gateway_sdk import Advice, GatewaySession, Outcome, bulk, errors
from gateway_sdk.bulk._source import item_text
from gateway_sdk.models import Country, CreateRequest
from gateway_sdk.outcome import OUTCOME_TEXT
from tests.bulk.runs import Memory, Stuck, content, created, fetch, refused, rows, same, session
from tests.interface_table import COUNTRY, FILLED
from tests.support import virtual_time
from tests.support.calls import CALLS, Call
from tests.support.scripted import Step, scripted

COLUMNS = {
    "id", "key", "once", "state", "item", "value", "error", "message",
    "operation", "outcome", "status", "advice", "writes", "attempts", "elapsed", "time",
}  # fmt: skip


create, read = CALLS["create_customer"], CALLS["list_countries"]


def has_mode(path: Path, mode: int) -> bool:
    return os.name == "nt" or stat.S_IMODE(path.stat().st_mode) == mode


CAUSE = LookupError("canary")


def raising(error: Exception, *, first: Call | None = None) -> Call:
    async def call(gateway: GatewaySession) -> None:
        if first is not None:
            await first(gateway)
        raise error from CAUSE

    return call


async def create_and_read(gateway: GatewaySession) -> None:
    await create(gateway)
    await read(gateway)


async def create_and_upload(gateway: GatewaySession) -> None:
    await create(gateway)
    await CALLS["upload_document"](gateway)


async def cancel_and_update(gateway: GatewaySession) -> None:
    await CALLS["cancel_order"](gateway)
    await CALLS["update_document"](gateway)


async def create_something(gateway: GatewaySession) -> object:
    await create(gateway)
    return object()


# Only the messages of the classes of this package are known to hold no personal data.
OwnError: Any = type("NotFoundError", (errors.GatewayError,), {})

FATES: dict[str, tuple[Call, list[Step], tuple[Any, ...]]] = {
    # The call, the replies, and of the row: state, once, error, outcome, status, advice.
    "read": (read, [httpx.Response(200, json=[])], ("done", 0, None, None, None, None)),
    "created": (create, [created], ("done", 1, None, None, None, None)),
    "lost": (read, [httpx.ReadError("cut")],
        ("failed", 0, "ReplyLostError", "UNKNOWN", None, "repeat")),
    "server error": (read, [httpx.Response(500)],
        ("failed", 0, "ServerError", "UNKNOWN", 500, "repeat")),
    "not found": (read, [httpx.Response(404)],
        ("failed", 0, "NotFoundError", "REFUSED", 404, "fix")),
    "read: forbidden": (read, [httpx.Response(403)],
        ("failed", 0, "ForbiddenError", "REFUSED", 403, "fix")),
    "read: elsewhere": (read, [httpx.Response(302)],
        ("failed", 0, "RedirectError", "UNKNOWN", 302, "fix")),
    "read: a page": (read, [httpx.Response(200, text="<html>")],
        ("failed", 0, "UnexpectedReplyError", "UNKNOWN", 200, "fix")),
    "conflict": (create, [httpx.Response(409)],
        ("failed", 1, "ConflictError", "REFUSED", 409, "fix")),
    "write lost": (create, [httpx.ReadError("cut")],
        ("unknown", 1, "ReplyLostError", "UNKNOWN", None, "check")),
    "write refused": (create, [httpx.Response(403)],
        ("failed", 1, "ForbiddenError", "REFUSED", 403, "fix")),
    "written, then not found": (create_and_read, [created, httpx.Response(404)],
        ("failed", 1, "NotFoundError", "APPLIED", 404, "check")),
    "written, then an upload refused": (create_and_upload, [created, httpx.Response(429)],
        ("failed", 1, "RateLimitedError", "APPLIED", 429, "check")),
    "written, then an upload lost": (create_and_upload, [created, httpx.ReadError("cut")],
        ("failed", 1, "ReplyLostError", "APPLIED", None, "check")),
    "written, then an error": (raising(errors.GatewayError("x"), first=create), [created],
        ("failed", 1, "GatewayError", "APPLIED", None, "check")),
    "written, then a bug": (raising(KeyError("canary"), first=create), [created],
        ("failed", 1, "KeyError", "APPLIED", None, "check")),
    "written, then no JSON": (create_something, [created],
        ("failed", 1, "JournalError", "APPLIED", None, "check")),
    "cancelled, then not found": (cancel_and_update, [created, httpx.Response(404)],
        ("failed", 0, "NotFoundError", "APPLIED", 404, "fix")),
    "cancelled, then away": (cancel_and_update, [created, httpx.Response(503)] * 3,
        ("failed", 0, "ServerError", "APPLIED", 503, "repeat")),
    "bug": (raising(ZeroDivisionError("canary")), [],
        ("failed", 0, "ZeroDivisionError", None, None, "repeat")),
    "invalid": (lambda gateway: gateway.customer.create_customer({"customerNam": "x"}), [created],
        ("failed", 0, "InvalidArgumentError", "NOT_SENT", None, "fix")),
    "no message": (raising(errors.GatewayError()), [],
        ("failed", 0, "GatewayError", "NOT_SENT", None, "fix")),
    "of the user": (raising(OwnError("canary")), [],
        ("failed", 0, "NotFoundError", "NOT_SENT", None, "fix")),
    "half of a surrogate pair": (raising(errors.NotFoundError("no \ud800", status=404)), [],
        ("failed", 0, "NotFoundError", "UNKNOWN", 404, "fix")),
}  # fmt: skip


DONE_TEXT = OUTCOME_TEXT[Outcome.APPLIED]
DONE = f"create_customer: {DONE_TEXT}"
WRITES: dict[str, str] = {
    "written, then not found": DONE,
    "written, then an upload refused":
        f"{DONE}; upload_document: the gateway refused it: nothing was changed",
    "written, then an upload lost":
        f"{DONE}; upload_document: it is unknown whether the gateway did it",
    "written, then an error": DONE,
    "written, then a bug": DONE,
    "written, then no JSON": DONE,
    "cancelled, then not found":
        f"cancel_order: {DONE_TEXT}; update_document: the gateway refused it: nothing was changed",
    "cancelled, then away":
        f"cancel_order: {DONE_TEXT}; update_document: it is unknown whether the gateway did it",
}  # fmt: skip
"""What is said of an item of several calls; of one call, its own outcome is said."""


@pytest.mark.parametrize("fate", FATES)
async def test_what_a_row_says_is_what_a_later_run_gives_and_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fate: str
) -> None:
    (call, steps, expected), path = FATES[fate], tmp_path / "journal.db"
    gateway, _, _ = scripted(monkeypatch, *steps, retry=None)
    async with gateway:
        (first,) = (await fetch(path, ["Ada"], lambda _: call(gateway))).values()
    (row,) = rows(path)
    (stored,) = (await fetch(path, ["Ada"], refused)).values()

    assert set(row) == COLUMNS
    names = ("state", "once", "error", "outcome", "status", "advice")
    assert tuple(row[name] for name in names) == expected
    assert (row["item"], len(row["key"]), row["attempts"]) == ("Ada", 16, first.attempts)
    assert datetime.fromisoformat(row["time"]).utcoffset() is not None
    assert b"canary" not in content(path)
    assert (first.from_journal, stored.from_journal) == (False, True)
    assert stored.attempts == first.attempts
    advice = expected[-1] and Advice(expected[-1])
    outcome = expected[-1] and Outcome[expected[3] or "UNKNOWN"]
    assert [(it.outcome, it.advice) for it in (first, stored)] == [(outcome, advice)] * 2
    error, kept = first.error, stored.error
    writes = WRITES.get(fate, "")
    assert (row["writes"] or "") == writes
    if error is None:
        assert stored.value == first.value == row["value"]
    else:
        assert isinstance(kept, errors.GatewayError)
        assert (kept.outcome.name, kept.advice.value) == (row["outcome"] or "UNKNOWN", expected[-1])
        assert getattr(kept, "status", None) == expected[4]
        assert type(kept) is getattr(errors, row["error"], errors.GatewayError)
        if getattr(call, "__qualname__", "").startswith("raising"):  # others may be partials
            assert error.__cause__ is CAUSE
        if isinstance(error, errors.GatewayError):
            assert (error.outcome, error.advice) == (kept.outcome, kept.advice)
            assert error.writes == kept.writes == writes
            if writes:
                for told in (str(error), str(kept)):  # and nothing else of what was done
                    assert told.endswith(f" ({writes})")
                    rest = told.removesuffix(f"({writes})")
                    assert not [text for text in OUTCOME_TEXT.values() if text in rest]
        is_ours = type(error).__module__ == errors.__name__ and error.args
        text = str(error.args[0]).encode("utf-8", "replace").decode() if is_ours else None
        assert row["message"] == text
        assert kept.args == (text or f"{row['error']}, in an earlier run",)

    assert has_mode(path, 0o600)
    path.chmod(0o640)  # the mode that its user sets stays
    results = await fetch(path, ["Ada"], lambda item: asyncio.sleep(0, item), retry_failed=True)

    is_repeated = expected[-1] == "repeat" or fate.startswith("read: ")
    assert results["Ada"].from_journal is not is_repeated
    assert len(rows(path)) == 1
    assert has_mode(path, 0o640)
    assert [found.name for found in path.parent.iterdir()] == [path.name]


async def test_a_write_in_flight_when_the_process_was_killed_is_not_repeated(path: Path) -> None:
    copied = path.with_name("copy.db")

    def answer(request: httpx.Request) -> httpx.Response:
        for end in ("", "-wal"):  # its content in the middle of the call
            shutil.copy(f"{path}{end}", f"{copied}{end}")
        return created(request)

    async with session(answer) as gateway:
        await fetch(path, ["Ada"], lambda _: create(gateway))
    assert [row["state"] for row in rows(copied)] == ["begun"]
    results = await fetch(copied, ["Ada"], refused, retry_failed=True)

    error = results["Ada"].error
    assert isinstance(error, errors.GatewayError)
    assert (error.outcome, error.advice) == (Outcome.UNKNOWN, Advice.CHECK)
    assert "an earlier run ended" in str(error)
    assert [row["state"] for row in rows(copied)] == ["unknown"]


@pytest.mark.parametrize("end", ["deadline", "close"])
@pytest.mark.parametrize(
    ("calls", "sends", "outcome"),
    [
        (["create_customer"], True, Outcome.UNKNOWN),
        (["create_customer", "list_countries"], True, Outcome.APPLIED),
        (["create_customer"], False, Outcome.NOT_SENT),
        (["cancel_order"], True, Outcome.UNKNOWN),
        (["list_countries"], True, Outcome.UNKNOWN),
        (["list_countries"], False, Outcome.NOT_SENT),
    ],
)
@virtual_time.in_virtual_time
async def test_an_interrupted_item_is_repeated_only_if_that_is_safe(
    calls: list[str], *, sends: bool, outcome: Outcome, end: str
) -> None:
    """What was not sent, or may be sent twice, counts as never begun; the rest is a failure."""
    stuck, ledger = Stuck(sends=sends, replies=len(calls) - 1), Memory()
    is_once, states = sends and "create_customer" in calls, list[list[str]]()

    async def take(run: AsyncIterator[Any]) -> Any:
        result = await anext(run)
        states.append([entry.state.value for entry in ledger.entries.values()])
        return result

    async def call(_: str) -> None:
        for name in calls:
            await CALLS[name](gateway)

    async with session(stuck) as gateway:
        run = bulk.run(call, ["one"], journal=ledger, deadline=10.0)
        first = asyncio.ensure_future(take(run))
        await stuck.asked.wait()
        if end == "close":
            first.cancel()
        await asyncio.wait([first])
        await run.aclose()

    if end == "deadline":
        result = first.result()
        error = result.error
        assert not is_once or states == [["unknown" if outcome is Outcome.UNKNOWN else "failed"]]
        assert isinstance(error, errors.DeadlineExceededError)
        assert (error.operation, error.outcome) == (calls[-1], outcome)
        assert (len(error.attempts), result.attempts) == (1, len(calls))
        assert (error.advice is Advice.CHECK) is is_once
    (later,) = [result async for result in bulk.run(same, ["one"], journal=ledger)]
    assert later.from_journal is is_once
    assert (later.error is not None) is is_once


@dataclass
class Rate:
    day: date
    rate: Decimal


def nested(depth: int) -> Any:
    return json.loads("[" * depth + "]" * depth)


JSON: list[tuple[object, object]] = [
    # A value, and the JSON of its row.
    (None, None),
    (Rate(date(2026, 1, 2), Decimal("1.10")), {"day": "2026-01-02", "rate": "1.10"}),
    ([Country.model_validate(COUNTRY)], [COUNTRY]),
    ({"password": SecretStr("canary")}, {"password": "**********"}),
    (float("nan"), "NaN"),
    ("two\nlines", "two\nlines"),
    ("\u2028", "\u2028"),
    ("x" * 300_000, "x" * 300_000),  # larger than a page of the file
    (nested(220), nested(220)),
]

LOADED: list[tuple[object, object, dict[str, Any], object]] = [
    # A value, the JSON of its row, dump and load, and the value, or the error, of each result.
    *((value, written, {}, written) for value, written in JSON),
    (Decimal("1.10"), "1.10", {"load": Decimal}, Decimal("1.10")),
    ("odd", "odd", {"load": float}, ValueError),
    (1 + 2j, [1.0, 2.0],
        {"dump": lambda it: [it.real, it.imag], "load": lambda found: complex(*found)}, 1 + 2j),
]  # fmt: skip


@pytest.mark.parametrize(("value", "written", "options", "expected"), LOADED)
async def test_a_value_is_the_json_of_its_row_or_what_load_makes_of_it(
    path: Path, value: object, written: object, options: dict[str, Any], expected: object
) -> None:
    """Each equal item has it, also one whose call was made for another, or in an earlier run."""

    async def call(_: str) -> object:
        return value

    for made in (call, refused):
        run = bulk.run(made, ["x", "x"], journal=path, job="test", **options)
        for result in [result async for result in run]:
            if expected is ValueError:
                assert isinstance(result.error, ValueError)
            else:
                unread = deepcopy(result)
                assert (result.value, type(result.value)) == (expected, type(expected))
                assert result.value is result.value  # it is decoded once
                assert (result, hash(result)) == (unread, hash(unread))
        (row,) = rows(path)
        assert row["value"] == written
    assert b"canary" not in content(path)


@pytest.mark.parametrize(
    "value",
    [object(), "\ud800", b"\xff", {1: {2: object()}}, nested(300), 10**5000],
    ids=["object", "surrogate", "bytes", "inner object", "too deep", "too long to read"],
)
async def test_a_value_that_is_no_json_is_a_failure(path: Path, value: object) -> None:
    async def call(item: str) -> object:
        return value if item == "odd" else item

    results = await fetch(path, ["odd", "plain"], call)
    error = results["odd"].error
    assert isinstance(error, errors.JournalError)
    assert "give dump=" in str(error)
    assert results["plain"].value == "plain"
    assert [line["error"] for line in rows(path)] == ["JournalError", None]
    assert len(await fetch(path, ["odd", "plain"], refused)) == 2
    later = await fetch(path, ["odd", "plain"], call, retry_failed=True, dump=id)
    assert (later["odd"].value, later["plain"].from_journal) == (id(value), True)


async def test_an_item_that_is_no_json_needs_a_key(path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="give key="):
        await fetch(path, [object()], refused)
    await fetch(path, [object()], lambda _: asyncio.sleep(0, "done"), key=lambda _: "one")

    (row,) = rows(path)
    assert (row["item"], row["value"]) == (None, "done")


class Task(BaseModel):
    request: CreateRequest
    kind: str = "new"


@dataclass(frozen=True)
class Job:
    request: CreateRequest | Task
    note: str | None = None


@pytest.mark.parametrize(
    ("make", "read"),
    [
        (lambda request: request, lambda item: item),
        (lambda request: ("c-1", [request]), lambda item: item[1][0]),
        (lambda request: {"c-1": {"request": request}}, lambda item: item["c-1"]["request"]),
        (lambda request: Task(request=request), lambda item: item["request"]),
        (Job, lambda item: item["request"]),
        (lambda request: Job(Task(request=request)), lambda item: item["request"]["request"]),
    ],
)
@given(data=st.data())
def test_the_item_of_a_row_is_the_request_as_it_is_sent(
    make: Callable[[Any], Any], read: Callable[[Any], Any], data: st.DataObject
) -> None:
    """Absent stays absent, so that the row of a write that has to be checked can be read again."""
    sent = data.draw(parts_of(FILLED))
    request = CreateRequest.model_validate(sent)

    text = item_text(make(request))

    assert text is not None
    row = read(json.loads(text))
    assert row == masked(request.to_wire())
    if row == sent:
        assert CreateRequest.model_validate(row) == request
    else:  # a mask is never taken for a secret
        with pytest.raises(ValidationError, match="is the mask of a secret, not a secret"):
            CreateRequest.model_validate(row)


def parts_of(value: Any, name: str = "") -> st.SearchStrategy[Any]:
    """Draw what is left of JSON without some members; the strings may be null."""
    if isinstance(value, dict):
        members = {key: parts_of(inner, key) for key, inner in value.items()}
        return st.fixed_dictionaries({}, optional=members)
    if isinstance(value, list):
        return st.lists(parts_of(value[0]), max_size=2)
    return st.just(value) | st.none() if name and isinstance(value, str) else st.just(value)


SECRETS = ("pinCode", "password", "answer")


def masked(value: Any) -> Any:
    if isinstance(value, dict):
        is_shown = {name: name not in SECRETS or value[name] is None for name in value}
        return {name: masked(value[name]) if is_shown[name] else "*" * 10 for name in value}
    return [masked(inner) for inner in value] if isinstance(value, list) else value


def test_defaults_of_a_class_of_the_user_are_in_the_row() -> None:
    """They are a part of the item: only the interface tells absent from null."""
    task = json.loads(item_text(Task(request=CreateRequest(customer_name="Ada"))) or "")
    job = json.loads(item_text(Job(CreateRequest())) or "")

    assert task == {"request": {"customerName": "Ada"}, "kind": "new"}
    assert job == {"request": {}, "note": None}


@pytest.mark.parametrize(
    "held",
    [
        lambda pieces: pieces,
        lambda pieces: ("name", [pieces]),
        lambda pieces: {"pieces": pieces},
        lambda pieces: Country.model_construct(**{**COUNTRY, "currency": pieces}),
        lambda pieces: Rate(pieces, Decimal(1)),
    ],
)
def test_a_generator_in_an_item_is_left_to_the_call(held: Callable[[Any], Any]) -> None:
    """To write the item would use it up: an empty document would be uploaded."""
    pieces = (piece for piece in [b"a", b"b"])

    assert item_text(held(pieces)) is None
    assert list(pieces) == [b"a", b"b"]
