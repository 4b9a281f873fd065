"""Exports of a journal: each format, exact numbers, whole or not at all."""

import asyncio
import codecs
import csv
import io
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
from tests.bulk.runs import JOB, content, fetch, insert, same

MANY = "1.12345678901234567890"
RATES = [
    ["EUR", "GBP", "2026-01-02", Decimal("0.87")],
    ["EUR", "USD", "2026-01-02", Decimal(MANY)],
    ["EUR", "USD", "2026-01-05", Decimal(110)],
]


async def rates(item: dict[str, str]) -> Any:
    if item["symbols"] == "X":
        raise NotFoundError("404", status=404)
    if item["symbols"] == "USD":
        return {"rates": {"2026-01-05": {"USD": 110}, "2026-01-02": {"USD": Decimal(MANY)}}}
    return {"base": "EUR", "rates": {"2026-01-02": {"GBP": 0.87}}}


@pytest.fixture
def out(path: Path) -> Path:
    return path.with_suffix(".csv")


@pytest.fixture
async def journal(path: Path) -> Path:
    queries = [{"base": "EUR", "symbols": symbol} for symbol in ("USD", "X", "GBP")]

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
    return [[*map(str, row), rate] for *row, rate in (row.values() for row in table.to_pylist())]


@pytest.mark.parametrize(
    ("suffix", "read"),
    [
        (".csv", read_csv),
        (".NDJSON", read_ndjson),
        (".jsonl", read_ndjson),
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


FORMULAS = [
    *(
        '=HYPERLINK("http://evil.test")',
        "=1+1",
        "+1-2",
        "-2+3",
        "@SUM(1)",
        "+",
        "-x",
        "-1\n",
        "-1.5e3",
    ),
    *("\t=1", "\r=1", "\n=1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff201"),
]
TEXTS = ["", "Ada", "a=1", " =1", "'=1", "-1.50", "+43", "1e-7", "2026-01-02", "Zoë", '"quoted"']


@pytest.mark.parametrize("text", FORMULAS + TEXTS)
def test_excel_gets_no_formulas_and_programs_the_data(path: Path, out: Path, text: str) -> None:
    """A sheet that opens a customer's name must not run it; a file of data is as it was."""
    insert(path, [bulk.Entry(key=b"1", state=bulk.State.DONE, item=text, value="-1")])

    bulk.export(path, out, rates=False)
    plain = content(out)
    bulk.export(path, out, rates=False, excel=True)
    for_excel = content(out)

    assert not plain.startswith(codecs.BOM_UTF8)
    assert for_excel.startswith(codecs.BOM_UTF8)
    cells = [list(csv.reader(io.StringIO(it.decode("utf-8-sig")))) for it in (plain, for_excel)]
    assert cells[0][1][0] == text
    assert cells[1][1][0] == (f"'{text}" if text in FORMULAS else text)
    assert [row[1:] for row in cells[0]] == [row[1:] for row in cells[1]]


async def test_excel_gets_rates_as_numbers(journal: Path, out: Path) -> None:
    bulk.export(journal, out)
    plain = content(out)
    bulk.export(journal, out, excel=True)

    assert content(out) == codecs.BOM_UTF8 + plain


@pytest.mark.posix
def test_a_pipe_is_written_as_it_is(journal: Path, out: Path) -> None:
    os.mkfifo(out)
    with out.open("r+b", buffering=0) as pipe:
        assert bulk.export(journal, out).rows == 3
        assert out.is_fifo()
        assert pipe.read(99).startswith(b"base,symbol,date,rate\r\n")


DOUBLE, DECIMAL = "double", "decimal128(38, 18)"


@pytest.mark.parametrize(("decimals", "kind"), [(False, DOUBLE), (True, DECIMAL)])
async def test_parquet_has_one_schema_whatever_the_data(
    tmp_path: Path, decimals: bool, kind: str
) -> None:
    """So the files of three months can be read together; the rates come as numbers and as texts."""
    dataset = pytest.importorskip("pyarrow.dataset")
    months: dict[str, list[Any]] = {
        "01": [1, "12345.5"], "02": [Decimal("0.000123456789012345"), "7"], "03": [],
    }  # fmt: skip

    async def call(month: str) -> Any:
        rates = {"S": 0, **{str(rate): rate for rate in months[month]}}
        return {"base": "EUR", "rates": {f"2026-{month}-01": rates}}

    for month, values in months.items():
        journal = tmp_path / f"{month}.db"
        await fetch(journal, [month] if values else [], call)
        bulk.export(journal, journal.with_suffix(".parquet"), rates=True, decimals=decimals)
        journal.unlink()

    read = dataset.dataset(tmp_path, format="parquet")
    by_polars = pl.read_parquet(tmp_path / "*.parquet")

    assert [str(it) for it in read.schema.types] == ["string", "string", "date32[day]", kind]
    assert by_polars.schema["rate"] == (pl.Decimal(38, 18) if decimals else pl.Float64())
    found = sorted(read.to_table()["rate"].to_pylist())
    assert found == sorted(by_polars["rate"].to_list())
    exact = [0, 0, Decimal("0.000123456789012345"), 1, 7, Decimal("12345.5")]
    assert found == (exact if decimals else [float(str(rate)) for rate in exact])


async def test_items_have_one_schema_whatever_the_data(tmp_path: Path) -> None:
    dataset = pytest.importorskip("pyarrow.dataset")

    async def call(item: int) -> int:
        if item == 2:
            raise NotFoundError("404", status=404)
        return item

    for month, items in enumerate([[], [1], [2]]):
        journal = tmp_path / f"{month}.db"
        await fetch(journal, items, call)
        bulk.export(journal, journal.with_suffix(".parquet"), rates=False)
        journal.unlink()

    assert dataset.dataset(tmp_path, format="parquet").to_table()["status"].to_pylist() == [
        *[None, 404]
    ]
    assert pl.read_parquet(tmp_path / "*.parquet")["attempts"].to_list() == [0, 0]


@pytest.mark.parametrize(
    ("rate", "kind"),
    [
        *((rate, DECIMAL) for rate in ("1E-19", "1E+20", "1E+999", "1.1234567890123456789")),
        *((rate, DOUBLE) for rate in ("1E-999", "-1E+999")),
    ],
)
async def test_a_rate_that_does_not_fit_is_named(path: Path, rate: str, kind: str) -> None:
    """No digit is lost without a word: nothing is written, and other formats have all digits."""
    parquet, other = beside(path, ".parquet"), path.with_suffix(".ndjson")
    parquet.write_text("before", encoding="utf-8")
    value = {"base": "EUR", "rates": {"2026-01-02": {"GBP": 1, "USD": Decimal(rate)}}}
    await fetch(path, [1], lambda _: same(value))

    with pytest.raises(InvalidArgumentError) as caught:
        bulk.export(path, parquet, decimals=kind is DECIMAL)

    assert str(caught.value) == (
        f"the rate of USD for EUR on 2026-01-02 does not fit {kind}: "
        "give a file of CSV or NDJSON, which have all digits"
    )
    assert parquet.read_text(encoding="utf-8") == "before"
    assert bulk.export(path, other).rows == 2
    assert read_ndjson(other)[1][3] == Decimal(rate)


@pytest.mark.parametrize(
    ("out", "options", "problem"),
    [
        ("x.csv", {"decimals": True}, "decimals goes with a .parquet file: the others have all"),
        ("x.ndjson", {"decimals": True}, "decimals goes with a .parquet file"),
        ("x.parquet", {"decimals": True, "rates": False}, "decimals goes with rates"),
        ("x.parquet", {"excel": True}, "excel goes with a .csv file"),
        ("x.jsonl", {"excel": True}, "excel goes with a .csv file"),
    ],
)
async def test_an_option_without_an_effect_is_refused(
    journal: Path, out: str, options: dict[str, Any], problem: str
) -> None:
    beside(journal, Path(out).suffix)
    with pytest.raises(InvalidArgumentError, match=problem):
        bulk.export(journal, journal.with_name(out), **options)
    assert [*journal.parent.iterdir()] == [journal]


def undecodable(path: Path) -> None:
    asyncio.run(fetch(path, [1], same))
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("update items set item = cast(x'3132ff' as text)")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: path.write_bytes(b"precious"), "cannot be read: file is not a database"),
        (lambda path: path.write_bytes(b""), "cannot be read: no such table"),
        (undecodable, "cannot be read: a row is not as it was written$"),
        (lambda _: None, "there is no journal"),
        (lambda path: path.mkdir(), "there is no journal"),
    ],
)
def test_what_is_no_journal_is_refused(
    path: Path, out: Path, make: Callable[[Path], object], problem: str
) -> None:
    """By all that read one, and nothing is made or changed."""
    make(path)
    out.write_text("before", encoding="utf-8")
    before = path.is_file() and content(path)

    with pytest.raises(JournalError, match=problem):
        bulk.export(path, out)
    if make is not undecodable:  # whose row is of no interest to the others
        with pytest.raises(JournalError, match=problem):
            bulk.unknown(path)
        with pytest.raises(JournalError, match=problem):
            bulk.settle(path, JOB, "Ada", not_done=True)

    assert out.read_text(encoding="utf-8") == "before"
    assert (path.is_file() and content(path)) == before


