"""Rows of exchange rates, and exports: what a run fetched, as CSV, NDJSON or Parquet."""

import csv
import io
import json
import os
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from importlib import import_module
from itertools import islice
from os import PathLike
from pathlib import Path
from secrets import token_hex
from shutil import copymode
from typing import IO, Any, Final, NamedTuple, TypeAlias

from gateway_sdk.bulk._journal import reason_of
from gateway_sdk.errors import InvalidArgumentError, JournalError, needing_extra
from gateway_sdk.models.records import Country, iso_date

Rows: TypeAlias = Callable[[], Iterable[Sequence[Any]]]

ITEM_COLUMNS: Final = (
    "item", "state", "value", "error", "message", "operation", "outcome", "status", "advice",
    "attempts", "elapsed", "time",
)  # fmt: skip

_JSON: Final = frozenset({"item", "value"})
_NUMBERS: Final = {"status": "int64", "attempts": "int64", "elapsed": "float64"}
_BATCH: Final = 10_000
"""Rows in one row group of Parquet, which is made in memory."""

_DAYS: Final = frozenset({"startDate", "endDate", "start_date", "end_date"})
"""The days of a query, on the wire and as arguments."""

_MOST_DIGITS: Final = 76
"""Of a decimal of Parquet. Rates have about seven."""


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
        failed: Items of the journal without a value: they failed, or their outcome is unknown.
        other_shapes: Values that are no rates and have no rows, where the file has rates.
    """

    rows: int
    failed: int
    other_shapes: int = 0


def export(
    journal: str | PathLike[str], out: str | PathLike[str], *, rates: bool | None = None
) -> Exported:
    """Write what a journal holds into a file, whole or not at all.

    The rows are sorted by the JSON of their items, so the file does not depend on the order in
    which calls ended. Numbers keep all their digits. Of series of the same currencies whose days
    overlap, the newest one counts. The journal may be that of a run that is under way. Blocks: call
    it with `asyncio.to_thread` in a service.

    Args:
        journal: The journal of a bulk run.
        out: The file; its suffix decides: .csv, .ndjson, .jsonl or .parquet (which needs the extra
            `parquet`). A file that is there is replaced, also behind a link; a pipe or a device is
            written as it is.
        rates: Whether to write the rates of the values: base, symbol, date (date32 in Parquet),
            rate (an exact decimal there). Otherwise the file has one row per item: item and value
            (as JSON), state, error, message, operation, outcome, status, advice, attempts,
            elapsed (seconds), time (UTC). None: rates if the first value has the usual shape.

    Raises:
        InvalidArgumentError: *out* has another suffix.
        JournalError: the journal is missing, damaged, or no journal.
        MissingExtraError: pyarrow is not installed.
        OSError: *out* cannot be written.
    """
    _writer_for(out)
    if not Path(journal).is_file():
        raise JournalError(f"there is no journal {journal}")
    uri = f"{Path(journal).absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            database.execute("begin")  # one snapshot: the run may go on meanwhile
            (failed,) = database.execute(_FAILED).fetchone()
            written = write_results(lambda: database.execute(_ITEMS), out, rates=rates)
            return replace(written, failed=failed)
    except InvalidArgumentError:
        raise
    except (sqlite3.Error, ValueError) as error:
        raise JournalError(f"the journal {journal} cannot be read: {reason_of(error)}") from None


def write_results(rows: Rows, out: str | PathLike[str], *, rates: bool | None = None) -> Exported:
    """Write results into a file, as `export` does; `failed` is not counted.

    Args:
        rows: Returns a row of each item, with what `export` writes of it, in that order. It is
            called up to three times.
        out: The file.
        rates: Whether to write the rates of the values of items whose state is "done".

    Raises:
        InvalidArgumentError: *out* has another suffix.
        MissingExtraError: pyarrow is not installed.
        OSError: *out* cannot be written.
    """
    write, others, count = _writer_for(out), 0, 0

    def rows_of_rates() -> Iterator[Sequence[Any]]:
        nonlocal others
        others = 0
        # A run that goes on with other days adds series that overlap with those that are there.
        # They come in the order of their days: only what overlaps is in memory together.
        newest: dict[Any, tuple[Any, RateRow]] = {}
        query, last = None, date.min
        for asked, time, series in _series_of(rows()):
            if not series:
                others += series is None
                continue
            if asked != query or series[0].date > last:
                yield from (row for _, row in newest.values())
                newest, query, last = {}, asked, date.min
            for row in series:
                if row[:3] not in newest or newest[row[:3]][0] <= time:
                    newest[row[:3]] = time, row
            last = max(last, series[-1].date)
        yield from (row for _, row in newest.values())

    if rates is None:
        rates = any(series is not None for *_, series in islice(_series_of(rows()), 1))
    columns, source = (RateRow._fields, rows_of_rates) if rates else (ITEM_COLUMNS, rows)

    def counted() -> Iterator[Sequence[Any]]:
        nonlocal count
        for count, row in enumerate(source(), 1):  # noqa: B007 - it is that of the last row
            yield row

    with _whole(Path(out)) as file:
        write(file, columns, counted)
    return Exported(count, 0, others)


_FAILED: Final = "select count(*) from items where state in ('failed', 'unknown')"
_ITEMS: Final = """
select item, state, value, error, message, operation, outcome, status, advice,
  attempts, elapsed, time
