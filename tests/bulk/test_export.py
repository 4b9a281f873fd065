"""Exports of a journal: each format, exact numbers, whole or not at all."""

import asyncio
import csv
import json
import os
import sqlite3
import sys
from collections.abc import Callable
from contextlib import aclosing, closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gateway_sdk import InvalidArgumentError, JournalError, MissingExtraError, NotFoundError, bulk
from gateway_sdk.bulk import _export
from tests.bulk.runs import JOB, content, fetch, same

MANY = "1.12345678901234567890"
RATES = [
    ["EUR", "GBP", "2026-01-02", Decimal("0.87")],
    ["EUR", "USD", "2026-01-02", Decimal(MANY)],
    ["EUR", "USD", "2026-01-05", Decimal(110)],
]


async def rates(item: dict[str, str]) -> Any:
    if item["symbols"] == "XXX":
        raise NotFoundError("404", status=404)
    if item["symbols"] == "USD":
        return {"rates": {"2026-01-05": {"USD": 110}, "2026-01-02": {"USD": Decimal(MANY)}}}
    return {"base": "EUR", "rates": {"2026-01-02": {"GBP": 0.87}}}


@pytest.fixture
def out(path: Path) -> Path:
    return path.with_suffix(".csv")


@pytest.fixture
async def journal(path: Path) -> Path:
    queries = [{"base": "EUR", "symbols": symbol} for symbol in ("USD", "XXX", "GBP")]

    run = bulk.run(rates, queries, journal=path, job="test", concurrency=1)
    assert len([result async for result in run]) == 3
    return path


def read_csv(path: Path) -> list[list[Any]]:
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["base", "symbol", "date", "rate"]
    return [[*row[:3], Decimal(row[3])] for row in rows]


