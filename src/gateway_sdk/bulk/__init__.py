"""Runs of one coroutine function over many items."""

from gateway_sdk.bulk._export import (
    EXPORT_SUFFIXES,
    Exported,
    RateRow,
    currencies_of,
    export,
    rate_rows,
)
from gateway_sdk.bulk._journal import settle, unknown
from gateway_sdk.bulk._limit import Adaptive
from gateway_sdk.bulk._start import run
from gateway_sdk.bulk.results import BulkResult, Entry, Failure, Ledger, Outage, Progress, State

__all__ = [
    "EXPORT_SUFFIXES",
    "Adaptive",
    "BulkResult",
    "Entry",
    "Exported",
    "Failure",
    "Ledger",
    "Outage",
    "Progress",
    "RateRow",
    "State",
    "currencies_of",
    "export",
    "rate_rows",
    "run",
    "settle",
    "unknown",
]
