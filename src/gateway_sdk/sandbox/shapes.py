"""What a JSON value may look like, and the check that says where one does not. No I/O here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value without parts; *name* is what the interface calls it."""

    name: str
    admits: Callable[[object], bool]


@dataclass(frozen=True, slots=True)
class Record:
    """An object with these fields and no others; a *complete* one lacks none of them."""

    fields: "Mapping[str, Shape]"
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Many:
    """An array of any length, the empty one included."""

    item: "Shape"


Shape: TypeAlias = Scalar | Record | Many


class ShapeError(ValueError):
    """A value is not of its shape; the message names the place, never the value."""


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def _is_integer(value: object) -> bool:
    # Python counts True among the integers, JSON does not.
    return isinstance(value, int) and not isinstance(value, bool)


def _is_int64(value: object) -> bool:
    return _is_integer(value) and -(2**63) <= cast("int", value) < 2**63


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool)


def _or_null(scalar: Scalar) -> Scalar:
    return Scalar(f"{scalar.name} or null", lambda value: value is None or scalar.admits(value))


STRING = Scalar("a string", _is_string)
NULLABLE_STRING = _or_null(STRING)
INTEGER = Scalar("an integer", _is_integer)
NULLABLE_INT64 = _or_null(Scalar("an int64", _is_int64))
BOOLEAN = Scalar("a boolean", _is_boolean)
ANYTHING = Scalar("any JSON value", lambda _: True)


def check(value: object, shape: Shape, path: str = "$") -> None:
    """Refuse a value that is not of its shape; *path* is where it stands, as a JSON path.

    Raises:
        ShapeError: At the first place that does not fit.
    """
    match shape:
        case Scalar():
            _require(shape.admits(value), f"{path} must be {shape.name}")
        case Many():
            _check_items(value, shape, path)
        case _:
            _check_fields(value, shape, path)


def _check_items(value: object, shape: Many, path: str) -> None:
    _require(isinstance(value, list), f"{path} must be an array")
    for position, item in enumerate(cast("list[object]", value)):
        check(item, shape.item, f"{path}[{position}]")


def _check_fields(value: object, shape: Record, path: str) -> None:
    _require(isinstance(value, dict), f"{path} must be an object")
    given = cast("dict[str, object]", value)
    for name in given:
        _require(name in shape.fields, f"{path}.{name} is no field of the interface")
        check(given[name], shape.fields[name], f"{path}.{name}")
    for name in shape.fields:
        _require(name in given or not shape.complete, f"{path}.{name} is missing")


def _require(fits: bool, complaint: str) -> None:  # noqa: FBT001 - reads as one sentence
    if not fits:
        raise ShapeError(complaint)
