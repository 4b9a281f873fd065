"""The options of a view: what each call of it is made with."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Annotated, Any, Final, TypedDict

import httpx
from pydantic import SecretStr

from gateway_sdk._call.deadline import Silence
from gateway_sdk._checks import check_names, check_seconds, check_timeout, checked, declared
from gateway_sdk._http.request import (
    NO_VALUES,
    OnProgress,
    RawHeaders,
    RequestTemplate,
    check_header_value,
    merge_headers,
    raw_headers,
)
from gateway_sdk._url import origin_of
from gateway_sdk.auth.source import (
    AccessTokenGiven,
    StaticTokenSource,
    TokenSource,
    as_token_source,
)
from gateway_sdk.errors import ConfigurationError, InvalidArgumentError
from gateway_sdk.operations import Operation
from gateway_sdk.retry_policy import RetryPolicy

DEFAULT_TIMEOUT: Final = httpx.Timeout(
    # All in seconds. To connect takes one round trip: after a few seconds no server will answer.
    connect=5.0,
    # Without a byte of the reply: an order book is sometimes slow.
    read=30.0,
    # Without a byte being sent.
    write=30.0,
    # Waiting for a free connection of the session: as long as the calls before may take.
    pool=30.0,
)


def _check_tenant_id(name: str, value: object) -> str | None:
    return None if value is None else check_header_value(name, value)


def _check_token_header(name: str, value: object) -> SecretStr | None:
    if value is None:
        return None
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    return SecretStr(check_header_value(name, text))


def _check_retry(name: str, value: object) -> RetryPolicy:
    if value is None:
        return RetryPolicy(attempts=1, connect_wait=0.0)
    if not isinstance(value, RetryPolicy):
        raise ConfigurationError(
            "must be a RetryPolicy, or None for a single attempt", setting=name
        )
    return value


def _check_headers(_: str, headers: object) -> Mapping[str, str]:
    return merge_headers(NO_VALUES, headers)


class PerCall(TypedDict, total=False):
    """What one call can have in place of the session's: more headers, another deadline."""

    headers: Annotated[Mapping[str, str | None] | None, None, _check_headers]
    # Seconds for a whole call: long enough to upload 1 GiB at 15 Mbit/s.
    deadline: Annotated[float | None, 600.0, check_seconds]


PER_CALL: Final = PerCall.__optional_keys__


class Unchecked(partial[object]):
    """A body that is checked within the call, where its model may be loaded in a thread."""


class RequestArguments(TypedDict, total=False):
    """What a request is made of; `GatewaySession.send` describes it."""

    path: Mapping[str, str] | None
    body: object
    content_type: str | None
    on_progress: OnProgress | None


class CallArguments(RequestArguments, PerCall, total=False):
    """What a call is made of."""


class CallSettings(PerCall, total=False):
    """The settings of calls, without the access token."""

    tenant_id: Annotated[str | None, None, _check_tenant_id]
    token_header: Annotated[str | SecretStr | None, None, _check_token_header]
    timeout: Annotated[float | httpx.Timeout | None, DEFAULT_TIMEOUT, check_timeout]
    retry: Annotated[RetryPolicy | None, RetryPolicy(), _check_retry]


class ViewSettings(CallSettings, total=False):
    """What `with_options` can change."""

    access_token: Annotated[AccessTokenGiven, None, as_token_source]


OPTIONS: Final = declared(ViewSettings)
_IN_TEMPLATES: Final = frozenset({"access_token", "tenant_id", "token_header", "headers"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Options:
    """The checked options of one view; the fields are those of `ViewSettings`."""

    access_token: TokenSource = field(repr=False)
    tenant_id: str | None = field(repr=False)
    token_header: SecretStr | None
    timeout: httpx.Timeout
    deadline: float | None
    retry: RetryPolicy
    headers: Mapping[str, str] = field(repr=False)
    silence: Silence = field(default_factory=Silence, repr=False)
    templates: dict[str, RequestTemplate] = field(default_factory=dict, repr=False)
    more: RawHeaders = field(default_factory=list, init=False, repr=False)  # of one call

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Options":
        return cls(**checked(OPTIONS, settings))

    def but(self, changes: Mapping[str, Any]) -> "Options":
        """Return a copy with some options replaced; new headers are merged into the present."""
        changed = {name: OPTIONS[name][1](name, value) for name, value in changes.items()}
        if "headers" in changed:
            changed["headers"] = merge_headers(self.headers, changes["headers"])
        if "access_token" in changed:
            changed["silence"] = Silence()
        if not _IN_TEMPLATES.isdisjoint(changed):
            changed["templates"] = {}
        return dataclasses.replace(self, **changed)

    def of_one_call(self, changes: PerCall) -> "Options":
        """Return the options of a single call; what is wrong with them is a wrong argument."""
        if of_views := (changes.keys() & OPTIONS.keys()) - PER_CALL:
            raise InvalidArgumentError(
                f"a call has no argument {min(of_views)!r}: a view has it, see with_options"
            )
        headers = changes.get("headers")
        only_adds = isinstance(headers, Mapping) and not any(it is None for it in headers.values())
        try:
            given = dict(check_names("a call", changes, PER_CALL))
            if only_adds:
                del given["headers"]
            changed = self.but(given)
            if only_adds:
                changed.more.extend(raw_headers(merge_headers(NO_VALUES, headers)))
        except ConfigurationError as error:
            raise InvalidArgumentError(error.problem, field=error.setting) from None
        return changed

    def add_template(self, operation: Operation[Any], base_url: httpx.URL) -> RequestTemplate:
        source = self.access_token
        template = self.templates[operation.name] = RequestTemplate(
            operation,
            base_url,
            tenant_id=self.tenant_id,
            token_header=self.token_header,
            headers=self.headers,
            access_token=source.endless if isinstance(source, StaticTokenSource) else None,
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
