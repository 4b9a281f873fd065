"""Bounded fan-out over any coroutine function."""

from gateway_sdk.bulk.run import BulkResult, run

__all__ = ["BulkResult", "run"]
