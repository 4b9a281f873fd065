"""Results as rows of Parquet files. Needs the extra `fleet`."""

# pyarrow has no annotations of its own.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from gateway_sdk._extras import needing_extra
from gateway_sdk.bulk._journal.line import Failure
from gateway_sdk.errors import PlanStoreError
from gateway_sdk.fleet._store import ItemRecord, State
from gateway_sdk.outcome import Advice

_COLUMNS: Final = (
    ("index", "int64"),
    ("state", "string"),
    ("item", "string"),
    ("value", "string"),
    ("error", "string"),
    ("message", "string"),
    ("operation", "string"),
    ("outcome", "string"),
    ("status", "int32"),
    ("advice", "string"),
    ("attempts", "int32"),
    ("elapsed", "float64"),
)
_OF_FAILURE: Final = [name for name, _ in _COLUMNS[4:10]]
_NO_FAILURE: Final = (None,) * len(_OF_FAILURE)


def load_pyarrow() -> Any:
    with needing_extra("fleet", "a Parquet file"):
        import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415
    return pa


def open_writer(path: Path) -> Any:
    """Open a file that rows are written to; it is a context manager, as pyarrow's is."""
    load_pyarrow()
    from pyarrow.parquet import ParquetWriter  # type: ignore[import-untyped]  # noqa: PLC0415

    return ParquetWriter(path, schema(), compression="zstd")


@cache
def schema() -> Any:
    pa = load_pyarrow()
    return pa.schema([(name, getattr(pa, kind)()) for name, kind in _COLUMNS])


def row_of(record: ItemRecord) -> tuple[Any, ...]:
    failure = record.failure
    told: tuple[Any, ...] = _NO_FAILURE
    if failure is not None:
        told = (
            failure.error,
            failure.message,
            failure.operation,
            failure.outcome,
            failure.status,
            failure.advice.value,
        )
    return (
        record.index,
        record.state.value,
        record.item,
        record.value,
        *told,
        record.attempts,
        record.elapsed,
    )


def table_of(rows: Sequence[tuple[Any, ...]]) -> Any:
    pa = load_pyarrow()
    columns = zip(*rows, strict=True)
    fields = schema()
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=fields)


def to_parquet(records: Sequence[ItemRecord]) -> bytes:
    """Return results as a Parquet file, without the columns of a failure if there is none."""
    pa = load_pyarrow()
    from pyarrow import parquet  # noqa: PLC0415 - an extra

    sink = pa.BufferOutputStream()
    compression: Any = {
        "item": "zstd",
        "value": "zstd",
    }  # the others are a few bytes for each result
    table = table_of([row_of(record) for record in records])
    if not any(record.failure for record in records):
        table = table.drop_columns(_OF_FAILURE)
    # Each file is read as a whole, by index. Without statistics and dictionaries it takes half the
    # CPU time and half the bytes: a statistic of `value` holds two whole values. Each column costs
    # CPU time too, and so does the schema of Arrow, which says nothing more here.
    parquet.write_table(
        table,
        sink,
        compression=compression,
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
    )
    return bytes(sink.getvalue())


def from_parquet(data: bytes) -> list[ItemRecord]:
    pa = load_pyarrow()
    from pyarrow import parquet  # noqa: PLC0415 - an extra

    try:
        rows = parquet.read_table(pa.BufferReader(data), use_threads=False).to_pylist()
        return [_record(row) for row in rows]
    # pyarrow raises an OSError for some damages; no file is read here.
    except (pa.ArrowException, KeyError, OSError, ValueError) as error:
        raise PlanStoreError(
            f"a file of results is damaged ({type(error).__name__}): delete it, and submit the plan"
            " again"
        ) from None


def _record(row: Mapping[str, Any]) -> ItemRecord:
    failure = None
    if row.get("error") is not None:
        failure = Failure(
            error=row["error"],
            message=row["message"],
            operation=row["operation"],
            outcome=row["outcome"],
            status=row["status"],
            advice=Advice(row["advice"]),
        )
    return ItemRecord(
        index=row["index"],
        state=State(row["state"]),
        item=row["item"],
        value=cast("str | None", row["value"]),
        failure=failure,
        attempts=row["attempts"],
        elapsed=row["elapsed"],
    )
