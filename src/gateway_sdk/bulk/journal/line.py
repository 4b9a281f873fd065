"""One line of a journal, written and read."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from pydantic_core import from_json, to_json

from gateway_sdk.bulk.keys import DIGEST_BYTES, UNWRITABLE


class State(StrEnum):
    """What a line says of its item."""

    BEGUN = "begun"
    """What must not be made twice is about to be sent; another line follows, if all goes well."""
    DONE = "done"
    """There is a value."""
    FAILED = "failed"
    """There is an error."""
    CUT = "cut"
    """The run ended before the call did, and it may be made again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What is written of an error: no text that is not ours.

    Attributes:
        error: The name of its class.
        message: Its text; None where the error is not of this package.
        outcome: The name of what the item did; None where no session was heard.
        safe_to_repeat: Whether doing the item again can do no harm, as far as is known.
    """

    error: str
    message: str | None = None
    operation: str | None = None
    outcome: str | None = None
    status: int | None = None
    safe_to_repeat: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line; every one has all of these columns.

    Attributes:
        key: The digest of the item's key.
        value: What the call returned, as JSON; None where it did not.
        elapsed: Seconds.
    """

    job: str
    key: bytes
    state: State
    item: Any = None
    value: Any = None
    failure: Failure | None = None
    attempts: int = 0
    elapsed: float = 0.0

    def encode(self) -> bytes:
        """Return the line with its end.

        Raises:
            ValueError: the value is no JSON; the text shows nothing of it.
        """
        failure = self.failure
        head = {"job": self.job, "key": self.key.hex(), "state": self.state.value}
        tail = {
            "error": failure and failure.error,
            "message": failure and failure.message,
            "operation": failure and failure.operation,
            "outcome": failure and failure.outcome,
            "status": failure and failure.status,
            "safe_to_repeat": failure and failure.safe_to_repeat,
            "attempts": self.attempts,
            "elapsed": round(self.elapsed, 6),
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
        middle = b',"item":%b,"value":%b,' % (_item(self.item), _value(self.value))
        return to_json(head)[:-1] + middle + to_json(tail)[1:] + b"\n"

    @classmethod
    def decode(cls, text: bytes) -> "Line":
        """Read a line.

        Raises:
            ValueError: it is none.
        """
        found = from_json(text)
        try:
            return cls._of(found)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError("no line of a journal") from error

    @classmethod
    def _of(cls, found: Mapping[str, Any]) -> "Line":
        key = bytes.fromhex(found["key"])
        if len(key) != DIGEST_BYTES or not isinstance(found["job"], str):
            raise ValueError("no line of a journal")
        failure = found["error"] and Failure(
            error=found["error"],
            message=found["message"],
            operation=found["operation"],
            outcome=found["outcome"],
            status=found["status"],
            safe_to_repeat=found["safe_to_repeat"],
        )
        return cls(
            job=found["job"],
            key=key,
            state=State(found["state"]),
            item=found["item"],
            value=found["value"],
            failure=failure,
            attempts=found["attempts"],
            elapsed=found["elapsed"],
        )


def _item(item: Any) -> bytes:
    """Write an item for its readers; what is no JSON is told apart by its key, and left out."""
    try:
        return to_json(item, by_alias=True, inf_nan_mode="strings")
    except UNWRITABLE:
        return b"null"


def _value(value: Any) -> bytes:
    try:
        return to_json(value, by_alias=True, inf_nan_mode="strings")
    except UNWRITABLE as error:
        raise ValueError(type(error).__name__) from None
