"""What a job, its plan and its workers share."""

from dataclasses import dataclass

from gateway_sdk.fleet._shared import PerLoop
from gateway_sdk.fleet._store import Store
from gateway_sdk.fleet._work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a job.

    Attributes:
        name: The name of the job, and of its plan.
        work: What is done with each item.
        store: Where plan and results are.
        shared: What the chunks of this process share.
        max_starts: How often a chunk is started before it counts as broken.
        grace: Seconds that the calls of a chunk have to end after it was cancelled.
    """

    name: str
    work: Work
    store: Store
    shared: PerLoop
    max_starts: int
    grace: float
