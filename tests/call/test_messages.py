"""The text of an error names what the SDK knows, and never the words of the gateway."""

import pickle
from typing import Any

import httpx
import pytest

from gateway_sdk import GatewayError, RetryBudget, UnexpectedReplyError
from tests.support.calls import CALLS
from tests.support.scripted import scripted

NOTHING_LEFT = RetryBudget(reserve=1, share=0, per_second=0)
POINTER = ": error.payload.message has the reason"


async def error_of(monkeypatch: pytest.MonkeyPatch, *steps: Any, **options: Any) -> GatewayError:
    gateway, _, _ = scripted(monkeypatch, *steps, **options)
    with pytest.raises(GatewayError) as caught:
        await CALLS["order_history"](gateway)
    return caught.value


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("$.startDate must be an ISO 8601 date", f" about startDate{POINTER}"),
        ("$.person.firstName of CANARY", f" about person.firstName{POINTER}"),
        ("no base, startDate and CANARY", f" about startDate{POINTER}"),
        ("a customer with this externalCustomerId exists", f" about externalCustomerId{POINTER}"),
        ("$.CANARY is wrong, and baseCANARY too", POINTER),
        ("", ""),
        (None, ""),
    ],
)
async def test_a_refusal_names_the_field_and_where_the_reason_is(
    monkeypatch: pytest.MonkeyPatch, message: str | None, shown: str
) -> None:
    """Names of the interface are no personal data; any other word may be.

    The summary, which is stored, has no hint for programs.
    """
    error = await error_of(monkeypatch, httpx.Response(400, json={"message": message}))

    assert str(error) == f"order_history: the gateway answered 400 Bad Request{shown}"
    summary = str(error).removesuffix(POINTER)
    assert error.summary == str(pickle.loads(pickle.dumps(error))) == summary  # noqa: S301 - our own


@pytest.mark.parametrize(
    ("headers", "options", "attempts", "why"),
    [
        ({}, {"retry_budget": NOTHING_LEFT}, 2, "no retry is left in the retry_budget"),
        ({"Retry-After": "61"}, {}, 1, "a longer wait than the retries take"),
        ({"Retry-After": "17"}, {"deadline": 10}, 1, "no time for another attempt"),
        ({"Retry-After": "60"}, {"deadline": None}, 3, ""),
        ({}, {}, 3, ""),
    ],
)
async def test_an_error_says_what_ended_the_retries(
    monkeypatch: pytest.MonkeyPatch,
    headers: dict[str, str],
    options: dict[str, Any],
    attempts: int,
    why: str,
) -> None:
    error = await error_of(monkeypatch, httpx.Response(503, headers=headers), **options)

    assert len(error.attempts) == attempts
    assert why in error.no_retry
    assert error.no_retry in str(error)
    assert bool(error.no_retry) == bool(why)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own


async def test_the_last_error_goes_through_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    error = await error_of(monkeypatch, httpx.ConnectError("-"))

    assert str(error) == (
        "order_history: no connection to gateway.test:443: "
        "the connection broke off before anything was sent (3 attempts)"
    )


async def test_broken_json_is_told_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = httpx.Response(
        200, content=b'{"a": CANARY}', headers={"Content-Type": "application/json"}
    )

    error = await error_of(monkeypatch, broken)

    assert isinstance(error, UnexpectedReplyError)
    assert "is not JSON: expected value at line 1 column 7" in str(error)
