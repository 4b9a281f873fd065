"""A secret that no text may show, and the texts in which one could."""

import logging
import pickle
import traceback
from collections.abc import Iterable
from typing import Final

CANARY: Final = "canary-4711"
"""Stands in every token and password of the tests that look for it."""


def texts_of(error: BaseException) -> str:
    """Return all that an error shows: its texts, its rendered traceback, its pickle."""
    shown = [str(error), repr(error), repr(error.args), *traceback.format_exception(error)]
    return "\n".join([*shown, pickle.dumps(error).decode("latin-1")])


def logged(records: Iterable[logging.LogRecord]) -> str:
    """Return all that log records show, their tracebacks and arguments included."""
    formatter = logging.Formatter()
    return "\n".join(f"{formatter.format(record)} {record.args!r}" for record in records)
