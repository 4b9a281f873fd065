"""Header fields: those of an operation, those that users may set, reading one. No I/O here."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import httpx
from pydantic import SecretStr

from gateway_sdk._version import __version__
from gateway_sdk.errors import ConfigurationError, InvalidArgumentError
from gateway_sdk.operations import Header, Operation

RawHeaders: TypeAlias = list[tuple[bytes, bytes]]
"""Headers as they go over the wire, in their order."""

_COMMON_HEADERS: Final = (
    (b"Accept", b"application/json, */*;q=0.1"),
    (b"Accept-Encoding", b"gzip"),  # what `_http.content` can undo
    (b"User-Agent", f"gateway-sdk/{__version__}".encode("ascii")),
)


_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110, 5.6.2: token
_HEADER_VALUE = re.compile(  # RFC 9110, 5.5: field-value, not empty
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


def build_headers(
    operation: Operation[Any],
    *,
    tenant_id: str | None,
    token_header: SecretStr | None,
    headers: Mapping[str, str],
    content_type: str | None,
) -> RawHeaders:
    """Return the headers of an operation, without Authorization and the length of the body.

    Raises:
        InvalidArgumentError: the operation needs a tenant and none is configured.
    """
    # Interface: Authentication 3; Endpoints rule 1
    fields = replace_fields(_COMMON_HEADERS, headers) if headers else [*_COMMON_HEADERS]
    if operation.tenant_id is Header.ALWAYS and tenant_id is None:
        raise InvalidArgumentError(
            "tenant_id is missing: give it to the session, or to with_options(tenant_id=...)"
        )
    if operation.tenant_id is not Header.NEVER and tenant_id is not None:
        fields.append((b"tenantId", tenant_id.encode("latin-1")))
    if operation.token_header is not Header.NEVER and token_header is not None:
        text = token_header.get_secret_value()
        fields.append((b"token", text.encode("latin-1")))
    if content_type is not None:
        fields.append((b"Content-Type", content_type.encode("latin-1")))
    return fields


def replace_fields(fields: Iterable[tuple[bytes, bytes]], more: Mapping[str, str]) -> RawHeaders:
    """Return the fields with more of them, which replace those of the same name."""
    added = [(name.encode("ascii"), text.encode("latin-1")) for name, text in more.items()]
    taken = {name.lower() for name, _ in added}
    return [field for field in fields if field[0].lower() not in taken] + added


def check_header_value(name: str, value: object) -> str:
    """Return a valid value of a header.

    Raises:
        ConfigurationError: it is not a string, is empty, or has a character that headers cannot
            have. The message does not show the value.
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


def merge_headers(base: Mapping[str, str], headers: Any) -> Mapping[str, str]:
    """Merge headers, ignoring case; a value of None removes one header, None removes all."""
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
    """Return a header's name in lower case, if the user may set it."""
    if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
        raise ConfigurationError("headers holds a name that no header can have (RFC 9110, 5.1)")
    reason = _NOT_IN_HEADERS.get(name.lower())
    if reason:
        raise ConfigurationError(f"headers must not set {name}: {reason}")
    return name.lower()


def field_of(headers: httpx.Headers, name: bytes) -> str:
    """Return a header field; "" if it is absent, joined by commas if it is repeated.

    `httpx.Headers.get` detects the charset of all headers first, which takes 4 µs.
    """
    values = [value for key, value in headers.raw if key.lower() == name]
    return b", ".join(values).decode("latin-1")
