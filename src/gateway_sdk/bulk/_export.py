"""Rows of exchange rates, and exports: what a run fetched, as CSV, NDJSON or Parquet."""

import csv
import io
import json
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import date
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from functools import partial
from importlib import import_module
from itertools import islice
from math import inf
from os import PathLike
from pathlib import Path
from shutil import copymode
from typing import IO, Any, Final, NamedTuple, TypeAlias

from gateway_sdk._files import replacing
from gateway_sdk._python import without_formula
from gateway_sdk.bulk._journal import ENTRIES, entry_of, reading
from gateway_sdk.bulk.results import Entry, Failure, State
from gateway_sdk.errors import InvalidArgumentError, needing_extra
from gateway_sdk.models.records import Country, iso_date

_FAILURE: Final = tuple(column.name for column in fields(Failure))
_COLUMNS: Final = ("item", "state", "value", *_FAILURE, "attempts", "elapsed", "time")

_JSON: Final = frozenset({"item", "value"})
_ONE_LINE: Final = str.maketrans("\r\n", "  ")
_NUMBERS: Final = {"status": "int64", "attempts": "int64", "elapsed": "float64"}
_BATCH: Final = 10_000
"""Rows in one row group of Parquet, which is made in memory."""

_DIGITS: Final = 38, 18
"""All digits of a decimal of Parquet, and those after its point. It is the largest that polars
reads, and Spark has the same."""

Writer: TypeAlias = Callable[[IO[bytes], Sequence[str], Iterable[Sequence[Any]]], None]

_DAY: Final = re.compile(r'"\d{4}-\d\d-\d\d"')


def currencies_of(countries: Iterable[Country]) -> list[str]:
    """Return the currencies of countries, each once.

    Returns:
        The codes of the gateway, in alphabetical order; a country without a code adds nothing.
        Empty if there are no countries.
    """
    return sorted({it.currency for it in countries if it.currency and it.currency.strip()})


class RateRow(NamedTuple):
    """One rate of one day: the units of *symbol* for one unit of *base*.

    A rate that the reply has as a text is a Decimal.
    """

    base: str
    symbol: str
    date: date
    rate: Any


def rate_rows(reply: object, *, base: str) -> list[RateRow] | None:
    """Make rows of the reply to a request for a series, if it has the usual shape.

    The interface leaves the reply open. The usual shape is that of the sandbox: an object with
    the member "rates", which maps ISO 8601 dates to objects of numbers by symbol. A number may be
    a text, as in a reply that was read from a journal.

    Args:
        reply: The value that `exchange_rate_series` returned.
        base: The base of the request, for a reply that does not name a base.

    Returns:
        The rows, sorted by date; rows of one date are in the order of the reply. Empty without
        rates; None if the reply has another shape.
    """
    given: Any = reply
    try:
        named = given.get("base")
        days = {iso_date("date", day): quotes for day, quotes in given["rates"].items()}
        rows = [
            RateRow(named or base, symbol, day, _rate(rate))
            for day, quotes in sorted(days.items())
            for symbol, rate in quotes.items()
        ]
    except (AttributeError, ArithmeticError, KeyError, TypeError, ValueError):
        return None
    return rows if isinstance(named, str | None) else None


