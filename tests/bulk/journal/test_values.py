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
    InvalidArgumentError,
    JournalError,
    bulk,
)
from gateway_sdk.bulk._recorder import item_text
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


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


JSON: list[tuple[object, object]] = [
    # A value, and the JSON of its row.
    (None, None),
    (Rate(date(2026, 1, 2), Decimal("1.10")), {"day": "2026-01-02", "rate": "1.10"}),
    ([COUNTRY], [COUNTRY.model_dump(by_alias=True)]),
    ({"password": SecretStr("canary")}, {"password": "**********"}),
    (float("nan"), "NaN"),
    ("two\nlines", "two\nlines"),
    ("\u2028", "\u2028"),
    ("x" * 300_000, "x" * 300_000),  # larger than a page of the file
    (nested(90), nested(90)),
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
    tmp_path: Path, value: object, written: object, options: dict[str, Any], expected: object
) -> None:
    """Each equal item has it, whether its call was made for it, in this run, or in an earlier one.

    Models have their wire names, dates and numbers are as pydantic writes them, secrets are masked.
    """
    path = tmp_path / "journal.db"

    async def call(_: str) -> object:
        return value

    for made in (call, refused):
        run = bulk.run(made, ["x", "x"], journal=path, job=JOB, **options)
        for result in [result async for result in run]:
            if expected is ValueError:
                assert isinstance(result.error, ValueError)
            else:
                assert (result.value, type(result.value)) == (expected, type(expected))
                assert result.value is result.value  # it is decoded once
        (row,) = rows(path)
        assert row["value"] == written
    assert b"canary" not in path.read_bytes()


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
