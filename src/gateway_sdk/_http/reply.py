"""Read a reply: the value it brings, or the error it stands for. No I/O here."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
from pydantic import PydanticUserError, TypeAdapter, ValidationError

from gateway_sdk._http.content import (
    ContentError,
    ParseFloat,
    decode_json,
    decode_text,
    is_json,
    may_exceed_floats,
    media_type,
    utf8_json,
)
from gateway_sdk._http.headers import field_of
from gateway_sdk._http.request import describe
from gateway_sdk.errors import (
    ConflictError,
    ForbiddenError,
    GatewayError,
    InvalidArgumentError,
    InvalidRequestError,
    NotFoundError,
    RateLimitedError,
    RedirectError,
    ReplyLostError,
    ServerError,
    StatusError,
    UnauthorizedError,
    UnexpectedReplyError,
)
from gateway_sdk.models import ErrorPayload
from gateway_sdk.operations import Operation
from gateway_sdk.outcome import Outcome

_SECONDS: Final = re.compile(r"[0-9]{1,10}(\.[0-9]{1,10})?")
_SUCCESS: Final = range(200, 300)
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_KINDS: Final[Mapping[int, type[StatusError]]] = {
    400: InvalidRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    422: InvalidRequestError,
    429: RateLimitedError,
}
_KINDS_BY_HUNDRED: Final = {3: RedirectError, 5: ServerError}
_REFUSING_4XX: Final = frozenset(range(400, 500)) - {408}  # which intermediaries misuse
_REFUSING_5XX: Final = frozenset({501, 505})  # the request was not even understood
_WANTS_CREDENTIALS: Final = 407
_NEVER_HANDED_ON: Final = frozenset({_WANTS_CREDENTIALS, 429})  # whether a proxy sent it or not


@dataclass(slots=True, eq=False)
class RawReply:
    """A reply as it came: decompressed, not decoded.

    Attributes:
        problem: What is wrong with the body, as the end of a sentence; None if nothing is.
        forwarded: Whether a proxy handed the request on, so that the reply may be its own.
    """

    status: int
    headers: httpx.Headers
    body: bytes
    problem: str | None
    forwarded: bool = False


def read_reply(
    operation: Operation[Any],
    reply: RawReply,
    *,
    into: Any = None,
    parse_float: ParseFloat | None = None,
) -> Any:
    """Return the value of a successful reply, or raise the error that it stands for.

    Args:
        operation: Its `reply` says what the interface promises.
        reply: What came.
        into: A type to validate the JSON into; None for what the interface promises.
        parse_float: Makes a number of the text of one with a fraction or an exponent.

    Raises:
        StatusError: the status is not 2xx.
        UnexpectedReplyError: the body is not what the interface promises.
    """
    # Interface: Endpoints; Errors
    if reply.status not in _SUCCESS:
        raise _status_error(reply)
    try:
        return _decode(reply, operation.reply if into is None else into, parse_float)
    except ContentError as error:
        raise _unexpected(reply, str(error), problems="") from None
    except ValidationError as error:
        # Of a type of the user's own the fields may be named after data: a dictionary's keys.
        problems = describe(error)
        shown = problems if into is None else "see error.problems"
        raise _unexpected(reply, f"does not fit: {shown}", problems=problems) from None


def _decode(reply: RawReply, wanted: Any, parse_float: ParseFloat | None) -> Any:
    """Decode a successful body into what is wanted."""
    essence, charset = media_type(field_of(reply.headers, b"content-type"))
    if essence in _HTML:
        raise ContentError("is a web page: a proxy or a portal answered, not the gateway")
    if wanted is None:
        return None
    if reply.problem is not None:
        raise ContentError(reply.problem)
    if wanted is Any:
        return _decode_unspecified(reply.body, essence, charset, parse_float)
    data = utf8_json(reply.body, charset)
    if b"NaN" in data or b"Infinity" in data or may_exceed_floats(data):
        decode_json(data, None)  # pydantic would let them through where a type is open
    return _adapter(wanted).validate_json(data)


def _decode_unspecified(
    body: bytes, essence: str, charset: str | None, parse_float: ParseFloat | None
) -> Any:
    """Decode a body that the interface leaves open by what it declares itself to be."""
    if not body.strip():
        return None
    if is_json(essence):
        return decode_json(utf8_json(body, charset), parse_float)
    if essence.startswith("text/"):
        return decode_text(body, charset)
    if not essence:
        # Interface: Endpoints. Everything is JSON unless stated; a reply may forget to say so.
        with suppress(ContentError):
            return decode_json(utf8_json(body, charset), parse_float)
    return body


def check_type(into: Any) -> None:
    """Make sure that a body can be validated into a type.

    Raises:
        InvalidArgumentError: pydantic cannot make a validator of it.
    """
    try:
        _adapter(into).rebuild(raise_errors=True)  # names that are not defined show up here
    except (NameError, PydanticUserError, TypeError) as error:
        raise InvalidArgumentError("into must be a type that pydantic can validate") from error


def _adapter(wanted: Any) -> TypeAdapter[Any]:
    try:
        return _kept_adapter(wanted)
    except TypeError:  # not hashable, as Annotated with a list
        return TypeAdapter(wanted)


@lru_cache(maxsize=256)
def _kept_adapter(wanted: Any) -> TypeAdapter[Any]:
    return TypeAdapter(wanted)


def _unexpected(reply: RawReply, problem: str, *, problems: str) -> UnexpectedReplyError:
    """Make the error for a success whose body cannot be used: a success it remains.

    Unless a web page came back: then it was not the gateway that answered.
    """
    essence, _ = media_type(field_of(reply.headers, b"content-type"))
    error = UnexpectedReplyError(
        f"the gateway answered {_phrase(reply.status)}, but the body {problem}",
        status=reply.status,
        body=reply.body,
        headers=reply.headers,
    )
    error.problems = problems
    error.outcome = Outcome.UNKNOWN if essence in _HTML else Outcome.APPLIED
    return error


def cut_reply(reply: RawReply, what: str) -> GatewayError:
    """Make the error for a reply whose body broke off: the status has come, and it decides.

    Args:
        reply: As much of it as came.
        what: What cut it.
    """
    if reply.status not in _SUCCESS:
        return _status_error(reply, f"; the body broke off: {what}")
    lost = ReplyLostError(f"the reply broke off after its head: {what}", status=reply.status)
    lost.outcome = outcome_of_status(reply.status)
    return lost


def _status_error(reply: RawReply, more: str = "") -> StatusError:
    """Make the error for a status that is not 2xx; the body has no say in its class."""
    kind = _KINDS.get(reply.status) or _KINDS_BY_HUNDRED.get(reply.status // 100, StatusError)
    hint = _pointing_to(field_of(reply.headers, b"location")) if kind is RedirectError else ""
    payload = _payload(reply)
    # A proxy writes web pages, or nothing.
    doubtful = reply.forwarded and payload is None
    error = kind(
        f"{_author(reply.status, doubtful=doubtful)} {_phrase(reply.status)}{hint}{more}",
        status=reply.status,
        body=reply.body,
        headers=reply.headers,
    )
    error.payload = payload
    wait = field_of(reply.headers, b"retry-after")
    error.retry_after = parse_retry_after(wait, datetime.now(UTC))
    error.outcome = outcome_of_status(reply.status, doubtful=doubtful)
    return error


def outcome_of_status(status: int, *, doubtful: bool = False) -> Outcome:
    """Tell what a status alone proves.

    Args:
        status: Of the reply.
        doubtful: Whether a proxy may have made the reply. It may have handed the request on
            before, and then refused to pass on what the gateway answered.
    """
    if status in _SUCCESS:
        return Outcome.APPLIED
    if status not in _REFUSING_4XX and status not in _REFUSING_5XX:
        return Outcome.UNKNOWN
    return Outcome.UNKNOWN if doubtful and status not in _NEVER_HANDED_ON else Outcome.REFUSED


def _author(status: int, *, doubtful: bool) -> str:
    """Say who answered, as far as that is known."""
    if not doubtful:
        return "the gateway answered"
    if status == _WANTS_CREDENTIALS:
        return "the proxy wants a user name and a password in its address: it answered"
    return "the gateway, or the proxy on the way to it, answered"


def _payload(reply: RawReply) -> ErrorPayload | None:
    """Read the gateway's own words; None if the body is no JSON object."""
    # Interface: Errors 1
    _, charset = media_type(field_of(reply.headers, b"content-type"))
    try:
        return ErrorPayload.model_validate(decode_json(utf8_json(reply.body, charset), None))
    except (ContentError, ValidationError):
        return None


def _phrase(status: int) -> str:
    """Return the status with its standard phrase; the phrase on the wire is somebody's text."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _pointing_to(location: str) -> str:
    """Name the host that a redirect points to, and no more of the address."""
    try:
        host = urlsplit(location).hostname
    except ValueError:
        host = None
    return f", pointing to {host or 'itself'}: redirects are never followed"


def parse_retry_after(value: str, now: datetime) -> float | None:
    """Return the seconds that a Retry-After asks for (RFC 9110, 10.2.3), a date in the past as 0.

    None if the header is absent or makes no sense.
    """
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    try:
        date = parsedate_to_datetime(value)
        return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds())
    except (OverflowError, TypeError, ValueError):
        return None
