"""Replies that refuse: the class, the outcome and the payload of the error, and its texts."""

import copy
import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gateway_sdk import (
    Advice,
    Attempt,
    ConflictError,
    ForbiddenError,
    GatewayError,
    InvalidRequestError,
    NotFoundError,
    Outcome,
    RateLimitedError,
    RedirectError,
    ServerError,
    StatusError,
    UnauthorizedError,
    UnexpectedReplyError,
    errors,
)
from gateway_sdk._http import reply_errors
from gateway_sdk._http.reply_errors import parse_retry_after
from gateway_sdk.models import ErrorPayload
from gateway_sdk.outcome import Repeatability
from tests.http.replying import JSON, read, replying
from tests.support.secrecy import CANARY, texts_of

KINDS: dict[int, type[StatusError]] = {
    400: InvalidRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    422: InvalidRequestError,
    429: RateLimitedError,
}
REFUSING = {*range(400, 500), 501, 505} - {408}
PAYLOAD = {
    "reason": CANARY + "-reason",
    "path": "/" + CANARY + "-echo",
    "method": "POST",
    "message": CANARY + "-message",
    "timestamp": "2026-11-21T00:00:00Z",
    "status": 500,
    "extra": CANARY + "-extra",
}


@pytest.mark.parametrize("status", [*range(100, 200, 33), *range(300, 610), 999])
async def test_status_picks_class_and_outcome(status: int) -> None:
    body, headers = json.dumps(PAYLOAD).encode(), {"retry-after": "17"}
    with pytest.raises(StatusError) as caught:
        await replying(body, status=status, headers=headers).aml.upload_document(b"x")

    error = caught.value
    if isinstance(error, RateLimitedError | ServerError):
        assert error.retry_after == 17.0
    by_hundred = {3: RedirectError, 5: ServerError}.get(status // 100, StatusError)
    assert type(error) is KINDS.get(status, by_hundred)
    assert error.outcome is (Outcome.REFUSED if status in REFUSING else Outcome.UNKNOWN)
    assert error.status == status
    assert str(status) in str(error)
    assert error.operation == "upload_document"
    assert (error.advice is not Advice.CHECK) is (error.outcome is Outcome.REFUSED)
    assert error.payload is not None
    assert error.payload.status == 500
    assert error.payload.message == CANARY + "-message"
    assert [attempt.status for attempt in error.attempts] == [status]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"", None),
        (b"Internal Server Error", None),
        (b"<html></html>", None),
        (b'{"message":', None),
        (b'["message"]', None),
        (b'"message"', None),
        (b"null", None),
        (b"5", None),
        (b"NaN", None),
        (b'{"message":NaN}', None),
        (b'{"message":"\\ud800"}', None),
        (b"[" * 100_000, None),
        (b"\xff\xfe", None),
        (b"{}", {}),
        (b'\xef\xbb\xbf{"message":"x"}', {"message": "x"}),
        ('{"message":"é"}'.encode("utf-16"), {"message": "é"}),
        (b'{"message":5,"status":"500","reason":"r"}', {"reason": "r"}),
        (b'{"message":null,"status":404.0}', {}),
        (b'{"status":200,"message":"no"}', {"status": 200, "message": "no"}),
        (b'{"Message":"x"}', {}),
    ],
)
@pytest.mark.parametrize("content_type", [JSON, "text/html", None])
async def test_payload_is_what_can_be_read(
    body: bytes, fields: dict[str, Any] | None, content_type: str | None
) -> None:
    """The payload is None if the body is no JSON object; else each readable field, and no other."""
    with pytest.raises(ServerError) as caught:
        await read(body, content_type, 500)

    error = caught.value
    assert error.body == body
    assert error.retry_after is None
    if fields is None:
        assert error.payload is None
    else:
        assert error.payload is not None
        known = {name: getattr(error.payload, name) for name in type(error.payload).model_fields}
        assert {name: value for name, value in known.items() if value is not None} == fields


@pytest.mark.parametrize(("body", "asks"), [(b"<p>no such page</p>", True), (b"{}", False)])
@pytest.mark.parametrize("status", [404, 405, 501])
async def test_what_another_server_says_of_a_path_asks_for_base_url(
    body: bytes, asks: bool, status: int
) -> None:
    with pytest.raises(StatusError) as caught:
        await read(body, None, status)

    assert ("; is base_url right?" in str(caught.value)) is asks


async def test_redirect_names_no_address() -> None:
    location = f"https://evil.test/{CANARY}"
    with pytest.raises(RedirectError, match=r"307 .*; redirects are never followed") as caught:
        await read(b"", None, 307, {"location": location})

    assert CANARY not in texts_of(caught.value)
    assert caught.value.headers["Location"] == location


# --- Retry-After ----------------------------------------------------------------------------

