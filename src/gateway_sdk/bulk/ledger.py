"""What a run keeps of its items, and the protocol of those that keep it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gateway_sdk.outcome import Advice


class State(StrEnum):
    """The state of an item."""

    BEGUN = "begun"
    """A request that must not be sent twice is about to be sent."""
    UNKNOWN = "unknown"
    """Such a request may have been carried out: it is never sent again."""
    INTERRUPTED = "interrupted"
    """The run ended before the call; the call may be repeated."""
    DONE = "done"
    """There is a value; nothing replaces it."""
    FAILED = "failed"
    """There is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What is kept of an error: no text of the gateway, and none of other packages.

    Attributes:
        error: The name of its class.
        message: None if the error is not of this package.
        operation: The operation of the call; None if no call was made.
        outcome: The outcome of the item; None if no session reported a call.
        status: The HTTP status, if there is one.
        advice: What to do next.
    """

    error: str
    message: str | None = None
    operation: str | None = None
    outcome: str | None = None
    status: int | None = None
    advice: Advice = Advice.FIX


@dataclass(slots=True, kw_only=True)
class Entry:
    """What is kept of one item.

    Attributes:
        key: The digest of the item, or of its key: 16 bytes.
        state: Its state.
        once: Whether a request was made for it that must not be sent twice.
        item: The item as JSON; None if it is not JSON.
        value: The value as JSON; None if there is none.
        failure: The error, in the states FAILED and UNKNOWN.
        attempts: Requests for the item.
        elapsed: Seconds.
    """

    key: bytes
    state: State
    once: bool = False
    item: str | None = None
    value: str | None = None
    failure: Failure | None = None
    attempts: int = 0
    elapsed: float = 0.0


class Ledger(Protocol):
    """Keeps one entry per item; a run calls one coroutine method at a time."""

    async def open(self) -> None:
        """Called before the first item."""
        ...

    def has(self, key: bytes) -> bool:
        """Tell whether an item has ended, so that it is not begun again."""
        ...

    async def read(self, keys: Sequence[bytes]) -> Sequence[Entry]:
        """Return the entries of items that have ended, in this order."""
        ...

    async def write(self, entries: Sequence[Entry]) -> None:
        """Return when the end of the process cannot lose the entries.

        An entry in the state BEGUN must survive the end of the machine too: its request has its
        connection slot and its permit of the rate limit, and is sent after this. If this raises,
        it is not sent.
        """
        ...

    async def aclose(self) -> None:
        """Called after the last item, also if `open` failed."""
        ...
