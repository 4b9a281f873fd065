"""The items of a run: where they come from, which of them are equal, and how they are written."""

import asyncio
import json
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Mapping,
    Sized,
)
from copy import copy
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime
from hashlib import blake2b
from typing import Any, Final, cast

from pydantic import BaseModel
from pydantic_core import to_json

from gateway_sdk.bulk.results import StoredValue
from gateway_sdk.errors import GatewayError, InvalidArgumentError
from gateway_sdk.models._base import Model, RequestModel

_TURNS: Final = 5
"""Turns of the event loop in which an asynchronous iterable that need not wait gives an item."""

_LONGEST_INTEGER: Final = 4300
"""Digits that Python reads."""

_DIGEST_BYTES: Final = 16
"""Two of a billion keys share one with a chance of 1 to 10**21."""


def make_source(items: Iterable[Any] | AsyncIterable[Any], wake: Callable[[], None]) -> "Source":
    if isinstance(items, str | bytes | BaseModel):  # a model gives its fields one by one
        kind = "model" if isinstance(items, BaseModel) else "string"
        raise InvalidArgumentError(f"is a single {kind}: give a list of items", field="items")
    if isinstance(items, AsyncIterable):
        return AsyncSource(items, wake)
    if isinstance(items, Iterable):
        return Source(items)
    raise InvalidArgumentError("must be an iterable, or an asynchronous one", field="items")


class Source:
    """An ordinary iterable."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.error: BaseException | None = None  # of the iterable
        self.ended = False
        self.is_asked = False  # an iterable that has an item gives it within a few turns
        self._has_end = isinstance(items, Sized)
        self._iterator = iter(items)

    def next(self) -> tuple[Any] | None:
        if self.ended:
            return None
        try:
            return (next(self._iterator),)
        except StopIteration:
            self.give_up()
        except Exception as error:  # noqa: BLE001 - raised when the calls in flight have ended
            self.give_up(error)
        return None

    def give_up(self, error: BaseException | None = None) -> None:
        self.error = self.error or error
        self.ended = True

    def expire(self, error: GatewayError | None = None) -> None:
        """Read no further what may have no end: the deadline has passed, or the run is closed."""
        if not (self.ended or self._has_end):
            self.give_up(error)

    async def aclose(self) -> None: ...


class AsyncSource(Source):
    def __init__(self, items: AsyncIterable[Any], wake: Callable[[], None]) -> None:
        super().__init__(())
        self._has_end = False
        self._items = items
        self._wake = wake
        self._wanted = asyncio.Event()
        self._ready: tuple[Any] | None = None
        self._reading: asyncio.Task[None] | None = None

    def next(self) -> tuple[Any] | None:
        if self._reading is None:
            # One task: a generator may use things that belong to a task, such as time-outs.
            self._reading = asyncio.create_task(self._read())
        ready, self._ready = self._ready, None
        if ready is None and not self.ended and not self._wanted.is_set():
            self._wanted.set()
            self.is_asked = True
            self._count_down(_TURNS)
        return ready

    def _count_down(self, turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._count_down, turns - 1)
        elif self.is_asked:
            self.is_asked = False
            self._wake()

    def _offer(self, item: Any) -> None:
        if self.ended:
            raise asyncio.CancelledError  # again, because the iterable has dropped it
        self._wanted.clear()
        self.is_asked = False
        self._ready = (item,)
        self._wake()

    async def _read(self) -> None:
        items: AsyncIterator[Any] | None = None
        try:
            items = aiter(self._items)
            async for item in items:
                self._offer(item)
                await self._wanted.wait()
        except asyncio.CancelledError:
            if self._reading is None or self._reading.cancelling():
                raise
            # Something that the iterable waited for: without an error, items would be missing.
            self.give_up(GatewayError("items was cancelled from within, so some may be missing"))
        except BaseException as error:  # noqa: BLE001 - as for an ordinary iterable
            self.give_up(error)
        finally:
            self.ended = True
            self._wake()
            if isinstance(items, AsyncGenerator):
                await cast("AsyncGenerator[Any, None]", items).aclose()

    def expire(self, error: GatewayError | None = None) -> None:
        super().expire(error)
        if self._reading is not None:
            self._reading.cancel()

    async def aclose(self) -> None:
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)


def digest_of(key: Any) -> bytes:
    """Keys are equal if their JSON is; the class of models, dataclasses and the like counts too."""
    try:
        text = _text(key)
    except InvalidArgumentError:
        raise
    except Exception as error:  # noqa: BLE001 - the user's class may raise anything
        # No cause: its text may show the value.
        raise _wrong(f"is no JSON value ({type(error).__name__})") from None
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()


def _wrong(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the key of an item {what}: give key=, a function that returns a string for an item"
    )


# The text is JSON if the value is JSON. It is not made by pydantic, because its output may change
# with the version, and a serializer of the user may depend on the hash seed (`list(some_set)`).


def _text(value: Any) -> str:
    """Write a value as text, so that only equal values have equal texts."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 2.0 equals 2
    if isinstance(value, datetime) and value.utcoffset() is not None:
        value = value.astimezone(UTC)
    if value is None or isinstance(value, bool | float | str):
        return json.dumps(value)
    if isinstance(value, int):
        return int.__repr__(value)  # also of a member of an IntEnum; faster than json
    if isinstance(value, date):
        return json.dumps(value.isoformat())
    if isinstance(value, list | tuple):
        text = f"[{','.join(map(_text, value))}]"
        return _tagged(value, text) if hasattr(value, "_fields") else text
    if isinstance(value, Mapping):
        members = sorted((_text(name), _text(inner)) for name, inner in value.items())
        return f"{{{','.join(f'{name}:{inner}' for name, inner in members)}}}"
    text = _text({name: getattr(value, name) for name in _names(value)})
    extra = value.model_extra if isinstance(value, BaseModel) else None
    return _tagged(value, text + (_text(extra) if extra else ""))


