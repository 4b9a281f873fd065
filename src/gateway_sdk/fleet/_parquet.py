"""Results as rows of Parquet files. Needs the extra `fleet`."""

# pyarrow has no annotations of its own.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from gateway_sdk._extras import needing_extra
from gateway_sdk.fleet._store import ItemRecord

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
_NO_FAILURE: Final = (None,) * 6  # from `error` to `advice`


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
