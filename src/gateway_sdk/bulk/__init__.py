"""Bounded fan-out over any coroutine function."""

from gateway_sdk.bulk.adaptive import Adaptive
from gateway_sdk.bulk.progress import Progress
from gateway_sdk.bulk.result import BulkResult
from gateway_sdk.bulk.run import run

__all__ = ["Adaptive", "BulkResult", "Progress", "run"]
