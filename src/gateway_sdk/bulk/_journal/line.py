"""One line of a journal, written and read.

Shortened, it looks so:

{"job":"rates","key":"9f86…","once":false,"check":"000001f4-1c291ca3-5d4a0a2b","state":"done",
"item":{"base":"EUR"},"value":{"rates":{}},"error":null,…,"attempts":1,"elapsed":0.12,"time":"…"}
"""

import re
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, Self, cast
from zlib import crc32

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from gateway_sdk.bulk._dedup import UNWRITABLE
from gateway_sdk.outcome import Advice

_HEAD: Final = re.compile(
    rb'(\{"job":"(?:[^"\\]|\\.)*","key":"([0-9a-f]{32})","once":(true|false))'
    rb',"check":"([0-9a-f]{8})-([0-9a-f]{8})-([0-9a-f]{8})"'
)
HEAD_START: Final = b'{"job":"'


class LineState(StrEnum):
    BEGUN = "begun"
    """A request that must not be sent twice is about to be sent; another line follows later."""
    DONE = "done"
    """There is a value."""
    FAILED = "failed"
    """There is an error."""
    INTERRUPTED = "interrupted"
    """The run ended before the call; the call may be repeated."""
    LOST = "lost"
    """Here was an unreadable line of an unknown item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    error: str  # the name of its class
    message: str | None = None  # None if the error is not of this package
    operation: str | None = None
    outcome: str | None = None  # of the item; None if no session reported a call
    status: int | None = None
    advice: Advice = Advice.FIX


_FAILURE_COLUMNS: Final = tuple(column.name for column in fields(Failure))


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    job: str
    key: bytes  # a digest
    once: bool  # whether a request is sent that must not be sent twice
    length: int  # bytes of the whole line, with its end
    size: int
    check: int

    @classmethod
    def of(cls, text: bytes, at: int = 0) -> Self | None:
        """Read the head at an offset; None if there is none, or it is damaged."""
        found = _HEAD.match(text, at)
        if found is None or crc32(found[1] + found[4]) != int(found[5], 16):
            return None
        return cls(
            job=from_json(found[1] + b"}")["job"],
            key=bytes.fromhex(found[2].decode()),
            once=found[3] == b"true",
            length=int(found[4], 16),
            size=len(found[0]),
            check=int(found[6], 16),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLine:
    job: str
    key: bytes
    once: bool = False
    state: LineState
    item: Any = None
    value: Any = None  # as `as_json` returns it
    failure: Failure | None = None
    attempts: int = 0
    elapsed: float = 0.0  # seconds

    def encode(self) -> bytes:
        failure = self.failure
        head = to_json({"job": self.job, "key": self.key.hex(), "once": self.once})[:-1]
        tail = {
            **{name: failure and getattr(failure, name) for name in _FAILURE_COLUMNS},
            "attempts": self.attempts,
            "elapsed": round(self.elapsed, 6),
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
        rest = b',"state":"%b","item":%b,"value":%b,%b' % (
            self.state.value.encode(),
            _item(self.item),
            to_json(self.value),
            to_json(tail)[1:],
        )
        length = b"%08x" % (len(head) + len(_CHECK % (b"", 0, 0)) + 8 + len(rest) + 1)
        return head + _CHECK % (length, crc32(head + length), crc32(rest)) + rest + b"\n"

    @classmethod
    def decode(cls, text: bytes) -> Self:
        head = Head.of(text)
        rest = text.removesuffix(b"\n")[head.size :] if head else b""
        if head is None or head.length != head.size + len(rest) + 1 or crc32(rest) != head.check:
            raise ValueError("no line of a journal")
        try:
            return cls._of(head, from_json(text))
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError("no line of a journal") from error

    @classmethod
    def _of(cls, head: Head, found: Mapping[str, Any]) -> Self:
        known: dict[str, Any] = {name: found[name] for name in _FAILURE_COLUMNS}
        if known["error"]:
            known["advice"] = Advice(known["advice"])
        failure = Failure(**known) if known["error"] else None
        return cls(
            job=head.job,
            key=head.key,
            once=head.once,
            state=LineState(found["state"]),
            item=found["item"],
            value=found["value"],
            failure=failure,
            attempts=found["attempts"],
            elapsed=found["elapsed"],
        )


# The length of the line, a checksum of the columns before and the length, one of those after it.
_CHECK: Final = b',"check":"%b-%08x-%08x"'


def head_of(job: str) -> tuple[bytes, int]:
    """Return the start of every line of a job, and the length of the whole head in bytes."""
    start = to_json({"job": job})[:-1] + b',"key":"'
    line = JournalLine(job=job, key=bytes(16), state=LineState.DONE).encode()
    return start, cast("Head", Head.of(line)).size


def as_json(value: Any) -> Any:
    """Return a value as it comes back from a journal; ValueError if it cannot be written."""
    try:
        return _parsed(_json(value))
    except UNWRITABLE as error:
        raise ValueError(type(error).__name__) from None


def _json(value: Any) -> bytes:
    return to_json(value, by_alias=True, inf_nan_mode="strings")


def _parsed(text: bytes) -> Any:
    return from_json(b"[%b]" % text)[0]  # refuses too deep values and too long integers


def _item(item: Any) -> bytes:
    """Write an item for readers of the file; null if it is not JSON, for its key identifies it."""
    try:
        if _holds_generator(item):
            return b"null"
        text = _json(item)
        _parsed(text)
    except UNWRITABLE:
        return b"null"
    return text


def _holds_generator(value: Any) -> bool:
    """Tell whether a value holds a generator: writing it would use it up before the call does."""
    if value is None or isinstance(value, str | int | float):
        return False
    if isinstance(value, Generator):
        return True
    inner: Iterable[Any] = ()
    if isinstance(value, Mapping):
        inner = value.values()
    elif isinstance(value, list | tuple):
        inner = cast("Iterable[Any]", value)
    elif isinstance(value, BaseModel):
        inner = vars(value).values()
    elif is_dataclass(value):
        inner = [getattr(value, column.name, None) for column in fields(value)]
    return any(map(_holds_generator, inner))