def read_ndjson(path: Path) -> list[list[Any]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    loaded = [json.loads(line, parse_float=Decimal, parse_int=Decimal) for line in lines]
    return [list(row.values()) for row in loaded]


def beside(journal: Path, suffix: str) -> Path:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")  # wine lacks functions that NumPy needs
    return journal.with_suffix(suffix)


def read_parquet(path: Path) -> list[list[Any]]:
    table = pytest.importorskip("pyarrow.parquet").read_table(path)
    assert [str(kind) for kind in table.schema.types] == [
        *["string"] * 2, "date32[day]", "decimal128(23, 20)",
    ]  # fmt: skip
    return [[*map(str, row), rate] for *row, rate in (row.values() for row in table.to_pylist())]


@pytest.mark.parametrize(
    ("suffix", "read"),
    [
        (".csv", read_csv),
        (".NDJSON", read_ndjson),
        (".jsonl", read_ndjson),
        (".parquet", read_parquet),
    ],
)
async def test_rates_have_all_digits_in_each_format(
    journal: Path, suffix: str, read: Callable[[Path], list[list[Any]]]
) -> None:
    out = beside(journal, suffix)
    out.write_text("before", encoding="utf-8")

    written = bulk.export(journal, str(out))

    assert written == bulk.Exported(rows=3, failed=1)
    assert read(out) == RATES
    assert sorted(path.name for path in out.parent.iterdir()) == sorted([out.name, journal.name])


@pytest.mark.parametrize("suffix", [".csv", ".ndjson", ".parquet"])
async def test_what_is_no_rate_has_a_row_per_item(journal: Path, suffix: str) -> None:
    out = beside(journal, suffix)

    written = bulk.export(journal, out, rates=False)

    assert written == bulk.Exported(rows=3, failed=1)
    table: pl.DataFrame = getattr(pl, f"read_{suffix[1:]}")(out)
    assert table["state"].to_list() == ["done", "done", "failed"]
    assert table["status"].to_list() == [None, None, 404]
    assert table["error"].to_list() == [None, None, "NotFoundError"]


async def test_of_series_that_overlap_the_newest_counts(path: Path, out: Path) -> None:
    """A run that goes on with other days asks for some of them again, and not for other items."""
    days = [("USD", 1, 4), ("USD", 1, 2), ("USD", 1, 3), ("USD,GBP", 1, 4), ("USD", 6, 6)]
    queries = [
        {"base": "EUR", "symbols": it, "start_date": f"2026-01-0{first}", "end_date": f"0{last}"}
        for it, first, last in days
    ]
    asked: list[int] = []

    async def call(item: dict[str, str]) -> Any:
        asked.append(len(asked))
        days = range(int(item["start_date"][-1]), int(item["end_date"]) + 1)
        return {"rates": {f"2026-01-0{day}": {"USD": asked[-1]} for day in days}}

    async for _ in bulk.run(call, queries, journal=path, job="test", concurrency=1):
        await asyncio.sleep(0.002)  # the time in a row has milliseconds

    assert bulk.export(path, out).rows == 9
    newest = [(1, 2), (2, 2), (3, 2), (4, 0), (6, 4), *((day, 3) for day in range(1, 5))]
    assert [(int(day[-1]), rate) for _, _, day, rate in read_csv(out)] == newest


async def test_values_of_another_shape_are_no_rates(path: Path) -> None:
    out = path.with_suffix(".ndjson")

    async def call(item: int) -> Any:
        return [item, 1e300] if item else {"rates": {"2026-01-02": {"USD": 1.5}}}

    await fetch(path, [1, 2], call)
    assert bulk.export(path, out) == bulk.Exported(rows=2, failed=0)
    assert json.loads(out.read_text(encoding="utf-8").splitlines()[0])["value"] == [1, 1e300]
    await fetch(path, [0], call)

    assert bulk.export(path, out) == bulk.Exported(rows=1, failed=0, other_shapes=2)
    assert bulk.export(path, out, rates=True) == bulk.Exported(rows=1, failed=0, other_shapes=2)
    assert json.loads(out.read_text(encoding="utf-8")) == {
        "base": "", "symbol": "USD", "date": "2026-01-02", "rate": 1.5,
    }  # fmt: skip


async def test_a_run_without_values_is_an_empty_file(path: Path, out: Path) -> None:
    await fetch(path, [], rates)

    assert bulk.export(path, out, rates=True) == bulk.Exported(rows=0, failed=0)
    assert content(out) == b"base,symbol,date,rate\r\n"


@pytest.mark.posix
def test_a_pipe_is_written_as_it_is(journal: Path, out: Path) -> None:
    os.mkfifo(out)
    with out.open("r+b", buffering=0) as pipe:
        assert bulk.export(journal, out).rows == 3
        assert out.is_fifo()
        assert pipe.read(99).startswith(b"base,symbol,date,rate\r\n")


@pytest.mark.parametrize("rate", ["1e-90", "1E+90"])
async def test_a_number_that_no_decimal_of_parquet_holds_is_refused(
    path: Path, out: Path, rate: str
) -> None:
    parquet = beside(path, ".parquet")
    value = {"rates": {"2026-01-02": {"USD": Decimal(rate)}}}
    await fetch(path, [1], lambda _: same(value))

    with pytest.raises(InvalidArgumentError, match="more than 76 digits: give a file of CSV"):
        bulk.export(path, parquet)
    assert bulk.export(path, out).rows == 1
    assert not parquet.exists()


def undecodable(path: Path) -> None:
    asyncio.run(fetch(path, [1], same))
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("update items set item = cast(x'3132ff' as text)")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: path.write_bytes(b"precious"), "cannot be read: file is not a database"),
        (lambda path: path.write_bytes(b""), "cannot be read: no such table"),
        (undecodable, "cannot be read: Could not decode to UTF-8 column 'item'$"),
        (lambda _: None, "there is no journal"),
        (lambda path: path.mkdir(), "there is no journal"),
    ],
)
def test_what_is_no_journal_is_refused(
    path: Path, out: Path, make: Callable[[Path], object], problem: str
) -> None:
    make(path)
    out.write_text("before", encoding="utf-8")

    with pytest.raises(JournalError, match=problem):
        bulk.export(path, out)

    assert out.read_text(encoding="utf-8") == "before"


async def test_a_wrong_suffix_and_a_missing_extra_are_named(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidArgumentError, match=r"out must end with one of .csv, .ndjson"):
        bulk.export(journal, "rates.xlsx")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match="parquet"):
        bulk.export(journal, "rates.parquet")


async def test_an_export_is_one_snapshot_of_a_run_that_goes_on(
    path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the rows up to three times: the second time, the rates may have more digits."""
    loop, write = asyncio.get_running_loop(), _export.write_results

    async def go_on() -> None:
        await anext(run)

    def later(*given: Any, **more: Any) -> Any:
        asyncio.run_coroutine_threadsafe(go_on(), loop).result()
        return write(*given, **more)

    monkeypatch.setattr(_export, "write_results", later)
    async with aclosing(bulk.run(same, range(3), concurrency=1, journal=path, job=JOB)) as run:
        await anext(run)
        written = await asyncio.to_thread(bulk.export, path, out)

    assert written.rows == 1
