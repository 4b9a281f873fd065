"""Items and values as JSON texts."""

import json
from datetime import date
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, from_json, to_json

from gateway_sdk.errors import InvalidArgumentError
from gateway_sdk.models._base import MASK

_UNWRITABLE: Final = (PydanticSerializationError, RecursionError, TypeError, ValueError)


def item_text(item: Any) -> str:
    try:
        text = _ENCODER.encode(item)
        text.encode()
        # Other processes have to read it: not everything that can be written can be read.
        from_json(text)
    except _UNWRITABLE as error:
        # Without the cause, whose text may show the value.
        raise InvalidArgumentError(
            f"it is no JSON value ({type(error).__name__}): items are JSON or models"
        ) from None
    if MASK in text:
        raise InvalidArgumentError(
            "it holds a secret, and a plan is stored in clear: use function=, and let it fetch the"
            " secret where the call is made"
        )
    return text


def _plain(value: Any) -> Any:
    """Return a model or a date as JSON; secrets are masked."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError


_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True, default=_plain
)


class NoJsonValueError(ValueError):
    """A value is not JSON; the message does not show it."""


def value_text(value: Any) -> str:
    """Return a value as JSON text; numbers that JSON does not know become strings."""
    try:
        text = to_json(value, by_alias=True, inf_nan_mode="strings")
        if not _is_surely_readable(text):
            from_json(text)
        return text.decode()
    except _UNWRITABLE as error:
        raise NoJsonValueError(type(error).__name__) from None


_DEPTH: Final = 200
_DIGITS: Final = 4300
"""What is nested deeper, or a number of more digits, can be written and not be read."""


def _is_surely_readable(text: bytes) -> bool:
    """Tell whether JSON that was written can be read, without reading it."""
    # Most values are small, and reading them would take as long as writing them.
    return len(text) < _DIGITS and text.count(b"{") + text.count(b"[") < _DEPTH
