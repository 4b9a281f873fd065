"""Rates as rows of a CSV file, written while they come."""

import csv
import io
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from gateway_sdk.bulk import BulkResult, RateRow
from gateway_sdk.cli.bulk.plan import Query
from gateway_sdk.cli.bulk.values import rows_of
from gateway_sdk.cli.output.files import writing
from gateway_sdk.cli.output.values import to_cell


class Rows:
    """Writes rows, RFC 4180 as everywhere.

    Attributes:
        written: How many.
        other_shapes: Replies that no rows could be made of.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.written = 0
        self.other_shapes = 0
        self._text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        self._writer = csv.writer(self._text)
        self._writer.writerow(RateRow._fields)

    def add(self, result: BulkResult[Query, Any]) -> None:
        """Write the rows of a result, by date; a failed one has none."""
        if result.error is not None:
            return
        rows = rows_of(result.value, result.item.base)
        if rows is None:
            self.other_shapes += 1
            return
        self.written += len(rows)
        self._writer.writerows([to_cell(value) for value in row] for row in rows)

    def end(self) -> None:
        """Hand the file back with all in it."""
        self._text.detach()


@contextmanager
def writing_rows(path: Path | None) -> Generator[Rows | None]:
    """Give what writes rows into a file, which is there only if all went well; None for none.

    Raises:
        CommandError: it cannot be written.
    """
    if path is None:
        yield None
        return
    with writing(path) as file:
        rows = Rows(file)
        yield rows
        rows.end()
