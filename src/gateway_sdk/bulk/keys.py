"""When two items are equal: by the digest of a key."""

import json
from hashlib import blake2b
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_jsonable_python

from gateway_sdk.errors import InvalidArgumentError
from gateway_sdk.models._base import MASK

DIGEST_BYTES: Final = 16
"""Two of a billion keys share one with a chance of 1 to 10**21."""

UNWRITABLE: Final = (PydanticSerializationError, RecursionError, TypeError, ValueError)


def digest_of(key: Any) -> bytes:
    """Return the digest of a key's JSON, the names in its objects sorted.

    Raises:
        InvalidArgumentError: it is no JSON value, or holds a secret, which looks like any other.
    """
    try:
        text = json.dumps(
            to_jsonable_python(key, by_alias=True), separators=(",", ":"), sort_keys=True
        )
    except UNWRITABLE as error:
        # Without the cause, whose text may show the value.
        raise InvalidArgumentError(
            f"the key of an item is no JSON value ({type(error).__name__}): "
            "give key=, a function that returns a string for an item"
        ) from None
    if MASK in text:
        raise InvalidArgumentError(
            "the key of an item holds a secret, and all secrets look the same: "
            "give key=, a function that returns a string for an item"
        )
    return blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()