NOW = datetime(2026, 10, 30, 12, tzinfo=UTC)
TEN_YEARS = 10 * 365 * 86400.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 7 ", 7.0),
        ("1.5", 1.5),
        ("Fri, 30 Oct 2026 12:01:00 GMT", 60.0),
        ("Friday, 30-Oct-26 12:01:00 GMT", 60.0),
        ("Fri Oct 30 12:01:00 2026", 60.0),
        ("Fri, 30 Oct 2026 14:01:00 +0200", 60.0),
        ("Fri, 30 Oct 2026 11:00:00 GMT", 0.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("2026-10-30T12:01:00Z", 60.0),
        ("1, 3,2", 3.0),
        ("7, Fri, 30 Oct 2026 12:01:00 GMT", 60.0),
        ("", None),
        (" , ", None),
        ("-1", None),
        ("9" * 11, TEN_YEARS),
        ("9" * 400, TEN_YEARS),
        ("soon", 1.0),
        ("1e3", 1.0),
        ("0x10", 1.0),
        ("\u0663", 1.0),
        ("NaN", 1.0),
        ("Infinity", 1.0),
        ("Fri, 32 Oct 2026 12:00:00 GMT", 1.0),
        ("Fri, 30 Oct 99999999999999999999 12:00:00 GMT", 1.0),
        ("Fri, 30 Oct 2026 99999999999999999999:00:00 GMT", 1.0),
        ("Fri, 30 Oct 2026 12:00:00 +99999999999999", 1.0),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    """Seconds and all forms of a date; of several the longest counts, and nonsense is a second."""
    assert parse_retry_after(value, NOW) == seconds


@pytest.mark.parametrize("ahead", [-3600, 0, 3600])
@pytest.mark.parametrize("date", [format_datetime(NOW, usegmt=True), "", "yesterday", "0"])
async def test_a_date_to_retry_after_is_measured_by_the_clock_that_gave_it(
    monkeypatch: pytest.MonkeyPatch, ahead: int, date: str
) -> None:
    """By the reply's own Date, however wrong our clock is; by ours if it has none."""

    class Clock(datetime):
        @classmethod
        def now(cls, _: object = None) -> datetime:  # type: ignore[override]
            return NOW + timedelta(seconds=ahead)

    monkeypatch.setattr(reply_errors, "datetime", Clock)
    wait = format_datetime(NOW + timedelta(seconds=5), usegmt=True)
    with pytest.raises(RateLimitedError) as caught:
        await read(b"", status=429, headers={"retry-after": wait, "date": date})

    is_known = len(date) > len("yesterday")
    assert caught.value.retry_after == (5.0 if is_known else max(0.0, 5.0 - ahead))


@settings(max_examples=settings().max_examples // 2)
@given(
    st.one_of(
        st.text(max_size=30),
        st.from_regex(
            r"[A-Z][a-z]{2}, \d{1,25} (Jan|Oct) \d{1,25} \d{1,25}:\d{1,25}:\d{1,25} GMT",
            fullmatch=True,
        ),
        st.from_regex(r"Fri, 30 Oct 2026 12:00:00 [+-]\d{1,25}", fullmatch=True),
    )
)
def test_any_retry_after_is_seconds_or_none(value: str) -> None:
    seconds = parse_retry_after(value, NOW)

    assert seconds is None or seconds >= 0


# --- errors as they are shown and stored ----------------------------------------------------


def _example(kind: type[GatewayError]) -> GatewayError:
    if issubclass(kind, StatusError | UnexpectedReplyError):
        error = kind("message", status=500, body=CANARY.encode(), headers={"x": CANARY})
        for name, value in {
            "payload": ErrorPayload.model_validate(PAYLOAD),
            "problems": CANARY,
            "retry_after": 17.0,
        }.items():
            if hasattr(kind, name):
                setattr(error, name, value)
        return error
    other = kind("message")
    if isinstance(other, errors.LoginTimeoutError):
        other.refused = 2
    return other


ALL_ERRORS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, GatewayError) and kind.__name__[0] != "_"
]


@pytest.mark.parametrize("kind", ALL_ERRORS)
def test_every_class_of_error_is_pickled_without_its_reply(kind: type[GatewayError]) -> None:
    attempt = Attempt(Outcome.UNKNOWN, 503, "ServerError", 0.5)
    error = _example(kind).of_call("upload_document", Repeatability.ONCE, (attempt,))

    twin = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own

    assert type(twin) is kind
    assert str(twin) == twin.summary == error.summary  # the reason is not there any more
    assert CANARY.encode() not in pickle.dumps(error)
    for name in ("args", "attempts", "outcome", "repeatability", "advice"):
        assert getattr(twin, name) == getattr(error, name)
    for name in ("status", "retry_after", "refused"):
        assert getattr(twin, name, None) == getattr(error, name, None)
    for advice in Advice:
        error = _example(kind).of_call("order_history", Repeatability.READ, ())
        error.advice = advice
        assert pickle.loads(pickle.dumps(error)).advice is advice  # noqa: S301 - our own


@pytest.mark.parametrize("kind", ALL_ERRORS)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_copy_in_the_same_process_has_every_attribute(
    kind: type[GatewayError], duplicate: Callable[[GatewayError], GatewayError]
) -> None:
    """Also what the gateway said: `dataclasses.asdict` of a bulk result makes a deep copy."""
    error = _example(kind).of_call("upload_document", Repeatability.ONCE, ())
    error.add_note("of all callers")

    twin = duplicate(error)

    assert type(twin) is kind
    assert twin is not error
    assert (twin.args, vars(twin)) == (error.args, vars(error))
    twin.add_note("of one caller")
    assert error.__notes__ == ["of all callers"]


async def test_oversized_error_keeps_its_class() -> None:
    body = b'{"message":"' + b"a" * 5000 + b'"}'

    with pytest.raises(ConflictError) as caught:
        await read(body, status=409, max_reply_bytes=100)

    assert caught.value.body == body[:100]
    assert caught.value.payload is None
    assert "; the body is larger than max_reply_bytes (100)" in str(caught.value)
