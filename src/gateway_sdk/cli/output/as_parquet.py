"""Parquet, by pyarrow, which takes a moment to import."""

# pyarrow has no annotations of its own.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import parquet


def to_parquet(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """Make a Parquet file of columns: days are date32, a Decimal stays one, None is null."""
    file = io.BytesIO()
    parquet.write_table(pa.table({name: pa.array(cells) for name, cells in columns.items()}), file)
    return file.getvalue()
