"""Equal items: the digests of their keys, which are the same in every process and version."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from enum import Enum
from hashlib import blake2b
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel, Secret, SecretBytes, SecretStr

from gateway_sdk.errors import InvalidArgumentError
from gateway_sdk.models._base import MASK, Model

DIGEST_BYTES: Final = 16
"""Two of a billion keys share one with a chance of 1 to 10**21."""

_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_ALIKE: Final = "holds a secret, and all secrets look the same"


def digest_of(key: Any) -> bytes:
    """Keys are equal if their JSON is; the class of models, dataclasses and the like counts too."""
    try:
        text = _text(key)
    except InvalidArgumentError:
        raise
    except Exception as error:  # noqa: BLE001 - the user's class may raise anything
        # No cause: its text may show the value.
        raise _wrong(f"is no JSON value ({type(error).__name__})") from None
    if MASK in text:
        raise _wrong(_ALIKE)
    return blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()


def _wrong(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the key of an item {what}: give key=, a function that returns a string for an item"
    )


# The text is JSON if the value is JSON. It is not made by pydantic, because its output may change
# with the version, and a serializer of the user may depend on the hash seed (`list(some_set)`).


def _text(value: Any) -> str:
    """Write a value as text, so that only equal values have equal texts."""
    if value is None or isinstance(value, bool | str):
        return json.dumps(value)
    for kinds, write in _WRITERS:
        if isinstance(value, kinds):
            return write(value)
    if is_dataclass(value) and not isinstance(value, type):
        members = {one.name: getattr(value, one.name) for one in fields(value) if one.compare}
        return _tagged(type(value), _object(members))
    raise _wrong(f"holds a {type(value).__name__}, which is no JSON value")


def _tagged(kind: type, text: str) -> str:
    """Put the name of the class before the text of a value that is not JSON."""
    return json.dumps(kind.__name__) + text


def _float(value: float) -> str:
    """Write a number as an integer if it is equal to one."""
    return str(int(value)) if value.is_integer() else json.dumps(value)


def _decimal(value: Decimal) -> str:
    """Write a number without zeros at the end: 1.10 equals 1.1."""
    if not value.is_finite():
        return _tagged(Decimal, str(value))
    sign, digits, exponent = value.normalize(_EXACT).as_tuple()
    text = f"{'-' * sign}{''.join(map(str, digits))}e{exponent}"
    return _tagged(Decimal, text if any(digits) else "0")


def _datetime(value: datetime) -> str:
    moment = value if value.utcoffset() is None else value.astimezone(UTC)
    return json.dumps(moment.isoformat())


def _time(value: time) -> str:
    """Write a time of day; with a time zone, equality would depend on the day."""
    if value.tzinfo is not None:
        raise _wrong("holds a time with a time zone, which is no JSON value")
    return json.dumps(value.isoformat())


def _array(value: list[Any] | tuple[Any, ...]) -> str:
    text = f"[{','.join(map(_text, value))}]"
    return _tagged(type(value), text) if hasattr(value, "_fields") else text


def _set(value: set[Any] | frozenset[Any]) -> str:
    """Write the members in the order of their texts: that of a set depends on the hash seed."""
    return f"<{','.join(sorted(map(_text, value)))}>"


def _object(value: Mapping[Any, Any]) -> str:
    members = sorted((_text(name), _text(inner)) for name, inner in value.items())
    return f"{{{','.join(f'{name}:{inner}' for name, inner in members)}}}"


def _model(value: BaseModel) -> str:
    """Write the fields of a model; of our models only the fields that were set."""
    held = vars(value)
    if isinstance(value, Model):
        held = {name: held[name] for name in value.model_fields_set}
    text = _object({name: held[name] for name in type(value).model_fields if name in held})
    return _tagged(type(value), text + (_object(value.model_extra) if value.model_extra else ""))


def _secret(_: object) -> str:
    raise _wrong(_ALIKE)


_WRITERS: Final[tuple[tuple[tuple[type, ...], Callable[[Any], str]], ...]] = (
    ((int,), int.__repr__),  # also a member of an IntEnum, which is equal to its number
    ((float,), _float),
    ((BaseModel,), _model),
    ((Mapping,), _object),
    ((list, tuple), _array),
    ((set, frozenset), _set),
    ((Enum,), lambda value: _tagged(type(value), _text(value.value))),
    ((datetime,), _datetime),  # before date, whose subclass it is
    ((date,), lambda value: json.dumps(value.isoformat())),
    ((time,), _time),
    ((timedelta,), lambda value: _tagged(timedelta, str(value // timedelta(microseconds=1)))),
    ((Decimal,), _decimal),
    ((UUID, PurePath), lambda value: json.dumps(str(value))),
    ((bytes, bytearray), lambda value: _tagged(bytes, value.hex())),
    ((SecretStr, SecretBytes, Secret), _secret),
)
