"""Validates JSON with exact numbers: pydantic reads those of JSON as floats."""

import json
import math
import sys
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from decimal import Decimal, InvalidOperation
from typing import Any, Final, cast

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator

# Each float of the JSON that is validated, with its number: exact, as a float, and as a text.
Exact = Mapping[float, tuple[Any, float, str]]

_EXACT: Final[ContextVar[Exact]] = ContextVar("exact")
_NO_SCHEMAS: Final = frozenset({"metadata", "default", "config", "serialization", "cls"})
_WITH_EXTRAS: Final = frozenset({"model-fields", "typed-dict"})


class Numbers:
    """Gives each number a float of its own, as `parse_float` of json."""

    def __init__(self, parse_float: Any) -> None:
        self._parse = parse_float
        self._places: dict[Decimal, float] = {}
        self._last: dict[float, float] = {}  # the place found last, by where the search began
        self.exact: dict[float, tuple[Any, float, str]] = {}

    def __call__(self, text: str) -> float:
        value, number = float(text), Decimal(text)  # 1.5 and 1.50 are one number
        place = self._places.get(number)
        if place is None:
            start = value if math.isfinite(value) else math.copysign(sys.float_info.max, value)
            place = self._last.get(start, start)
            while place in self.exact:  # one direction only, so it ends
                place = math.nextafter(place, 0.0) or sys.float_info.min
            self._places[number] = self._last[start] = place
            self.exact[place] = self._parse(text), value, text
        return place


def exact_validator(adapter: TypeAdapter[Any]) -> SchemaValidator:
    """Return a validator that gives Decimal and open types the exact numbers."""
    return SchemaValidator(_exact_schema(adapter.core_schema), _use_prebuilt=False)


def validate_exact(
    validator: SchemaValidator, value: Any, exact: Exact, names: Mapping[str, Any]
) -> Any:
    token = _EXACT.set(exact)
    try:
        return validator.validate_json(json.dumps(value), **names)
    finally:
        _EXACT.reset(token)


def _exact_schema(node: Any, extra: str | None = None, *, in_union: bool = False) -> Any:
    if isinstance(node, list):
        return [_exact_schema(inner, extra, in_union=in_union) for inner in node]
    if not isinstance(node, dict):
        return node
    node = cast("dict[str, Any]", node)
    kind = node.get("type")
    if "config" in node:
        extra = node["config"].get("extra_fields_behavior")
    changed = {
        name: inner
        if name in _NO_SCHEMAS
        else _exact_schema(inner, extra, in_union=name == "choices")
        for name, inner in node.items()
    }
    if not isinstance(kind, str):  # the fields of a model, by their names
        return changed
    if kind in _WITH_EXTRAS and (node.get("extra_behavior") or extra) == "allow":
        changed.setdefault("extras_schema", _exact_schema({"type": "any"}))
    # In a union, a Decimal from Python is a better match than a text of JSON: so both are Python's.
    function = _as_exact if kind == "str" and in_union else _FUNCTIONS.get(kind)
    if function is None:
        return changed
    outer = {"ref": changed.pop("ref")} if "ref" in changed else {}
    before = {"type": "no-info", "function": function}
    return {"type": "function-before", "function": before, "schema": changed, **outer}


def _as_exact(value: Any) -> Any:
    if isinstance(value, float):
        return _EXACT.get()[value][0]
    if isinstance(value, list):
        return [_as_exact(inner) for inner in value]
    if isinstance(value, dict):
        return {name: _as_exact(inner) for name, inner in cast("dict[str, Any]", value).items()}
    return value


def _as_decimal(value: Any) -> Any:
    # A strict type takes any number or text from JSON, but from Python a Decimal only.
    if isinstance(value, float):
        return Decimal(_EXACT.get()[value][2])
    if isinstance(value, int | str) and not isinstance(value, bool):
        with suppress(InvalidOperation):
            return Decimal(value)
    return value


def _as_float(value: Any) -> Any:
    return _EXACT.get()[value][1] if isinstance(value, float) else value


_FUNCTIONS: Final = {"any": _as_exact, "decimal": _as_decimal, "float": _as_float, "int": _as_float}
