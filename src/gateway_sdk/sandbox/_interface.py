"""The interface as data, which is in `_interface.json`: the twelve operations, the request bodies.

Copied by hand from the interface's tables (Endpoints 1-12, Resources) and not from the SDK's
models, so that a misspelt name in the SDK fails against the sandbox. "?" marks what may be null,
"complete" the records that lack no field. Two records are not the interface's: Revisions is the
body of endpoint 2, and DocumentStatus the sandbox's own, because endpoint 8 leaves the body open.
"""

import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, Final, NamedTuple


class OperationRoute(NamedTuple):
    """One row of the interface's table of endpoints: the SDK's name for it, method and path."""

    name: str
    method: str
    path: str


_DATA: Final = json.loads((files("gateway_sdk.sandbox") / "_interface.json").read_text("utf-8"))

# In the interface's order. The path of a document with the id "update" or "status" matches 8 and 9;
# the interface does not say which applies, here it is the earlier row.
OPERATIONS: Final = tuple(OperationRoute(*row) for row in _DATA["operations"])
RECORDS: Final[Mapping[str, Mapping[str, str]]] = _DATA["records"]


def check_operation(name: str) -> None:
    names = [operation.name for operation in OPERATIONS]
    if name not in names:
        raise ValueError(f"unknown operation {name!r}; the operations are {', '.join(names)}")


class ShapeError(ValueError):
    """A value is not of its kind; the message names the field, never the value."""


def _is_integer(value: Any) -> bool:
    # In Python True is an int, in JSON it is not an integer.
    return isinstance(value, int) and not isinstance(value, bool)


_SCALARS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "integer": ("an integer", _is_integer),
    "int64": ("an int64", lambda value: _is_integer(value) and -(2**63) <= value < 2**63),
    "boolean": ("a boolean", lambda value: isinstance(value, bool)),
    "any": ("any JSON value", lambda _: True),
}


def check(value: Any, kind: str, path: str = "$") -> None:
    """Check that a value is of a kind, as the data names it; *path* is its JSONPath."""
    if kind.startswith("["):
        _require(isinstance(value, list), f"{path} must be an array")
        for position, item in enumerate(value):
            check(item, kind[1:-1], f"{path}[{position}]")
    elif kind in RECORDS:
        _require(isinstance(value, dict), f"{path} must be an object")
        for name in value:
            _require(name in RECORDS[kind], f"{path}.{name} is not a field of the interface")
            check(value[name], RECORDS[kind][name], f"{path}.{name}")
        for name in RECORDS[kind] if kind in _DATA["complete"] else ():
            _require(name in value, f"{path}.{name} is missing")
    else:
        scalar, accepts = _SCALARS[kind.removesuffix("?")]
        or_null = " or null" if kind.endswith("?") else ""
        valid = accepts(value) or (value is None and bool(or_null))
        _require(valid, f"{path} must be {scalar}{or_null}")


def _require(valid: bool, message: str) -> None:  # noqa: FBT001 - reads as one sentence
    if not valid:
        raise ShapeError(message)
