"""The reply of a successful call."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gateway_sdk.outcome import Attempt

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(Generic[T_co]):
    """A successful reply, and how it was received.

    Attributes:
        value: The decoded body, which the coroutine methods return.
        status: The HTTP status, 2xx.
        headers: The headers; case does not matter in names.
        body: The decompressed bytes of the body.
        attempts: Every attempt, oldest first; the last one succeeded.
        elapsed: Seconds of the whole call: token, queue, attempts and the waits between them.
    """

    value: T_co = field(repr=False)
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    attempts: tuple[Attempt, ...]
    elapsed: float
