"""Quoting the words of a gateway, without secrets and without what may be about a person."""

import os
import re
from typing import Final

from gateway_sdk.cli.output.values import printable
from gateway_sdk.errors import AuthorizationDeniedError, GatewayError, StatusError
from gateway_sdk.operations import CREATE_CUSTOMER, REVISE_CUSTOMER

MOST: Final = 200
"""Characters of a quotation."""

PERSONAL: Final = frozenset({CREATE_CUSTOMER.name, REVISE_CUSTOMER.name})
"""Operations whose request is about a person: a gateway's complaint may repeat parts of it."""

SECRETS: Final = ("GATEWAY_ACCESS_TOKEN", "GATEWAY_TOKEN_HEADER")

_LIKE_A_TOKEN: Final = re.compile(r"(?i)\bbearer\s+\S+|[\w~+/=.-]{32,}")
"""What follows the word "bearer", or is longer than any word."""


def quote(error: GatewayError, *, personal: bool = False) -> str:
    """Quote the gateway after a colon; "" if it said nothing.

    Args:
        error: The error.
        personal: Whether to quote what may be about a person too: terminals end up in logs.
    """
    words = words_of(error)
    if words and error.operation in PERSONAL and not personal:
        return " (--debug shows its words)"
    return f": “{words}”" if words else ""


def words_of(error: GatewayError) -> str:
    """Return the gateway's words; of an authorization server its code, if the text lacks that."""
    if isinstance(error, AuthorizationDeniedError):
        return error.description or ("" if error.code in str(error) else error.code)
    payload = error.payload if isinstance(error, StatusError) else None
    return _clean(payload.message or "") if payload else ""


def _clean(text: str) -> str:
    for variable in SECRETS:
        if secret := os.environ.get(variable):
            text = text.replace(secret, "…")
    text = printable(_LIKE_A_TOKEN.sub("…", text)).strip()
    return text if len(text) <= MOST else f"{text[: MOST - 1]}…"