def _names(value: object) -> Iterable[str]:
    if isinstance(value, Model):
        # What is not set is not sent.
        return [name for name in type(value).model_fields if name in value.model_fields_set]
    if isinstance(value, BaseModel):
        return type(value).model_fields
    if is_dataclass(value) and not isinstance(value, type):
        return [one.name for one in fields(value) if one.compare]
    raise _wrong(f"holds a {type(value).__name__}, which is no JSON value")


def _tagged(value: object, text: str) -> str:
    """Put the name of the class before the text of a value that is not JSON."""
    return json.dumps(type(value).__name__) + text


def value_text(value: Any) -> str:
    """Write a value as JSON that can be read; the error otherwise may show the value."""
    if isinstance(value, StoredValue):
        return value.text
    text = to_json(value, by_alias=True, inf_nan_mode="strings").decode()
    if len(text) > _LONGEST_INTEGER:  # only such a text can hold one that is too long
        StoredValue(text).decode()
    return text


def item_text(item: Any) -> str | None:
    """Write an item for readers; None if it is not JSON, because its key identifies it."""
    try:
        return value_text(_as_sent(item))
    except Exception:  # noqa: BLE001 - the item's class may raise anything
        return None


def _as_sent(value: Any) -> Any:
    """Write each request of the interface as the JSON that is sent, with its secrets masked."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, RequestModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    if isinstance(value, Mapping):
        return {name: _as_sent(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_sent(inner) for inner in cast("Iterable[Any]", value)]
    if isinstance(value, Generator):  # writing it would use it up before the call does
        raise TypeError
    sent = value
    if isinstance(value, BaseModel):
        sent = copy(value)
        vars(sent).update({name: _as_sent(inner) for name, inner in vars(value).items()})
    elif is_dataclass(value):
        sent = copy(value)
        for one in fields(value):
            object.__setattr__(sent, one.name, _as_sent(getattr(value, one.name, None)))
    return sent
