"""A request: its target, its header fields and its JSON. No I/O here."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from urllib.parse import quote, unquote

import httpx
from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticSerializationError

from gateway_sdk._python import MASK, Wire
from gateway_sdk._version import __version__
from gateway_sdk.errors import ConfigurationError, InvalidArgumentError
from gateway_sdk.operations import SEND_WEBHOOK, Content, Header, Operation

RawHeaders: TypeAlias = list[tuple[bytes, bytes]]
"""Headers as they go over the wire, in their order."""

OnProgress: TypeAlias = Callable[[int, int | None], object]
"""Called with the bytes of a document sent so far and the total, which is None for a stream."""

JSON: Final = "application/json"
_JSON_FIELD: Final = (b"Content-Type", JSON.encode("ascii"))
_COMMON_HEADERS: Final = (
    (b"Accept", b"application/json, */*;q=0.1"),
    (b"Accept-Encoding", b"gzip"),  # what `RawReply` can undo
    (b"User-Agent", f"gateway-sdk/{__version__}".encode("ascii")),
)


_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110, 5.6.2: token
_HEADER_VALUE = re.compile(  # RFC 9110, 5.5: field-value, not empty
    r"[\x21-\x7e\x80-\xff]([\t \x21-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?"
)

_NOT_IN_HEADERS: Final = {
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

NO_VALUES: Final[Mapping[str, str]] = MappingProxyType({})

ARGUMENTS: Final = {
    "customerId": "customer_id",
    "walletId": "wallet_id",
    "orderId": "order_id",
    "documentId": "document_id",
    "docid": "document_id",
}
"""The arguments of the methods, by their placeholders in the path."""

_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_MARK: Final = "~of.gateway.sdk~"  # replaces a value; nothing in it needs encoding
_PLAIN: Final = re.compile(r"[A-Za-z0-9._~-]{1,4000}")  # nothing to encode
_UNSENDABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# Servlet containers read "..;x" as "..", with a parameter.
_DOTS: Final = re.compile(r"(?:^|[/\\])\.\.?(?:[/\\;]|$)")
_LONGEST_SEGMENT: Final = 4000  # bytes; servers accept targets of 8000 (RFC 9110, 4.1)
_MOST_DECODINGS: Final = 8  # more than there are proxies; a value of `%252525...` takes thousands


class RequestBase:
    __slots__ = ("address", "fields", "lines", "method", "names")

    def __init__(self, method: str, address: httpx.URL, fields: RawHeaders) -> None:
        self.method: bytes = method.encode("ascii")
        self.address: httpx.URL = address
        self.fields: RawHeaders = fields
        self.lines: bytes = field_lines(fields)  # the same as they are sent
        self.names: frozenset[bytes] = frozenset(name.lower() for name, _ in fields)

    def without(self, more: RawHeaders) -> "RequestBase":
        """Return the same without the fields that *more* replaces; usually there are none."""
        taken = {name.lower() for name, _ in more}
        if taken.isdisjoint(self.names):
            return self
        kept = [field for field in self.fields if field[0].lower() not in taken]
        return RequestBase(self.method.decode("ascii"), self.address, kept)


class RequestTemplate(RequestBase):
    # Its fields are those of every request: without Content-Type, the length of the body, and
    # Authorization, if the token may change.

    __slots__ = ("_parts", "_placeholders", "has_token", "operation")

    def __init__(
        self,
        operation: Operation[Any],
        base_url: httpx.URL,
        *,
        tenant_id: str | None,
        token_header: SecretStr | None,
        headers: Mapping[str, str],
        access_token: SecretStr | None = None,  # if it stays the same
    ) -> None:
        # Interface: Authentication 3; Endpoints rule 1
        fields = replace_fields(_COMMON_HEADERS, raw_headers(headers))
        fields.insert(0, (b"Host", base_url.netloc))
        if operation.tenant_id is Header.ALWAYS and tenant_id is None:
            way_out = "give it to the session, or to with_options(tenant_id=...)"
            raise InvalidArgumentError(f"is missing: {way_out}", field="tenant_id")
        if operation.tenant_id is not Header.NEVER and tenant_id is not None:
            fields.append((b"tenantId", tenant_id.encode("latin-1")))
        if operation.token_header is not Header.NEVER and token_header is not None:
            fields.append((b"token", token_header.get_secret_value().encode("latin-1")))
        self.has_token: bool = access_token is not None
        if access_token is not None:
            fields.append(authorization(access_token.get_secret_value()))
        super().__init__(operation.method, base_url, fields)
        self.operation: Operation[Any] = operation
        self._placeholders = _PLACEHOLDER.findall(operation.path)
        path = _PLACEHOLDER.sub(_MARK, operation.path).encode("ascii")
        whole = base_url.copy_with(raw_path=base_url.raw_path.rstrip(b"/") + path)
        self._parts = whole.raw_path.split(_MARK.encode("ascii"))

    def target(self, values: Mapping[str, str]) -> bytes:
        """Return the path with the values, percent-encoded (RFC 3986, 3.3), between its parts."""
        path, names = self._parts[0], self._placeholders
        if not names and values is NO_VALUES:
            return path
        if not isinstance(values, Mapping) or set(values) != set(names):
            wanted = ", ".join(names) or "nothing"
            raise InvalidArgumentError(f"must be a mapping with {wanted} in it", field="path")
        for name, part in zip(names, self._parts[1:], strict=True):
            path += _segment(name, values[name]).encode("ascii") + part
        return path


def _segment(placeholder: str, value: object) -> str:
    """Encode one path segment; refuse a value that would address something else."""
    name = ARGUMENTS.get(placeholder, placeholder)  # `send` takes operations of the user too
    if not isinstance(value, str):
        raise InvalidArgumentError("must be a string", field=name)
    if _PLAIN.fullmatch(value) and value not in (".", ".."):
        return value
    if _UNSENDABLE.search(value):
        raise InvalidArgumentError("holds a control character or half of a pair", field=name)
    encoded = quote(value, safe="")
    if len(encoded) > _LONGEST_SEGMENT:
        raise InvalidArgumentError("is longer than any address may be", field=name)
    if not value or _DOTS.search(_decoded(name, value)):
        raise InvalidArgumentError(
            "is empty, or a part of it is . or .. (%2e too): it would address another path",
            field=name,
        )
    return encoded


def _decoded(name: str, value: str) -> str:
    """Return what proxies on the way make of a value that each of them decodes."""
    for _ in range(_MOST_DECODINGS):
        before, value = value, unquote(value)
        if value == before:
            return value
    raise InvalidArgumentError("is percent-encoded too often", field=name)


@dataclass(slots=True, eq=False, repr=False)
class PreparedRequest:
    """What all attempts of a call send; each adds the token."""

    base: RequestBase
    target: bytes  # path and query, percent-encoded
    content: bytes | httpx.AsyncByteStream  # the transport does not close a stream
    length: int | None  # bytes of the content; None to send it in chunks
    fields: RawHeaders  # about the content, as `framing` returns them


def prepare(
    template: RequestTemplate,
    target: bytes,
    content: object,
    content_type: str | None,
    on_progress: OnProgress | None,
) -> PreparedRequest:
    """Return a request with a JSON value, or without a body."""
    if content_type is not None or on_progress is not None:
        name = "on_progress" if content_type is None else "content_type"
        raise InvalidArgumentError("needs a document or an event beside it", field=name)
    operation = template.operation
    if content is None:
        if operation.content is Content.JSON:
            raise InvalidArgumentError("is missing", field="body")
        if operation.content is Content.ANY and operation != SEND_WEBHOOK:
            raise InvalidArgumentError("is missing; an empty document is b''", field="body")
        return PreparedRequest(template, target, b"", 0, framing(operation.method, None, None))
    if operation.content is Content.NONE:
        raise InvalidArgumentError("must be left out: the operation takes none", field="body")
    try:
        data = encode_json(content)
    except InvalidArgumentError:
        if isinstance(content, Mapping):  # one of its fields is wrong, or a name of one
            for name, value in content.items():
                encode_json(value, f"body[{name!r:.100}]" if isinstance(name, str) else "body")
        raise
    fields = [_JSON_FIELD, (b"Content-Length", b"%d" % len(data))]
    return PreparedRequest(template, target, data, len(data), fields)


def encode_json(value: object, name: str = "body") -> bytes:
    try:
        data = value.__wire__() if isinstance(value, Wire) else None
        return data or _ENCODER.encode(_named(value, name)).encode()
    except InvalidArgumentError as error:
        raise InvalidArgumentError(error.problem, field=error.field or name) from None
    except (PydanticSerializationError, RecursionError, TypeError, ValueError) as error:
        what = f"is no JSON value ({type(error).__name__})"
        if isinstance(error, UnicodeEncodeError):
            what = "holds half of a surrogate pair, which is no character"
        # Without the cause, whose text may show the value.
        raise InvalidArgumentError(what, field=name) from None


def _named(value: object, where: str) -> object:
    """Return a value of JSON, whose names must be strings."""
    # The encoder would write 1 as "1", which may be there too.
    inner: Iterable[object] = value if isinstance(value, list | tuple) else ()
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise InvalidArgumentError("has a name that is not a string", field=where)
        inner = value.values()
    for one in inner:
        _named(one, where)
    return value


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, Wire):
        return value.to_wire()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, BaseModel):
        data: dict[str, Any] = value.model_dump(mode="json", by_alias=True)
        text = json.dumps(data)
        if any(mask in text for mask in _MASKS):
            raise InvalidArgumentError(
                f"holds a secret in {type(value).__name__}, and pydantic writes its mask in place "
                "of it: give the field a serializer that returns the text"
            )
        return data
    raise TypeError


_MASKS: Final = (f'"{MASK}"', f"\"b'{MASK}'\"")  # of pydantic's SecretStr and SecretBytes

# Made once: `json.dumps` would make one for every body.
_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
)


def framing(method: str, length: int | None, content_type: str | None) -> RawHeaders:
    """Return the header fields about the body of a request (RFC 9112, 6)."""
    if content_type is None:  # a POST without a body says so (RFC 9110, 8.6)
        return [(b"Content-Length", b"0")] if method == "POST" else []
    media_type = (b"Content-Type", content_type.encode("latin-1"))
    if length is None:
        return [media_type, (b"Transfer-Encoding", b"chunked")]
    return [media_type, (b"Content-Length", b"%d" % length)]


def authorization(token: str) -> tuple[bytes, bytes]:
    return b"Authorization", b"Bearer " + token.encode("ascii")


def field_lines(fields: RawHeaders) -> bytes:
    lines = b""
    for name, value in fields:
        lines += name + b": " + value + b"\r\n"
    if not lines.count(b"\n") == lines.count(b"\r") == len(fields) or 0 in lines:
        raise httpx.LocalProtocolError("a line break in a header")
    return lines


def raw_headers(headers: Mapping[str, str]) -> RawHeaders:
    return [(name.encode("ascii"), text.encode("latin-1")) for name, text in headers.items()]


def replace_fields(fields: Iterable[tuple[bytes, bytes]], more: RawHeaders) -> RawHeaders:
    taken = {name.lower() for name, _ in more}
    return [field for field in fields if field[0].lower() not in taken] + more


def check_header_value(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigurationError("must be a string", setting=name)
    if not value:
        raise ConfigurationError("is empty", setting=name, hint="; None leaves the header out")
    is_plain = value.isascii() and value.isprintable() and " " not in value
    if is_plain or _HEADER_VALUE.fullmatch(value):  # looked at in C first: half the time
        return value
    raise ConfigurationError(
        "has white space around it, or holds a line break, a control character or a character "
        "outside Latin-1, which no header can carry",
        setting=name,
    )


def check_argument(name: str, value: object) -> str:
    try:
        return check_header_value(name, value)
    except ConfigurationError as error:
        raise InvalidArgumentError(error.problem, field=name) from None


def merge_headers(base: Mapping[str, str], headers: Any) -> Mapping[str, str]:
    """Merge headers, ignoring case; a value of None removes one header, None removes all."""
    if headers is None:
        return NO_VALUES
    if not isinstance(headers, Mapping):
        raise ConfigurationError("must be a mapping of names to values", setting="headers")
    merged = {name.lower(): (name, value) for name, value in base.items()}
    for name, value in headers.items():
        key = check_header_name(name)
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = (str.__str__(name), check_header_value(f"headers[{name!r}]", value))
    return MappingProxyType(dict(merged.values()))


@lru_cache(maxsize=64)  # an observer gives the same names to each attempt
def check_header_name(name: object) -> str:
    """Return a header's name in lower case, if the user may set it."""
    if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
        raise ConfigurationError(
            "holds a name that no header can have (RFC 9110, 5.1)", setting="headers"
        )
    reason = _NOT_IN_HEADERS.get(name.lower())
    if reason:
        raise ConfigurationError(f"must not set {name}: {reason}", setting="headers")
    return name.lower()