@pytest.mark.parametrize(
    "link",
    [None, pytest.param("symlink_to", marks=pytest.mark.posix), "hardlink_to"],  # no links in wine
)
def test_an_export_does_not_replace_its_journal(path: Path, out: Path, link: str | None) -> None:
    journal = path.with_name("run.csv")
    insert(journal, [bulk.Entry(key=b"1", state=bulk.State.DONE, value="1")])
    before = content(journal)
    if link:
        getattr(out, link)(journal)

    with pytest.raises(InvalidArgumentError, match="out is the journal itself: give another file"):
        bulk.export(str(journal), out if link else journal)

    assert content(journal) == before


async def test_a_wrong_suffix_and_a_missing_extra_are_named(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidArgumentError, match=r"out must end with one of .csv, .ndjson"):
        bulk.export(journal, "rates.xlsx")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match="parquet"):
        bulk.export(journal, "rates.parquet")


def test_an_error_names_the_file_that_was_given(journal: Path, out: Path) -> None:
    missing = out.with_name("missing") / out.name
    with pytest.raises(FileNotFoundError) as caught:
        bulk.export(journal, missing)
    assert caught.value.filename == str(missing)


async def test_an_export_is_one_snapshot_of_a_run_that_goes_on(
    path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks at the first value before it reads the rows."""
    loop, write = asyncio.get_running_loop(), _export._write

    async def go_on() -> None:
        await anext(run)

    def later(*given: Any, **more: Any) -> Any:
        asyncio.run_coroutine_threadsafe(go_on(), loop).result()
        return write(*given, **more)

    monkeypatch.setattr(_export, "_write", later)
    async with aclosing(bulk.run(same, range(3), concurrency=1, journal=path, job=JOB)) as run:
        await anext(run)
        written = await asyncio.to_thread(bulk.export, path, out)

    assert written.rows == 1
