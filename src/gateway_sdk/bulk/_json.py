"""Items and values as the JSON of a ledger."""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final, cast

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, from_json, to_json

_UNWRITABLE: Final = (PydanticSerializationError, RecursionError, TypeError, ValueError)


def value_text(value: Any) -> str:
    """Write a value as JSON; the error that it raises otherwise may show the value."""
    return to_json(value, by_alias=True, inf_nan_mode="strings").decode()


def item_text(item: Any) -> str | None:
    """Write an item for readers; None if it is not JSON, because its key identifies it."""
    try:
        if _holds_generator(item):
            return None
        text = value_text(item)
        from_json(text)  # refuses too deep items and too long integers
    except _UNWRITABLE:
        return None
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
