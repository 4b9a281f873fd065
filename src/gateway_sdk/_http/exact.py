"""Validates JSON with exact numbers: pydantic reads those of JSON as floats."""

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar, copy_context
from decimal import Decimal, InvalidOperation
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Final, cast

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator

# By the repr of a float, which tells -0.0 from 0.0: what parse_float made of the number, its text.
Exact = Mapping[str, tuple[Any, str]]

_EXACT: Final[ContextVar[Exact]] = ContextVar("exact", default=MappingProxyType({}))
_INNER: Final = frozenset({"choices", "definitions", "fields", "steps"})
_WITH_EXTRAS: Final = frozenset({"model-fields", "typed-dict"})
_END: Final = object()


class Numbers:
    """Collects the numbers with a fraction, as `parse_float` of json."""

    def __init__(self, parse_float: Callable[[str], Any]) -> None:
        self._parse = parse_float
        self.exact: dict[str, tuple[Any, str]] = {}
        # Further numbers that have a float of these; 1.5 and 1.50 are one number.
        self.others: dict[Decimal, tuple[float, Any, str]] = {}
        self._next: dict[float, float] = {}  # of a float that is taken: where to look next

    def __call__(self, text: str) -> float:
        value = float(text)
        key = repr(value)
        if key not in self.exact:
            self.exact[key] = self._parse(text), text
        elif text != (first := self.exact[key][1]) and Decimal(text) != Decimal(first):
            self.others.setdefault(Decimal(text), (value, self._parse(text), text))
        return value

    def tell_apart(self, data: bytes) -> bytes:
        """Return the JSON with a float of its own for each number: a near one if it is taken."""
        # Types of numbers get the right one; a literal, a date, or a validator of the user may not.
        places: dict[Decimal, float] = {}
        for number, (value, parsed, text) in self.others.items():
            places[number] = place = self._free(value)
            self.exact[repr(place)] = parsed, text

        def placed(text: str) -> float:
            return places.get(Decimal(text), float(text))

        return json.dumps(json.loads(data, parse_float=placed)).encode()

    def _free(self, place: float) -> float:
        passed: list[float] = []
        while repr(place) in self.exact:
            passed.append(place)
            # In one direction, so that it ends; it never comes to 0, which has two signs.
            place = self._next.get(place) or math.nextafter(place, 0.0) or sys.float_info.min
        self._next.update(dict.fromkeys(passed, place))
        return place


def validate_exact(
    adapter: TypeAdapter[Any], data: bytes, numbers: Numbers, names: Mapping[str, Any]
) -> Any:
    """Validate JSON, and give Decimal and open types the exact numbers."""
    is_crowded = bool(numbers.others)
    token = _EXACT.set(numbers.exact)
    try:
        validator = _validator(adapter, is_crowded=is_crowded)
        return validator.validate_json(numbers.tell_apart(data) if is_crowded else data, **names)
    finally:
        _EXACT.reset(token)


@lru_cache(maxsize=256)
def _validator(adapter: TypeAdapter[Any], *, is_crowded: bool) -> SchemaValidator:
    added = _ADDED | _ADDED_IF_CROWDED if is_crowded else _ADDED
    return SchemaValidator(_exact_schema(adapter.core_schema, added), _use_prebuilt=False)


def _exact_schema(node: Any, added: Mapping[str, Any], extra: str | None = None) -> Any:
    if isinstance(node, list | tuple):  # a tuple is a member of a union with its label
        inners = [_exact_schema(inner, added, extra) for inner in cast("Iterable[Any]", node)]
        return tuple(inners) if isinstance(node, tuple) else inners
    if not isinstance(node, dict):
        return node
    node = cast("dict[str, Any]", node)
    kind = node.get("type")
    if not isinstance(kind, str):  # the fields of a model, by their names
        return {name: _exact_schema(inner, added, extra) for name, inner in node.items()}
    if "config" in node:
        extra = node["config"].get("extra_fields_behavior")
    changed = {
        name: _exact_schema(inner, added, extra)
        if name in _INNER or (name.endswith("schema") and name != "keys_schema")
        else inner
        for name, inner in node.items()
    }
    if kind in _WITH_EXTRAS and (node.get("extra_behavior") or extra) == "allow":
        changed.setdefault("extras_schema", _exact_schema({"type": "any"}, added))
    if kind not in added:
        return changed
    outer = {"ref": changed.pop("ref")} if "ref" in changed else {}
    place, function = added[kind]
    outer["function"] = {"type": "no-info", "function": function}
    return {"type": f"function-{place}", "schema": changed, **outer}


class _Number(Decimal):
    """In a union, pydantic prefers it as it prefers a number of JSON, and makes a Decimal of it."""


# The types are exact, because validators of the user may give the fields any others.


def _as_exact(value: Any) -> Any:
    if type(value) is float:
        return _EXACT.get().get(repr(value), (value,))[0]
    if type(value) is list:
        return [_as_exact(inner) for inner in cast("Iterable[Any]", value)]
    if type(value) is dict:
        return {name: _as_exact(inner) for name, inner in cast("dict[str, Any]", value).items()}
    return value


def _as_decimal(value: Any) -> Any:
    # A strict type takes any number or text from JSON, but from Python a Decimal only.
    if type(value) is float:
        return _Number(_text(value))
    if type(value) in (int, str):
        with suppress(InvalidOperation):
            return _Number(value)
    return value


def _as_float(value: Any) -> Any:
    return float(_text(value)) if type(value) is float else value


def _text(value: float) -> str:
    text = repr(value)
    return _EXACT.get().get(text, ("", text))[1]


def _as_exact_later(items: Iterator[Any]) -> Iterator[Any]:
    """Validate the items with these numbers, when they are asked for."""
    return iter(partial(copy_context().run, next, items), _END)


_ADDED: Final = {
    "any": ("before", _as_exact),
    "decimal": ("before", _as_decimal),
    "generator": ("after", _as_exact_later),
}
_ADDED_IF_CROWDED: Final = {"float": ("before", _as_float), "int": ("before", _as_float)}
