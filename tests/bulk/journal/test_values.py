"""How values and errors are written to a journal, and read back."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from gateway_sdk import (
    Advice,
    ConflictError,
    GatewayError,
    InvalidArgumentError,
    JournalError,
    NotFoundError,
    ReplyLostError,
    bulk,
)
from gateway_sdk.bulk._json import item_text
from gateway_sdk.models import Country
from tests.bulk.journal.journals import JOB, fetch, refused, rows


@dataclass
class Rate:
    """A value of a user's class."""

    day: date
    rate: Decimal


COUNTRY = Country.model_validate(
    {
        "id": 1, "countryName": "Malta", "nationality": "Maltese", "currency": "EUR",
        "three_digit_iso_code": "MLT", "two_digit_iso_code": "MT", "phone_code": "+356",
    }
)  # fmt: skip


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, None),
        (Rate(date(2026, 1, 2), Decimal("1.10")), {"day": "2026-01-02", "rate": "1.10"}),
        ([COUNTRY], [COUNTRY.model_dump(by_alias=True)]),
        ({"password": SecretStr("canary")}, {"password": "**********"}),
        (float("nan"), "NaN"),
        ("two\nlines", "two\nlines"),
        ("\u2028", "\u2028"),
    ],
)
async def test_values_of_many_kinds_are_written_as_json(
    tmp_path: Path, value: object, written: object
) -> None:
    """Models by their wire names, dates and numbers as pydantic writes them, secrets masked."""
    path = tmp_path / "journal.db"

    async def call(_: str) -> object:
        return value

    (live,) = (await fetch(path, ["x"], call)).values()
    (stored,) = (await fetch(path, ["x"], refused)).values()

    assert live.value == stored.value == rows(path)[0]["value"] == written
    assert b"canary" not in path.read_bytes()


async def test_equal_items_have_equal_values(tmp_path: Path) -> None:
    """Of the same types, whether the call was made for them, in this run, or in an earlier one."""

    async def call(_: str) -> Decimal:
        return Decimal("1.10")

    async def types(**options: Any) -> set[type]:
        path = tmp_path / f"{len(options)}.db"
        runs = [bulk.run(call, ["x", "x"], journal=path, job=JOB, **options) for _ in range(2)]
        return {type(result.value) for run in runs async for result in run}

    assert await types() == {str}
    assert await types(load=Decimal) == {Decimal}


async def test_what_load_raises_is_the_result_of_its_item(tmp_path: Path) -> None:
    """Already when the call is made, and not only in the next run."""

    async def call(item: str) -> str:
        return item

    def load(found: str) -> float:
        return float(found)

    run = bulk.run(call, ["1.5", "x"], journal=tmp_path / "j.db", job=JOB, load=load)
    found = {result.item: result async for result in run}

    assert found["1.5"].value == 1.5
    assert isinstance(found["x"].error, ValueError)


async def test_dump_and_load_convert_values(tmp_path: Path) -> None:
    """`dump` converts a value to JSON, and `load` converts it back."""
    path = tmp_path / "journal.db"
    options: dict[str, Any] = {
        "dump": lambda value: [value.real, value.imag],
        "load": lambda found: complex(*found),
    }

    async def call(_: str) -> complex:
        return 1 + 2j

    await fetch(path, ["x"], call, **options)
    (stored,) = (await fetch(path, ["x"], refused, **options)).values()

    assert rows(path)[0]["value"] == [1.0, 2.0]
    assert stored.value == 1 + 2j


async def test_an_error_of_load_fails_its_item_only(tmp_path: Path) -> None:
    """The error of `load` is the item's, the rows are unchanged, and other items go on."""
    path = tmp_path / "journal.db"

    async def call(item: str) -> str:
        return item

    await fetch(path, ["1", "two", "3"], call)
    before = rows(path)
    results = await fetch(path, ["1", "two", "3"], refused, load=int)

    assert isinstance(results["two"].error, ValueError)
    assert results["two"].from_journal
    assert [results[item].value for item in ("1", "3")] == [1, 3]
    assert rows(path) == before


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [object(), "\ud800", b"\xff", {1: {2: object()}}, nested(220), 10**5000],
    ids=["object", "surrogate", "bytes", "inner object", "too deep to read", "too long to read"],
)
async def test_a_value_that_is_no_json_is_a_failure(tmp_path: Path, value: object) -> None:
    """The result and the row say what to do, and other items go on."""
    path = tmp_path / "journal.db"

    async def call(item: str) -> object:
        return value if item == "odd" else item

    results = await fetch(path, ["odd", "plain"], call)

    error = results["odd"].error
    assert isinstance(error, JournalError)
    assert "give dump=" in str(error)
    assert results["plain"].value == "plain"
    assert [line["error"] for line in rows(path)] == ["JournalError", None]
    assert len(await fetch(path, ["odd", "plain"], refused)) == 2


