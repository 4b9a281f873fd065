"""What is wrong with a reply: its error, and the outcome that it proves. No I/O here."""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Final

import httpx
from pydantic import ValidationError

from gateway_sdk import errors, models
from gateway_sdk._http.reply import (
    HTML,
    SUCCESS,
    ContentError,
    RawReply,
    decode_json,
    is_web_page,
    media_type,
    utf8_json,
)
from gateway_sdk._http.request import ARGUMENTS
from gateway_sdk.errors._base import PATH
from gateway_sdk.outcome import Outcome

_SECONDS: Final = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)
_NO_WAIT: Final = re.compile(
    r"-[0-9.]+|(mon|tue|wed|thu|fri|sat|sun)[a-z]*", re.ASCII | re.IGNORECASE
)
_LONGEST_WAIT: Final = 10 * 365 * 86400.0  # seconds
_UNREADABLE_WAIT: Final = 1.0  # second: a wait was asked for
_LONGEST_MESSAGE: Final = 1000  # characters of a message in which names are looked for
_OTHER_FIELDS: Final = frozenset({"revisions", "tenantId", *ARGUMENTS})
_KINDS: Final[Mapping[int, type[errors.StatusError]]] = {
    400: errors.InvalidRequestError,
    401: errors.UnauthorizedError,
    403: errors.ForbiddenError,
    404: errors.NotFoundError,
    409: errors.ConflictError,
    422: errors.InvalidRequestError,
    429: errors.RateLimitedError,
}
_KINDS_BY_HUNDRED: Final = {3: errors.RedirectError, 5: errors.ServerError}
_NO_SUCH_PATH: Final = frozenset({404, 405, 501})  # also of a server that is no gateway
# Proxies misuse 408. With 501 and 505 the request was not understood.
_REFUSING: Final = frozenset({*range(400, 500), 501, 505}) - {408}
_WANTS_CREDENTIALS: Final = 407
_NEVER_HANDED_ON: Final = frozenset({_WANTS_CREDENTIALS, 429})  # also if a proxy answers


# In a type of the user, not *by_interface*, names of fields may be data, such as the keys of a
# dictionary, so the message does not show them.
def unexpected_reply(
    reply: RawReply, problem: ContentError | ValidationError, *, by_interface: bool
) -> errors.UnexpectedReplyError:
    # Its outcome is APPLIED, except for a web page, which does not come from the gateway.
    problems = ""
    if isinstance(problem, ValidationError):
        from gateway_sdk.models._base import describe  # noqa: PLC0415 - few replies are wrong

        problems = describe(problem)
    shown = problems if by_interface else "see error.problems"
    error = errors.UnexpectedReplyError(
        f"the gateway answered {_phrase(reply.status)}, but the body "
        f"{f'does not fit: {shown}' if problems else problem}",
        status=reply.status,
        body=reply.body,
        headers=reply.headers,
    )
    error.problems = problems
    error.outcome = outcome_of_reply(reply)
    return error


def cut_reply(reply: RawReply, what: str, kind: type[errors.ReplyLostError]) -> errors.GatewayError:
    """Return the error for a reply whose body broke off; the status decides which."""
    if reply.status not in SUCCESS:
        return status_error(reply, f"; the body broke off: {what}")
    lost = kind(f"the reply broke off after its head: {what}")
    lost.status, lost.outcome = reply.status, outcome_of_reply(reply, is_whole=False)
    return lost


