"""Equal items: the digests of their keys, which are the same in every process and version."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from hashlib import blake2b
from typing import Any, Final

from pydantic import BaseModel

from gateway_sdk.errors import InvalidArgumentError
from gateway_sdk.models._base import MASK, Model

_DIGEST_BYTES: Final = 16
"""Two of a billion keys share one with a chance of 1 to 10**21."""


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
        raise _wrong("holds a secret, and all secrets look the same")
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()


def _wrong(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the key of an item {what}: give key=, a function that returns a string for an item"
    )


# The text is JSON if the value is JSON. It is not made by pydantic, because its output may change
# with the version, and a serializer of the user may depend on the hash seed (`list(some_set)`).


def _text(value: Any) -> str:
    """Write a value as text, so that only equal values have equal texts."""
    if value is None or isinstance(value, bool | int | float | str):
        return json.dumps(value)
    if isinstance(value, date):
        return json.dumps(value.isoformat())
    if isinstance(value, list | tuple):
        text = f"[{','.join(map(_text, value))}]"
        return _tagged(value, text) if hasattr(value, "_fields") else text
    if isinstance(value, Mapping):
        members = sorted((_text(name), _text(inner)) for name, inner in value.items())
        return f"{{{','.join(f'{name}:{inner}' for name, inner in members)}}}"
    return _tagged(value, _text({name: getattr(value, name) for name in _names(value)}))


def _names(value: object) -> Iterable[str]:
    if isinstance(value, Model):
        return value.model_fields_set  # what is not set is not sent
    if isinstance(value, BaseModel):
        return (*type(value).model_fields, *(value.model_extra or ()))
    if is_dataclass(value) and not isinstance(value, type):
        return [one.name for one in fields(value) if one.compare]
    raise _wrong(f"holds a {type(value).__name__}, which is no JSON value")


def _tagged(value: object, text: str) -> str:
    """Put the name of the class before the text of a value that is not JSON."""
    return json.dumps(type(value).__name__) + text