async def test_an_item_that_is_no_json_needs_a_key(tmp_path: Path) -> None:
    """A key identifies it, and its column `item` is null."""
    path = tmp_path / "journal.db"
    item = object()

    async def call(_: object) -> str:
        return "done"

    with pytest.raises(InvalidArgumentError, match="give key="):
        await fetch(path, [item], call)
    (result,) = (await fetch(path, [item], call, key=lambda _: "one")).values()

    assert result.value == "done"
    assert rows(path)[0]["item"] is None


async def test_equal_items_have_one_row_and_a_result_each(tmp_path: Path) -> None:
    """The second item is read from the journal, or shares the call in flight."""
    path = tmp_path / "journal.db"
    called: list[str] = []

    async def call(item: str) -> str:
        called.append(item)
        return item

    run = bulk.run(call, ["a", "b", "a", "a"], journal=path, job=JOB, concurrency=1)
    results = [(result.item, result.value, result.from_journal) async for result in run]

    assert called == ["a", "b"]
    assert results == [("a", "a", False), ("b", "b", False), ("a", "a", True), ("a", "a", True)]
    assert len(rows(path)) == 2


async def test_large_values_are_read_whole(tmp_path: Path) -> None:
    """A value may be larger than a page of the file."""
    path = tmp_path / "journal.db"

    async def call(item: str) -> str:
        return item * 300_000

    await fetch(path, ["a", "b"], call)
    results = await fetch(path, ["a", "b"], refused)

    assert {item: len(result.value) for item, result in results.items()} == {
        "a": 300_000, "b": 300_000,
    }  # fmt: skip


class NoLedger:
    """A ledger of the user's, as far as its arguments are checked."""

    open = has = read = write = aclose = refused


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"journal": 3, "job": "x"}, "journal must be"),
        ({"journal": NoLedger(), "job": "x"}, "go with a journal that is a file"),
        ({"journal": NoLedger(), "retry_failed": True}, "go with a journal that is a file"),
        ({"journal": "x"}, "needs job="),
        ({"journal": "x", "job": " "}, "needs job="),
        ({"journal": "x", "job": "a\nb"}, "needs job="),
        ({"job": "x"}, "go with journal="),
        ({"dump": str}, "go with journal="),
        ({"retry_failed": True}, "go with journal="),
        ({"retry_failed": 1}, "retry_failed must be"),
        ({"dump": 1}, "dump must be"),
        ({"load": 1}, "load must be"),
    ],
)
def test_wrong_arguments_of_a_journal_are_refused_at_once(
    options: dict[str, Any], named: str
) -> None:
    """The error names the wrong or missing argument."""
    with pytest.raises(InvalidArgumentError, match=named):
        bulk.run(refused, [1], **options)


@pytest.mark.parametrize(
    "error",
    [
        ReplyLostError("cut"),
        NotFoundError("404", status=404),
        ConflictError("409", status=409),
        GatewayError(),
    ],
)
async def test_an_error_is_read_back_with_its_class(tmp_path: Path, error: GatewayError) -> None:
    """Its class, its message and its status are the original ones."""
    path = tmp_path / "journal.db"

    async def call(_: str) -> None:
        raise error

    await fetch(path, ["x"], call)
    (result,) = (await fetch(path, ["x"], refused)).values()

    assert type(result.error) is type(error)
    assert getattr(result.error, "status", None) == getattr(error, "status", None)
    assert isinstance(result.error, GatewayError)
    assert result.error.outcome is error.outcome
    assert result.error.advice is error.advice is Advice(rows(path)[0]["advice"])


async def test_an_error_with_half_of_a_surrogate_pair_is_written(tmp_path: Path) -> None:
    """A user may raise an error of ours with a text that UTF-8 cannot hold."""
    path = tmp_path / "journal.db"

    async def call(_: str) -> None:
        raise NotFoundError("no \ud800", status=404)

    (result,) = (await fetch(path, ["x"], call)).values()

    assert isinstance(result.error, NotFoundError)
    assert [line["message"] for line in rows(path)] == ["no ?"]


class Held(BaseModel):
    """An item of pydantic's with any member."""

    pieces: Any


@dataclass
class Kept:
    pieces: Any


@pytest.mark.parametrize(
    "held",
    [
        lambda pieces: pieces,
        lambda pieces: ("name", [pieces]),
        lambda pieces: {"pieces": pieces},
        lambda pieces: Held.model_construct(pieces=pieces),
        Kept,
    ],
)
def test_a_generator_in_an_item_is_left_to_the_call(held: Callable[[Any], Any]) -> None:
    """To write the item would use it up: an empty document would be uploaded."""
    pieces = (piece for piece in [b"a", b"b"])

    assert item_text(held(pieces)) is None
    assert list(pieces) == [b"a", b"b"]


async def test_the_message_of_a_users_error_is_not_written(tmp_path: Path) -> None:
    """Only messages of this package's own classes are known to hold no personal data."""
    path = tmp_path / "journal.db"

    class NotFoundError(GatewayError):
        """A user's class with the name of one of ours."""

    async def call(_: str) -> None:
        raise NotFoundError("canary")

    await fetch(path, ["x"], call)

    assert rows(path)[0]["message"] is None
    assert b"canary" not in path.read_bytes()