def status_error(reply: RawReply, more: str = "") -> errors.StatusError:
    by_hundred = _KINDS_BY_HUNDRED.get(reply.status // 100, errors.StatusError)
    kind = _KINDS.get(reply.status, by_hundred)
    hint = "; redirects are never followed" if kind is errors.RedirectError else ""
    payload = _payload(reply)
    problem = f"; the body {reply.problem}" if reply.problem else ""
    # A proxy answers with a web page or an empty body.
    doubtful = reply.forwarded and payload is None
    error = kind(
        f"{_author(reply.status, doubtful=doubtful)} {_phrase(reply.status)}"
        f"{_fields_in(payload)}{hint}{problem}{more}",
        status=reply.status,
        body=reply.body,
        headers=reply.headers,
    )
    error.payload = payload
    if reply.status in _NO_SUCH_PATH and payload is None and not doubtful:
        error.hints = PATH
    wait = reply.index.get(b"retry-after", b"").decode("latin-1")
    error.retry_after = parse_retry_after(wait, _now(reply.index.get(b"date", b"")))
    error.outcome = outcome_of_status(reply.status, doubtful=doubtful)
    return error


def token_rejected(error: errors.UnauthorizedError) -> errors.TokenRejectedError:
    again = errors.TokenRejectedError(
        "the gateway answered 401 Unauthorized, also with a new access token", status=error.status
    )
    vars(again).update(vars(error))
    return again


# The words of the gateway may hold personal data. The names of the interface's fields do not.
def _fields_in(payload: "models.ErrorPayload | None") -> str:
    if payload is None or not payload.message:
        return ""
    # Such as "$.base" or "startDate"; "base" alone may be a word of the sentence.
    words = re.findall(r"[$]\.[\w.]+|\w+", payload.message[:_LONGEST_MESSAGE])
    known = _fields()
    names = [word[2:] for word in words if word.startswith("$.")]
    names += [word for word in words if not word.islower()]
    named = dict.fromkeys(name for name in names if known.issuperset(name.split(".")))
    return f" about {', '.join(named)}" if named else ""


@lru_cache
def _fields() -> frozenset[str]:
    """Return the interface's names of what a request may have."""
    from gateway_sdk.models import _base, customer, records  # noqa: PLC0415 - after an error only

    found = [*vars(customer).values(), *vars(records).values()]
    kinds = [one for one in found if isinstance(one, type) and issubclass(one, _base.RequestModel)]
    fields = (field for kind in kinds for field in kind.model_fields.values())
    return frozenset(str(field.serialization_alias) for field in fields) | _OTHER_FIELDS


def outcome_of_reply(reply: RawReply, *, is_whole: bool = True, doubtful: bool = False) -> Outcome:
    """Return the outcome that a reply proves; the body of one that is not whole may be missing."""
    essence, _ = media_type(reply.index.get(b"content-type", b""))
    may_be_page = not is_whole and essence in HTML
    if reply.status in SUCCESS and (may_be_page or is_web_page(essence, reply.body)):
        return Outcome.UNKNOWN  # a proxy or a portal answered, not the gateway
    return outcome_of_status(reply.status, doubtful=doubtful)


# A *doubtful* reply may be that of a proxy, which may have forwarded the request before, and then
# refused the answer of the gateway.
def outcome_of_status(status: int, *, doubtful: bool = False) -> Outcome:
    if status in SUCCESS:
        return Outcome.APPLIED
    if status not in _REFUSING:
        return Outcome.UNKNOWN
    return Outcome.UNKNOWN if doubtful and status not in _NEVER_HANDED_ON else Outcome.REFUSED


def _author(status: int, *, doubtful: bool) -> str:
    if not doubtful:
        return "the gateway answered"
    if status == _WANTS_CREDENTIALS:
        return "the proxy wants a user name and a password in its address: it answered"
    return "the gateway, or the proxy on the way to it, answered"


def _payload(reply: RawReply) -> "models.ErrorPayload | None":
    # Interface: Errors 1
    _, charset = media_type(reply.index.get(b"content-type", b""))
    try:
        found = decode_json(utf8_json(reply.body, charset), None)
        return models.ErrorPayload.model_validate(found)
    except (ContentError, ValidationError):
        return None


def _phrase(status: int) -> str:
    """Return the status with its standard phrase; the phrase of the reply could be any text."""
    return f"{status} {httpx.codes.get_reason_phrase(status)}".rstrip()


def _now(date: bytes) -> datetime:
    """Return the time by the clock that made the reply; by ours if it does not tell."""
    with suppress(OverflowError, TypeError, ValueError):
        now = parsedate_to_datetime(date.decode("latin-1"))
        return now.replace(tzinfo=now.tzinfo or UTC)
    return datetime.now(UTC)


def parse_retry_after(value: str, now: datetime) -> float | None:
    """Return the seconds that a Retry-After asks for (RFC 9110, 10.2.3)."""
    # A field that is there twice has both values, joined by a comma, which dates have too.
    waits = [_wait(part.strip(), now) for part in value.split(",")]
    return max((wait for wait in waits if wait is not None), default=None)


def _wait(text: str, now: datetime) -> float | None:
    if not text or _NO_WAIT.fullmatch(text):
        return None
    if _SECONDS.fullmatch(text):
        return min(float(text), _LONGEST_WAIT)
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        with suppress(OverflowError, TypeError, ValueError):
            date = parse(text)
            return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds())
    return _UNREADABLE_WAIT
