"""The arguments of a session: the options that views may change, and what `from_env` takes."""

import dataclasses
import difflib
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypedDict

import httpx
from pydantic import SecretStr

from gateway_sdk._call.retry import RetryBudget, RetryPolicy
from gateway_sdk._config import UNSET, check_seconds, check_timeout, origin_of, require_settings
from gateway_sdk._http.request import RequestTemplate, check_header_value, merge_headers
from gateway_sdk._transport.config import Certificate
from gateway_sdk._transport.custom import AnyClient, AnyTransport
from gateway_sdk._transport.rate_limit import AnyRateLimit
from gateway_sdk.auth import AccessTokenGiven
from gateway_sdk.auth.source import TokenSource, as_token_source
from gateway_sdk.errors import ConfigurationError
from gateway_sdk.observer import Observer
from gateway_sdk.operations import Operation


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
    templates: dict[str, RequestTemplate] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, **given: Any) -> "Options":
        """Check every option and return them together."""
        return cls(**_checked(given, MappingProxyType({})))

    def but(self, **given: Any) -> "Options":
        """Return a copy with some options replaced; UNSET keeps an option."""
        return dataclasses.replace(self, **_checked(given, self.headers))

    def template(self, operation: Operation[Any], base_url: httpx.URL) -> RequestTemplate:
        """Make and keep what all requests of an operation have in common."""
        template = self.templates[operation.name] = RequestTemplate(
            operation,
            base_url,
            tenant_id=self.tenant_id,
            token_header=self.token_header,
            headers=self.headers,
        )
        return template

    def gateway_name(self, base_url: httpx.URL) -> str:
        """Return the gateway's address and a digest of the tenant: its name in files."""
        address = origin_of(base_url) + base_url.raw_path.decode("ascii").rstrip("/")
        if self.tenant_id is None:
            return address
        # A tenant may be a person, so a file shows a digest and not the id.
        digest = blake2b(self.tenant_id.encode(), digest_size=8).hexdigest()
        return f"{address} for the tenant {digest}"


def check_gateway(source: TokenSource, base_url: httpx.URL) -> None:
    """Refuse a token source that names another gateway."""
    gateway = getattr(source, "gateway", None)
    origin = origin_of(base_url)
    if isinstance(gateway, str) and gateway != origin:
        raise ConfigurationError(
            f"access_token is for {gateway}, and base_url is at {origin}: "
            "a token goes to its own gateway only"
        )


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
    transport: AnyTransport | None
    http_client: AnyClient | None
    max_connections: int
    rate_limit: AnyRateLimit | None
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
    """Refuse an unknown argument, and suggest the name that is meant."""
    names = sorted({*Overrides.__annotations__, *known})
    for name in given:
        if name not in names:
            raise ConfigurationError(f"from_env has no argument {name!r}: {_hint(name, names)}")


def _hint(name: str, names: list[str]) -> str:
    close = [known for known in names if name in known] or difflib.get_close_matches(name, names, 1)
    if not close:
        return "it takes those of GatewaySession, and auth_url, client_id and token_store"
    return f"did you mean {' or '.join(close)}?"


_OF_LOGIN: Final = ("auth_url", "client_id", "token_store")


def with_access_token(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a session; without an access token, the store's is read."""
    require_settings(settings, "base_url")
    session = {name: value for name, value in settings.items() if name not in _OF_LOGIN}
    if "access_token" in settings:
        return session
    if not {"auth_url", "client_id"} & settings.keys():
        raise ConfigurationError(
            "GATEWAY_ACCESS_TOKEN is not set, and no access_token= was given; or set "
            "GATEWAY_AUTH_URL and GATEWAY_CLIENT_ID, and run `gateway login`"
        )
    # Only such a session needs the stores and the login.
    from gateway_sdk.auth._shared_source import SharedTokenSource  # noqa: PLC0415
    from gateway_sdk.auth.stores import token_store  # noqa: PLC0415

    return {**session, "access_token": SharedTokenSource(token_store(settings))}
