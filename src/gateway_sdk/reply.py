"""What a call brings back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gateway_sdk.outcome import Attempt

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(Generic[T_co]):
    """A successful reply with where it came from.

    Attributes:
        value: The body, decoded; what the coroutine methods return.
        status: The HTTP status, 2xx.
        headers: Names are matched without regard to case.
        body: The bytes of the body, decompressed.
        attempts: Every attempt, oldest first; the last one succeeded.
        elapsed: Seconds of the whole call: token, queue, attempts and waiting between them.
    """

    value: T_co = field(repr=False)
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    attempts: tuple[Attempt, ...]
    elapsed: float
