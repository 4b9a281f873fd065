"""What can differ from one view of a session to the next: credentials, time-outs, headers."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import httpx
from pydantic import SecretStr

from gateway_sdk._config import check_seconds, check_timeout
from gateway_sdk._retry import RetryPolicy
from gateway_sdk.auth.source import TokenSource, as_token_source
from gateway_sdk.errors import ConfigurationError


class Unset(Enum):
    """The one value that means "not given", where None means something else."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "..."


UNSET: Final = Unset.UNSET
UnsetType: TypeAlias = Literal[Unset.UNSET]

_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110, 5.6.2: token
_HEADER_VALUE = re.compile(  # RFC 9110, 5.5: field-value, which is not empty here
    r"[\x21-\x7e\x80-\xff]([\t \x21-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?"
)

_NOT_IN_HEADERS: Final = MappingProxyType(
    {
        "authorization": "give access_token= instead",
        "token": "give token_header= instead",
        "tenantid": "give tenant_id= instead",
        "content-type": "give content_type= with the call instead",
        "content-length": "it follows from the body",
        "transfer-encoding": "it follows from the body",
        "host": "it follows from base_url",
        "accept-encoding": "only what the SDK can decompress may be asked for",
        "connection": "connections are the SDK's",
        "expect": "the SDK does not wait for 100 Continue",
        "keep-alive": "connections are the SDK's",
        "proxy-authorization": "it would go to the gateway",
        "te": "the SDK does not read trailers",
        "trailer": "the SDK does not send trailers",
        "upgrade": "the SDK speaks HTTP/1.1 only",
    }
)


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
        """Return a copy with some options replaced; UNSET leaves an option as it is.

        Raises:
            ConfigurationError: an option is wrong; the message names it.
        """
        return dataclasses.replace(self, **_checked(given, self.headers))


def _checked(given: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    """Check the options that are not UNSET; new headers are merged into those that are there."""
    options = {
        name: _CHECKS[name](value)
        for name, value in given.items()
        if value is not UNSET and name != "headers"
    }
    if given["headers"] is not UNSET:
        options["headers"] = _merge_headers(headers, given["headers"])
    return options


def check_header_value(name: str, value: object) -> str:
    """Return a text that may stand as a header's value.

    Raises:
        ConfigurationError: it is no text, empty, or holds what no header may hold. The message
            does not show it.
    """
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} must be a string")
    if not value:
        raise ConfigurationError(f"{name} is empty; None leaves the header out")
    if _HEADER_VALUE.fullmatch(value):
        return value
    if _HEADER_VALUE.fullmatch(value.strip()):
        raise ConfigurationError(f"{name} has white space around it: strip() it")
    raise ConfigurationError(
        f"{name} holds a line break, a control character or a character outside Latin-1, "
        "which no header can carry"
    )


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


def _merge_headers(base: Mapping[str, str], headers: Any) -> Mapping[str, str]:
    """Merge headers without regard to case; a value of None removes one, None removes all."""
    if headers is None:
        return MappingProxyType({})
    if not isinstance(headers, Mapping):
        raise ConfigurationError("headers must be a mapping of names to values")
    merged = {name.lower(): (name, value) for name, value in base.items()}
    for name, value in headers.items():
        key = _check_header_name(name)
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = (str(name), check_header_value(f"headers[{name!r}]", value))
    return MappingProxyType(dict(merged.values()))


def _check_header_name(name: object) -> str:
    """Return a header's name in lower case, if it may be set by the user."""
    if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
        raise ConfigurationError("headers holds a name that no header can have (RFC 9110, 5.1)")
    reason = _NOT_IN_HEADERS.get(name.lower())
    if reason:
        raise ConfigurationError(f"headers must not set {name}: {reason}")
    return name.lower()


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
