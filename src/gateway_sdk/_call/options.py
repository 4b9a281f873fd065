"""The options that can differ between views of a session: credentials, time-outs, headers."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import httpx
from pydantic import SecretStr

from gateway_sdk._call.retry import RetryPolicy
from gateway_sdk._config import UNSET, check_seconds, check_timeout
from gateway_sdk._http.headers import check_header_value, merge_headers
from gateway_sdk.auth.source import TokenSource, as_token_source
from gateway_sdk.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The checked options of one view, under their public names."""

    access_token: TokenSource = field(repr=False)
    tenant_id: str | None = field(repr=False)
    token_header: SecretStr | None
    timeout: httpx.Timeout
    deadline: float | None
    retry: RetryPolicy
    headers: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, **given: Any) -> "Options":
        """Check every option and return them together.

        Raises:
            ConfigurationError: an option is wrong; the message names it.
        """
        return cls(**_checked(given, MappingProxyType({})))

    def but(self, **given: Any) -> "Options":
        """Return a copy with some options replaced; UNSET keeps an option.

        Raises:
            ConfigurationError: an option is wrong; the message names it.
        """
        return dataclasses.replace(self, **_checked(given, self.headers))


def _checked(given: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    """Check the options that are not UNSET; merge new headers into the present ones."""
    options = {
        name: _CHECKS[name](value)
        for name, value in given.items()
        if value is not UNSET and name != "headers"
    }
    if given["headers"] is not UNSET:
        options["headers"] = merge_headers(headers, given["headers"])
    return options


def _check_tenant_id(value: object) -> str | None:
    return None if value is None else check_header_value("tenant_id", value)


def _check_token_header(value: object) -> SecretStr | None:
    if value is None:
        return None
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    return SecretStr(check_header_value("token_header", text))


def _check_retry(value: object) -> RetryPolicy:
    if value is None:
        return RetryPolicy(attempts=1)
    if not isinstance(value, RetryPolicy):
        raise ConfigurationError("retry must be a RetryPolicy, or None for a single attempt")
    return value


_CHECKS: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        "access_token": as_token_source,
        "tenant_id": _check_tenant_id,
        "token_header": _check_token_header,
        "timeout": check_timeout,
        "deadline": lambda seconds: check_seconds("deadline", seconds),
        "retry": _check_retry,
    }
)
