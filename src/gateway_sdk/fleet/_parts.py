"""What a job, its plan and its workers share."""

from dataclasses import dataclass

from gateway_sdk.fleet._shared import PerLoop
from gateway_sdk.fleet._store import Store
from gateway_sdk.fleet._work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    name: str
    work: Work
    store: Store
    shared: PerLoop
    max_starts: int  # of a chunk, before it counts as broken
    grace: float  # seconds that the calls of a chunk have to end after it was cancelled
