"""Build a request: its target and its JSON. No I/O here."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError

from gateway_sdk.errors import InvalidArgumentError
from gateway_sdk.models._base import Model
from gateway_sdk.models._problems import PROBLEM
from gateway_sdk.operations import Operation

_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LONGEST_SEGMENT: Final = 4000  # bytes; servers accept targets of 8000 (RFC 9110, 4.1)
_SHOWN_PROBLEMS: Final = 10


def fill_path(operation: Operation[Any], values: Mapping[str, str]) -> str:
    """Put the values into the operation's path, percent-encoded (RFC 3986, 3.3).

    Raises:
        InvalidArgumentError: a value is missing, unknown, or cannot be one path segment.
    """
    if not isinstance(values, Mapping):
        raise InvalidArgumentError("path must be a mapping of placeholders to strings")
    if not values and "{" not in operation.path:
        return operation.path
    names = _PLACEHOLDER.findall(operation.path)
    for name in values.keys() - set(names):
        raise InvalidArgumentError(f"path has no placeholder {name!r}: it has {names or 'none'}")
    for name in names:
        if name not in values:
            raise InvalidArgumentError(f"path lacks {name!r}")
    return _PLACEHOLDER.sub(lambda found: _segment(found[1], values[found[1]]), operation.path)


def _segment(name: str, value: object) -> str:
    """Encode one path segment; refuse a value that would address something else."""
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name} must be a string")
    if not value:
        raise InvalidArgumentError(f"{name} is empty")
    if value in (".", ".."):
        raise InvalidArgumentError(f"{name} is a dot segment, which would address another path")
    if _CONTROL.search(value):
        raise InvalidArgumentError(f"{name} holds a line break or another control character")
    try:
        encoded = quote(value, safe="")
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{name} holds half of a surrogate pair") from None
    if len(encoded) > _LONGEST_SEGMENT:
        raise InvalidArgumentError(f"{name} is longer than any address may be")
    return encoded


def encode_json(value: object) -> bytes:
    """Return a model or any JSON value as UTF-8 JSON without spaces.

    Raises:
        InvalidArgumentError: the value is not JSON.
    """
    try:
        return _ENCODER.encode(value).encode()
    except ValidationError as error:  # of a model that was made without validation
        raise InvalidArgumentError(describe(error)) from None
    except (PydanticSerializationError, RecursionError, TypeError, ValueError) as error:
        # Without the cause, whose text may show the value.
        raise InvalidArgumentError(f"the body is no JSON value ({type(error).__name__})") from None


def _plain(value: Any) -> dict[str, Any]:
    """Return a model or mapping as a JSON object; refuse other unknown types."""
    if isinstance(value, Model):
        return value.to_wire()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    raise TypeError


# Made once: `json.dumps` would make one for every body.
_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
)


def describe(error: ValidationError) -> str:
    """Name the first few wrong fields and the reasons, without their values."""
    problems = error.errors(include_input=False, include_url=False, include_context=False)
    shown = [_described(problem) for problem in problems[:_SHOWN_PROBLEMS]]
    more = len(problems) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")


def _described(problem: ErrorDetails) -> str:
    """Name a field by its path, and say what is wrong with it, in our words or in pydantic's."""
    field = ".".join(map(str, problem["loc"]))[:100]
    if problem["type"] == PROBLEM:
        return f"{field or 'the value'} {problem['msg'][:150]}"
    return f"{field or 'it'}: {problem['msg'][:100]}"
