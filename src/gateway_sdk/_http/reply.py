"""Read a reply: return its value, or raise its error. No I/O here."""

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
_REFUSING_4XX: Final = frozenset(range(400, 500)) - {408}  # 408: misused by proxies
_REFUSING_5XX: Final = frozenset({501, 505})  # the request was not understood
_WANTS_CREDENTIALS: Final = 407
_NEVER_HANDED_ON: Final = frozenset({_WANTS_CREDENTIALS, 429})  # also if a proxy answers


@dataclass(slots=True, eq=False)
class RawReply:
    """A reply as it arrived: decompressed, not decoded.

    Attributes:
        problem: What is wrong with the body, as the end of a sentence; None if it is good.
        forwarded: Whether the request went through a forwarding proxy, which may have answered.
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
    """Return the value of a successful reply, or raise the error of another one.

    Args:
        operation: Its `reply` says what the interface promises.
        reply: The raw reply.
        into: A type to validate the JSON into; None for the type that the interface promises.
        parse_float: Converts the text of a number that has a fraction or an exponent.

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
        # In a type of the user's, names of fields may be data, such as the keys of a dictionary.
        problems = describe(error)
        shown = problems if into is None else "see error.problems"
        raise _unexpected(reply, f"does not fit: {shown}", problems=problems) from None


def _decode(reply: RawReply, wanted: Any, parse_float: ParseFloat | None) -> Any:
    """Decode a successful body into the wanted type."""
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
        decode_json(data, None)  # pydantic accepts such numbers where a type is open
    return _adapter(wanted).validate_json(data)


def _decode_unspecified(
    body: bytes, essence: str, charset: str | None, parse_float: ParseFloat | None
) -> Any:
    """Decode a body that the interface leaves open, by its Content-Type."""
    if not body.strip():
        return None
    if is_json(essence):
        return decode_json(utf8_json(body, charset), parse_float)
    if essence.startswith("text/"):
        return decode_text(body, charset)
    if not essence:
        # Interface: Endpoints. Everything is JSON unless stated; a reply may lack the type.
        with suppress(ContentError):
            return decode_json(utf8_json(body, charset), parse_float)
    return body


def check_type(into: Any) -> None:
    """Make sure that a body can be validated into a type.

    Raises:
        InvalidArgumentError: pydantic cannot make a validator of it.
    """
    try:
        _adapter(into).rebuild(raise_errors=True)  # raises for undefined names
    except (NameError, PydanticUserError, TypeError) as error:
        raise InvalidArgumentError("into must be a type that pydantic can validate") from error


def _adapter(wanted: Any) -> TypeAdapter[Any]:
    try:
        return _kept_adapter(wanted)
    except TypeError:  # not hashable, such as Annotated with a list
        return TypeAdapter(wanted)


@lru_cache(maxsize=256)
def _kept_adapter(wanted: Any) -> TypeAdapter[Any]:
    return TypeAdapter(wanted)


def _unexpected(reply: RawReply, problem: str, *, problems: str) -> UnexpectedReplyError:
    """Return the error for a successful reply whose body cannot be used.

    Its outcome is APPLIED, except for a web page, which does not come from the gateway.
    """
    error = UnexpectedReplyError(
        f"the gateway answered {_phrase(reply.status)}, but the body {problem}",
        status=reply.status,
        body=reply.body,
        headers=reply.headers,
    )
    error.problems = problems
    error.outcome = outcome_of_head(reply.status, reply.headers)
    return error


def cut_reply(reply: RawReply, what: str) -> GatewayError:
    """Return the error for a reply whose body broke off; the status decides which.

    Args:
        reply: The part of the reply that arrived.
        what: What broke it off.
    """
    if reply.status not in _SUCCESS:
        return _status_error(reply, f"; the body broke off: {what}")
    lost = ReplyLostError(f"the reply broke off after its head: {what}", status=reply.status)
    lost.outcome = outcome_of_head(reply.status, reply.headers)
    return lost


def _status_error(reply: RawReply, more: str = "") -> StatusError:
    """Return the error for a status that is not 2xx; only the status decides its class."""
    kind = _KINDS.get(reply.status) or _KINDS_BY_HUNDRED.get(reply.status // 100, StatusError)
    hint = _pointing_to(field_of(reply.headers, b"location")) if kind is RedirectError else ""
    payload = _payload(reply)
    # A proxy answers with a web page or an empty body.
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


def outcome_of_head(
    status: int, headers: httpx.Headers | None, *, doubtful: bool = False
) -> Outcome:
    """Return the outcome that the head of a reply proves.

    Args:
        status: The status of the reply.
        headers: Its headers, or None where only the status is known.
        doubtful: As in `outcome_of_status`.
    """
    page = headers is not None and media_type(field_of(headers, b"content-type"))[0] in _HTML
    if page and status in _SUCCESS:
        return Outcome.UNKNOWN  # a proxy or a portal answered, not the gateway
    return outcome_of_status(status, doubtful=doubtful)


def outcome_of_status(status: int, *, doubtful: bool = False) -> Outcome:
    """Return the outcome that a status proves.

    Args:
        status: The status of the reply.
        doubtful: Whether a proxy may have made the reply. The proxy may have forwarded the
            request before, and then refused the gateway's answer.
    """
    if status in _SUCCESS:
        return Outcome.APPLIED
    if status not in _REFUSING_4XX and status not in _REFUSING_5XX:
        return Outcome.UNKNOWN
    return Outcome.UNKNOWN if doubtful and status not in _NEVER_HANDED_ON else Outcome.REFUSED


def _author(status: int, *, doubtful: bool) -> str:
    """Say who answered, as far as this is known."""
    if not doubtful:
        return "the gateway answered"
    if status == _WANTS_CREDENTIALS:
        return "the proxy wants a user name and a password in its address: it answered"
    return "the gateway, or the proxy on the way to it, answered"


def _payload(reply: RawReply) -> ErrorPayload | None:
    """Read the gateway's error record; None if the body is not a JSON object."""
    # Interface: Errors 1
    _, charset = media_type(field_of(reply.headers, b"content-type"))
    try:
        return ErrorPayload.model_validate(decode_json(utf8_json(reply.body, charset), None))
    except (ContentError, ValidationError):
        return None


def _phrase(status: int) -> str:
    """Return the status with its standard phrase; the phrase of the reply could be any text."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _pointing_to(location: str) -> str:
    """Name the host that a redirect points to, without the rest of the address."""
    try:
        host = urlsplit(location).hostname
    except ValueError:
        host = None
    return f", pointing to {host or 'itself'}: redirects are never followed"


def parse_retry_after(value: str, now: datetime) -> float | None:
    """Return the seconds that a Retry-After asks for (RFC 9110, 10.2.3).

    Returns:
        0 for a date in the past; None if the header is absent or invalid.
    """
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    try:
        date = parsedate_to_datetime(value)
        return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds())
    except (OverflowError, TypeError, ValueError):
        return None