from items where state not in ('begun', 'interrupted') order by item, id
"""


def _series_of(
    rows: Iterable[Sequence[Any]],
) -> Iterator[tuple[dict[str, Any], Any, list[RateRow] | None]]:
    """Yield each query without its days, the time of its end, and its rates, if they are that."""
    for item, state, value, *_, time in rows:
        if state == "done":
            read: Any = json.loads(item or "null")
            query: dict[str, Any] = read if isinstance(read, dict) else {"": read}
            reply, base = json.loads(value or "null", parse_float=Decimal), query.get("base")
            found = rate_rows(reply, base=base if isinstance(base, str) else "")
            rates = found and [row._replace(rate=Decimal(row.rate)) for row in found]
            yield {name: query[name] for name in query.keys() - _DAYS}, time, rates


Writer: TypeAlias = Callable[[IO[bytes], Sequence[str], Rows], None]


def _writer_for(out: str | PathLike[str]) -> Writer:
    writer = _WRITERS.get(Path(out).suffix.lower())
    if writer is None:
        raise InvalidArgumentError(
            f"must end with one of {', '.join(_WRITERS)}: this chooses the format", field="out"
        )
    if writer is _write_parquet:
        with needing_extra("parquet", "a Parquet file"):
            import_module("pyarrow.parquet")
    return writer


@contextmanager
def _whole(out: Path) -> Generator[IO[bytes]]:
    """Open a draft, which replaces the file at the end; what is no file is written directly."""
    if out.exists() and not out.is_file():  # a pipe or a device
        with out.open("wb") as file:
            yield file
        return
    whole = Path(os.path.realpath(out))  # a link stays, and leads to the new file
    draft = whole.with_name(f".{whole.name}.{token_hex(4)}")
    try:
        with draft.open("xb") as file:
            if whole.exists():  # it may be private
                copymode(whole, draft)
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(whole)
    finally:
        draft.unlink(missing_ok=True)


def _write_csv(file: IO[bytes], columns: Sequence[str], rows: Rows) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in rows():
        writer.writerow([format(it, "f") if isinstance(it, Decimal) else it for it in row])
    text.detach()  # flushes it


def _write_ndjson(file: IO[bytes], columns: Sequence[str], rows: Rows) -> None:
    for row in rows():
        pairs = zip(columns, row, strict=True)
        members = (f"{json.dumps(name)}:{_json(name, value)}" for name, value in pairs)
        file.write(f"{{{','.join(members)}}}\n".encode())


def _json(name: str, value: Any) -> str:
    if isinstance(value, Decimal) or (name in _JSON and value is not None):
        return str(value)  # a Decimal is a number of JSON; the others are JSON already
    return json.dumps(value if isinstance(value, str | int | float | None) else str(value))


def _write_parquet(file: IO[bytes], columns: Sequence[str], rows: Rows) -> None:
    # As Any, because it has no annotations.
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    is_rates = columns == RateRow._fields
    kinds = {"date": arrow.date32(), "rate": _decimal(arrow, rows)} if is_rates else _NUMBERS
    schema = arrow.schema([(name, kinds.get(name, arrow.string())) for name in columns])
    found = iter(rows())
    with parquet.ParquetWriter(file, schema) as writer:
        while batch := list(islice(found, _BATCH)):
            arrays = [list(column) for column in zip(*batch, strict=True)]
            writer.write_table(arrow.table(arrays, schema=schema))


def _decimal(arrow: Any, rows: Rows) -> Any:
    """Return the smallest type that has all digits of all rates."""
    before = after = 1
    for *_, rate in rows():
        exponent = rate.as_tuple().exponent
        before, after = max(before, rate.adjusted() + 1), max(after, -exponent)
    if before + after > _MOST_DIGITS:
        raise InvalidArgumentError(
            f"a rate has more than {_MOST_DIGITS} digits: give a file of CSV", field="out"
        )
    kind = arrow.decimal128 if before + after <= _MOST_DIGITS // 2 else arrow.decimal256
    return kind(before + after, after)


_WRITERS: Final[dict[str, Writer]] = {
    ".csv": _write_csv,
    ".ndjson": _write_ndjson,
    ".jsonl": _write_ndjson,
    ".parquet": _write_parquet,
}

EXPORT_SUFFIXES: Final = tuple(_WRITERS)
"""The suffixes of the files that `export` writes."""
