"""The arguments of `GatewaySession.from_env`, which replace or complete the environment."""

import difflib
import ssl
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

import httpx
from pydantic import SecretStr

from gateway_sdk._call.retry import RetryBudget, RetryPolicy
from gateway_sdk._transport.admission import Limit
from gateway_sdk._transport.factory import Certificate, EngineName
from gateway_sdk.auth import AccessTokenGiven
from gateway_sdk.errors import ConfigurationError
from gateway_sdk.observer import Observer


class Overrides(TypedDict, total=False):
    """The arguments of `GatewaySession` and of a login."""

    base_url: str
    access_token: AccessTokenGiven
    tenant_id: str | None
    token_header: str | SecretStr | None
    timeout: float | httpx.Timeout | None
    deadline: float | None
    retry: RetryPolicy | None
    headers: Mapping[str, str] | None
    engine: EngineName
    transport: httpx.AsyncBaseTransport | None
    http_client: httpx.AsyncClient | None
    max_connections: int
    rate_limit: Limit | None
    retry_budget: RetryBudget | None
    verify: ssl.SSLContext | str | Path | Literal[True]
    cert: Certificate | None
    proxy: str | None
    trust_env: bool
    allow_insecure_http: bool
    max_reply_bytes: int
    parse_float: Callable[[str], Any] | None
    drain: float
    observers: Iterable[Observer]
    auth_url: str
    client_id: str
    token_store: str | None


def check_overrides(given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse an unknown argument, and suggest the name that is meant.

    Args:
        given: The names that were given.
        known: The arguments of the class, which may be a subclass with more arguments.

    Raises:
        ConfigurationError: a name is unknown.
    """
    names = sorted({*Overrides.__annotations__, *known})
    for name in given:
        if name not in names:
            raise ConfigurationError(f"from_env has no argument {name!r}: {_hint(name, names)}")


def _hint(name: str, names: list[str]) -> str:
    close = [known for known in names if name in known] or difflib.get_close_matches(name, names, 1)
    if not close:
        return "it takes those of GatewaySession, and auth_url, client_id and token_store"
    return f"did you mean {' or '.join(close)}?"
