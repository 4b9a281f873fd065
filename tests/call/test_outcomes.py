"""What became of a call: every operation against every way to fail, also in mid-reply."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from gateway_sdk import (
    Advice,
    ConflictError,
    ConnectionFailedError,
    DeadlineExceededError,
    ForbiddenError,
    GatewayError,
    InvalidRequestError,
    NotFoundError,
    Outcome,
    RateLimitedError,
    RedirectError,
    Repeatability,
    ReplyLostError,
    ReplyTimeoutError,
    ServerError,
    StatusError,
    TokenRejectedError,
    UnauthorizedError,
)
from gateway_sdk.operations import OPERATIONS, Operation
from tests.interface_table import REPEATABILITY
from tests.support.calls import CALLS, pass_deadlines
from tests.support.scripted import Step, scripted, status

ALL = {Repeatability.READ, Repeatability.IDEMPOTENT, Repeatability.ONCE}
HARMLESS = {Repeatability.READ, Repeatability.IDEMPOTENT}
READS = {Repeatability.READ}
NOTHING: set[Repeatability] = set()

NOT_SENT, REFUSED, UNKNOWN, APPLIED = Outcome

ZIPPED = bytes.fromhex("1f8b08000000000002ff")
"""The head of a gzip file, and nothing of what it holds."""


class Broken(httpx.AsyncByteStream):
    def __init__(self, body: bytes, error: Exception) -> None:
        self._body = body
        self._error = error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body
        raise self._error


def cut(
    status: int, body: bytes = b'{"mess', error: Exception | None = None, **headers: str
) -> Step:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    broken = Broken(body, error or httpx.ReadError("CANARY"))
    return lambda _: httpx.Response(status, headers=fields, stream=broken)


STATUSES: dict[int, tuple[type[GatewayError], Outcome, set[Repeatability]]] = {
    302: (RedirectError, UNKNOWN, NOTHING),
    400: (InvalidRequestError, REFUSED, NOTHING),
    401: (UnauthorizedError, REFUSED, NOTHING),
    403: (ForbiddenError, REFUSED, NOTHING),
    404: (NotFoundError, REFUSED, NOTHING),
    408: (StatusError, UNKNOWN, HARMLESS),
    409: (ConflictError, REFUSED, NOTHING),
    418: (StatusError, REFUSED, NOTHING),
    422: (InvalidRequestError, REFUSED, NOTHING),
    429: (RateLimitedError, REFUSED, ALL),
    500: (ServerError, UNKNOWN, HARMLESS),
    501: (ServerError, REFUSED, NOTHING),
    502: (ServerError, UNKNOWN, HARMLESS),
    503: (ServerError, UNKNOWN, HARMLESS),
    504: (ServerError, UNKNOWN, HARMLESS),
    505: (ServerError, REFUSED, NOTHING),
    507: (ServerError, UNKNOWN, NOTHING),
}
FAILURES: dict[str, tuple[Step, type[GatewayError], Outcome, set[Repeatability]]] = {
    "connection refused": (httpx.ConnectError("-"), ConnectionFailedError, NOT_SENT, ALL),
    "no free connection": (httpx.PoolTimeout("-"), ConnectionFailedError, NOT_SENT, ALL),
    "proxy refuses": (httpx.ProxyError("-"), ConnectionFailedError, NOT_SENT, ALL),
    "read time-out": (httpx.ReadTimeout("-"), ReplyTimeoutError, UNKNOWN, HARMLESS),
    "write time-out": (httpx.WriteTimeout("-"), ReplyTimeoutError, UNKNOWN, HARMLESS),
    "connection reset": (httpx.ReadError("-"), ReplyLostError, UNKNOWN, HARMLESS),
    "hung up": (httpx.RemoteProtocolError("-"), ReplyLostError, UNKNOWN, HARMLESS),
    "200, cut": (cut(200), ReplyLostError, APPLIED, READS),
    **{f"{code}, cut": (cut(code), *row) for code, row in STATUSES.items()},
    **{f"{code}": (status(code), *row) for code, row in STATUSES.items()},
}

PASSES_LATER = {"507": HARMLESS, "507, cut": HARMLESS}
"""What the SDK does not repeat within seconds, and a queue may repeat later."""


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_a_failure_is_repeated_only_where_that_is_harmless(
    monkeypatch: pytest.MonkeyPatch, operation: Operation[Any], failure: str
) -> None:
    step, kind, outcome, repeated = FAILURES[failure]
    gateway, engine, waits = scripted(monkeypatch, step)

    with pytest.raises(kind) as caught:
        await CALLS[operation.name](gateway)

    requests = 3 if REPEATABILITY[operation.name] in repeated else 1
    error = caught.value
    assert type(error) is kind
    assert len(engine.requests) == requests
    assert len(waits) == requests - 1
    assert error.operation == operation.name
    assert error.outcome is outcome
    assert [attempt.outcome for attempt in error.attempts] == [outcome] * requests
    doubt = {
        Repeatability.READ: (),
        Repeatability.IDEMPOTENT: (APPLIED,),
        Repeatability.ONCE: (UNKNOWN, APPLIED),
    }
    assert (error.advice is Advice.CHECK) is (outcome in doubt[REPEATABILITY[operation.name]])
    also_later = PASSES_LATER.get(failure, NOTHING)
    assert (error.advice is Advice.REPEAT) == (
        REPEATABILITY[operation.name] in repeated | also_later
    )


@pytest.mark.parametrize(
    ("name", "steps", "kind", "outcome", "safe"),
    [
        # The first cancellation may have worked: that there is no such order proves nothing.
        ("cancel_order", [httpx.ReadError("-"), status(404)], NotFoundError, UNKNOWN, True),
        # A read changes nothing: only its last attempt counts.
        ("order_history", [httpx.ReadError("-"), status(404)], NotFoundError, REFUSED, True),
        ("create_customer", [status(429), httpx.ReadError("-")], ReplyLostError, UNKNOWN, False),
        ("create_customer", [httpx.ConnectError("-"), status(400)], InvalidRequestError, REFUSED,
         True),
        ("update_document", [cut(500), status(400)], InvalidRequestError, UNKNOWN, True),
    ],
)  # fmt: skip
async def test_the_outcome_is_that_of_the_whole_call(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    steps: list[Step],
    kind: type[GatewayError],
    outcome: Outcome,
    safe: bool,
) -> None:
    gateway, _, _ = scripted(monkeypatch, *steps)

    with pytest.raises(kind) as caught:
        await CALLS[name](gateway)

    assert caught.value.outcome is outcome
    assert (caught.value.advice is not Advice.CHECK) is safe


LATE = httpx.ReadTimeout("CANARY")
ODD = httpx.RemoteProtocolError("CANARY")


async def renewed(rejected: object = None) -> str:
    return "second" if rejected else "first"


CUT: dict[str, tuple[Step, type[GatewayError], Outcome, bytes, str]] = {
    "429 for too long": (
        cut(429, error=LATE, retry_after="3600"),
        RateLimitedError,
        REFUSED,
        b'{"mess',
        "answered 429 Too Many Requests; the body broke off",
    ),
    # The gateway's words are read if all of them came before the connection broke.
    "400 with all its words": (
        cut(400, b'{"message": "$.base is odd"}'),
        InvalidRequestError,
        REFUSED,
        b'{"message": "$.base is odd"}',
        " about base",
    ),
    "401": (cut(401), TokenRejectedError, REFUSED, b'{"mess', "with a new access token"),
    # Half of a gzip file is no second problem.
    "500, compressed": (
        cut(500, ZIPPED, ODD, content_encoding="gzip"),
        ServerError,
        UNKNOWN,
        b"",
        "500",
    ),
    "200": (cut(200), ReplyLostError, APPLIED, b"", "broke off after its head"),
    "200, late": (cut(200, error=LATE), ReplyTimeoutError, APPLIED, b"", "timed out"),
    # A proxy or a portal answered, as with a whole page.
    "200, web page": (
        cut(200, b"", content_type="text/html"),
        ReplyLostError,
        UNKNOWN,
        b"",
        "broke off",
    ),
}


@pytest.mark.parametrize(("step", "kind", "outcome", "body", "text"), CUT.values(), ids=CUT)
async def test_the_error_of_a_cut_reply_has_what_came(
    monkeypatch: pytest.MonkeyPatch,
    step: Step,
    kind: type[GatewayError],
    outcome: Outcome,
    body: bytes,
    text: str,
) -> None:
    source = SimpleNamespace(token=renewed)
    gateway, engine, waits = scripted(monkeypatch, step, access_token=source)

    with pytest.raises(kind, match=text) as caught:
        await CALLS["create_customer"](gateway)

    assert type(caught.value) is kind
    assert caught.value.outcome is outcome
    assert getattr(caught.value, "body", b"") == body
    assert "CANARY" not in str(caught.value)
    assert len(engine.requests) == (2 if kind is TokenRejectedError else 1)
    assert waits == []


@pytest.mark.parametrize(
    ("status", "content_type", "outcome"),
    [
        (200, "application/json", APPLIED),
        (200, "text/html", UNKNOWN),
        (404, "application/json", REFUSED),
    ],
)
async def test_a_deadline_in_a_body_does_not_forget_its_head(
    monkeypatch: pytest.MonkeyPatch, status: int, content_type: str, outcome: Outcome
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b"<"
        pass_deadlines(gateway)
        await asyncio.Event().wait()

    reply = httpx.Response(status, headers={"Content-Type": content_type}, content=endless())
    gateway, _, _ = scripted(monkeypatch, reply)

    with pytest.raises(DeadlineExceededError) as caught:
        await CALLS["create_customer"](gateway)

    assert caught.value.outcome is outcome
    assert [attempt.status for attempt in caught.value.attempts] == [status]