def _rate(value: Any) -> Any:
    """Read a number; a text becomes a decimal, with all its digits."""
    number: Any = Decimal(value) if isinstance(value, str) else value
    is_number = hasattr(number, "__float__") and not isinstance(number, bool)
    if not is_number or (isinstance(number, Decimal) and not number.is_finite()):
        msg = "no number"
        raise ValueError(msg)
    return number


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote.

    Attributes:
        rows: Rows of the file, without the header.
        failed: Items of the journal without a value, such as those that failed, whose outcome is
            unknown, or that were begun.
        other_shapes: Values that are no rates and have no rows, where the file has rates.
    """

    rows: int
    failed: int
    other_shapes: int = 0


def export(
    journal: str | PathLike[str],
    out: str | PathLike[str],
    *,
    rates: bool | None = None,
    decimals: bool = False,
    excel: bool = False,
    only: Callable[[Any], bool] | None = None,
) -> Exported:
    """Write what a journal holds into a file, whole or not at all.

    The columns and their types never depend on the data. Rates are sorted by base, symbol and date,
    each once: of several with these three, that of the newest row of the journal counts, and of
    rows with the same time, or without one, the later row. Where neither the reply nor its item
    names the base, the item without its days stands for it. Items are sorted by their JSON. The
    journal may be that of a run that is under way. Blocks: call it with `asyncio.to_thread` in a
    service.

    Args:
        journal: The journal of a bulk run.
        out: The file; its suffix decides: .csv, .ndjson, .jsonl or .parquet (which needs the extra
            `parquet`). A file that is there is replaced, also behind a link; a pipe or a device is
            written as it is.
        rates: Whether to write the rates of the values: base, symbol, date (date32 in Parquet),
            rate (with all digits; in Parquet a double). Otherwise the file has one row per item:
            item and value (as JSON), state, error, message, operation, outcome, status, advice,
            attempts, elapsed (seconds), time (UTC). None: rates if the first value has the usual
            shape.
        decimals: Whether rates are exact in Parquet: decimal128(38, 18) in place of double.
        excel: Whether a CSV file is for people and their spreadsheets, not for programs: it begins
            with a byte order mark, and a text that would be a formula begins with an apostrophe.
        only: Called with the JSON of each item, decoded: whether the file has it; None: it has all.

    Raises:
        InvalidArgumentError: *out* is the journal or has another suffix, an option does not go with
            it, or a rate does not fit its type in Parquet.
        JournalError: the journal is missing, damaged, or no journal.
        MissingExtraError: pyarrow is not installed.
        OSError: *out*, or a temporary file, cannot be written.
    """
    write = _writer_for(out, decimals=decimals, excel=excel)
    with reading(journal) as database:
        if Path(out).exists() and Path(out).samefile(journal):
            raise InvalidArgumentError("is the journal itself: give another file", field="out")
        if rates is None:
            first = map(entry_of, database.execute(f"{ENTRIES} {_FIRST}"))
            rates = any(_rates_of(entry) is not None for entry in first)
        if decimals and not rates:
            raise InvalidArgumentError("goes with rates", field="decimals")
        entries = map(entry_of, database.execute(f"{ENTRIES} {'' if rates else _IN_ORDER}"))
        found = (it for it in entries if only is None or only(json.loads(it.item or "null")))
        return _write(write, found, Path(out), rates=rates)


_IN_ORDER: Final = "order by item, id"
_FIRST: Final = f"where state = '{State.DONE}' {_IN_ORDER} limit 1"


def _write(write: Writer, entries: Iterable[Entry], out: Path, *, rates: bool) -> Exported:
    counts: Counter[str] = Counter()

    def looked_at() -> Iterator[Entry]:
        for entry in entries:
            counts["failed"] += entry.state is not State.DONE
            yield entry

    def counted(rows: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
        for counts["rows"], row in enumerate(rows, 1):
            yield row

    if rates:
        with _newest(looked_at()) as (found, others), _whole(out) as file:
            write(file, RateRow._fields, counted(found))
        return Exported(counts["rows"], counts["failed"], others)
    with _whole(out) as file:
        write(file, _COLUMNS, counted(map(_row_of, looked_at())))
    return Exported(counts["rows"], counts["failed"])


def _row_of(entry: Entry) -> Sequence[Any]:
    failure = (getattr(entry.failure, name, None) for name in _FAILURE)
    time = entry.time and entry.time.isoformat(timespec="milliseconds")
    done = entry.item, entry.state, entry.value
    return (*done, *failure, entry.attempts, entry.elapsed, time)


_RATES: Final = """
create table rates(
  series text, symbol text, date text, base text, rate text, time real,
  primary key(series, symbol, date)
) without rowid
"""
_KEEP: Final = """
insert into rates values(?, ?, ?, ?, ?, ?) on conflict do update
set rate = excluded.rate, time = excluded.time where excluded.time >= time
"""
_SORTED: Final = "select base, symbol, date, rate from rates order by series, symbol, date"


@contextmanager
def _newest(entries: Iterable[Entry]) -> Generator[tuple[Iterator[RateRow], int]]:
    """Yield each rate once, the newest, and how many values are no rates."""
    others = 0
    with closing(sqlite3.connect("", isolation_level=None)) as kept:  # a temporary file
        kept.execute(_RATES)
        kept.execute("begin")
        for entry in entries:
            if entry.state is State.DONE:
                found = _rates_of(entry)
                others += found is None
                try:
                    kept.executemany(_KEEP, found or ())
                except sqlite3.Error as error:
                    raise OSError(f"no room for a temporary file: {error}") from None
        rows = (
            RateRow(base, symbol, date.fromisoformat(day), Decimal(rate))
            for base, symbol, day, rate in kept.execute(_SORTED)
        )
        yield rows, others


def _rates_of(entry: Entry) -> list[tuple[Any, ...]] | None:
    """Return the rates of a value, if it is that, as rows of the table."""
    item: Any = json.loads(entry.item or "null")
    asked: dict[str, Any] = item if isinstance(item, dict) else {}
    base, reply = asked.get("base"), json.loads(entry.value or "null", parse_float=Decimal)
    found = rate_rows(reply, base=base if isinstance(base, str) else "")
    if found is None:
        return None
    time = entry.time.timestamp() if entry.time else -inf
    # Without a base, series are told apart by what was asked for, whatever the days.
    query = _DAY.sub("", json.dumps(item, sort_keys=True)) if entry.item else entry.key.hex()
    return [
        (base or query, symbol, str(day), base, str(rate), time)
        for base, symbol, day, rate in found
    ]


def _writer_for(out: str | PathLike[str], *, decimals: bool, excel: bool) -> Writer:
    suffix = Path(out).suffix.lower()
    if suffix not in EXPORT_SUFFIXES:
        raise InvalidArgumentError(
            f"must end with one of {', '.join(EXPORT_SUFFIXES)}: this chooses the format",
            field="out",
        )
    if decimals and suffix != ".parquet":
        raise InvalidArgumentError(
            "goes with a .parquet file: the others have all digits", field="decimals"
        )
    if excel and suffix != ".csv":
        raise InvalidArgumentError("goes with a .csv file", field="excel")
    if suffix == ".csv":
        return partial(_write_csv, excel=excel)
    if suffix != ".parquet":
        return _write_ndjson
    with needing_extra("parquet", "a Parquet file"):
        import_module("pyarrow.parquet")
    return partial(_write_parquet, decimals=decimals)


EXPORT_SUFFIXES: Final = (".csv", ".ndjson", ".jsonl", ".parquet")
"""The suffixes of the files that `export` writes."""


@contextmanager
def _whole(out: Path) -> Generator[IO[bytes]]:
    """Open a draft, which replaces the file at the end; what is no file is written directly."""
    if out.exists() and not out.is_file():  # a pipe or a device
        with out.open("wb") as file:
            yield file
        return
    whole = Path(os.path.realpath(out))  # a link stays, and leads to the new file
    with replacing(whole) as file:
        if whole.exists():  # it may be private
            copymode(whole, file.name)
        yield file


def _write_csv(
    file: IO[bytes], columns: Sequence[str], rows: Iterable[Sequence[Any]], *, excel: bool
) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8-sig" if excel else "utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in rows:
        cells = [format(it, "f") if isinstance(it, Decimal) else it for it in row]
        writer.writerow(map(without_formula, cells) if excel else cells)
    text.detach()  # flushes it


def _write_ndjson(file: IO[bytes], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    for row in rows:
        pairs = zip(columns, row, strict=True)
        members = (f"{json.dumps(name)}:{_json(name, value)}" for name, value in pairs)
        file.write(f"{{{','.join(members)}}}\n".encode())


def _json(name: str, value: Any) -> str:
    if isinstance(value, Decimal) or (name in _JSON and value is not None):
        # A Decimal is a number of JSON; the others are JSON already, of a reply also on several
        # lines. A string of JSON has no raw line breaks.
        return str(value).translate(_ONE_LINE)
    return json.dumps(value if isinstance(value, str | int | float | None) else str(value))


def _write_parquet(
    file: IO[bytes], columns: Sequence[str], rows: Iterable[Sequence[Any]], *, decimals: bool
) -> None:
    # As Any, because it has no annotations.
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    # One schema, whatever the data: files that differ in it cannot be read together.
    kinds: dict[str, Any] = {"date": arrow.date32(), **_NUMBERS}
    kinds["rate"] = arrow.decimal128(*_DIGITS) if decimals else arrow.float64()
    schema = arrow.schema([(name, kinds.get(name, arrow.string())) for name in columns])
    found = (_fit(row, decimals=decimals) if isinstance(row, RateRow) else row for row in rows)
    with parquet.ParquetWriter(file, schema) as writer:
        while batch := list(islice(found, _BATCH)):
            arrays = [list(column) for column in zip(*batch, strict=True)]
            writer.write_table(arrow.table(arrays, schema=schema))


_LAST_DIGIT: Final = Decimal(1).scaleb(-_DIGITS[1])
_EXACT: Final = Context(prec=_DIGITS[0], traps=[Inexact, InvalidOperation])


def _fit(row: RateRow, *, decimals: bool) -> RateRow:
    with suppress(DecimalException):
        rate = row.rate.quantize(_LAST_DIGIT, context=_EXACT) if decimals else float(row.rate)
        if not row.rate or 0 < abs(rate) < inf:
            return row._replace(rate=rate)
    kind = f"decimal128{_DIGITS}" if decimals else "double"
    raise InvalidArgumentError(
        f"the rate of {row.symbol} for {row.base} on {row.date} does not fit {kind}: give a file "
        "of CSV or NDJSON, which have all digits"
    )
