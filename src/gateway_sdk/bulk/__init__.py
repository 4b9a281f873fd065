"""Runs of one coroutine function over many items."""

from gateway_sdk.bulk._limit import Adaptive
from gateway_sdk.bulk.results import BulkResult, Progress
from gateway_sdk.bulk.run import run
from gateway_sdk.bulk.series import RateRow, currencies_of, rate_rows

__all__ = [
    "Adaptive",
    "BulkResult",
    "Progress",
    "RateRow",
    "currencies_of",
    "rate_rows",
    "run",
]
