"""Waiting between attempts: back-off, Retry-After, what does not fit, what cannot be sent again."""

from collections.abc import AsyncIterator

import httpx
import pytest

from gateway_sdk import (
    ConfigurationError,
    ConnectionFailedError,
    RateLimitedError,
    ReplyLostError,
    RetryPolicy,
    ServerError,
)
from tests.support.calls import CALLS
from tests.support.scripted import scripted


@pytest.mark.parametrize(
    ("jitter", "drawn", "expected"),
    [
        (1.0, 0.0, [0.5, 1.0, 2.0, 3.0]),
        (1.0, 0.75, [0.125, 0.25, 0.5, 0.75]),
        (0.5, 1.0, [0.25, 0.5, 1.0, 1.5]),
        (0.0, 0.75, [0.5, 1.0, 2.0, 3.0]),
    ],
)
async def test_the_back_off_doubles_up_to_its_cap(
    monkeypatch: pytest.MonkeyPatch, jitter: float, drawn: float, expected: list[float]
) -> None:
    """Each wait is as random as the jitter says, under a bound that doubles until its cap."""
    monkeypatch.setattr("gateway_sdk._call.retry.random.random", lambda: drawn)
    policy = RetryPolicy(attempts=5, backoff=0.5, backoff_max=3.0, jitter=jitter)
    gateway, engine, waits = scripted(monkeypatch, httpx.Response(503), retry=policy)

    with pytest.raises(ServerError):
        await CALLS["order_history"](gateway)

    assert waits == expected
    assert len(engine.requests) == 5


async def test_retry_after_is_never_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is what the gateway asked for, and a random part of the back-off."""
    asked = httpx.Response(429, headers={"Retry-After": "17"})
    gateway, _, waits = scripted(monkeypatch, asked, httpx.Response(200, json={}))

    await CALLS["create_customer"](gateway)

    assert 17 <= waits[0] <= 17.5
    assert len(waits) == 1


async def test_a_retry_after_beyond_the_cap_is_raised_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wait that is too long is not begun: the error says how long it would have been."""
    gateway, engine, waits = scripted(
        monkeypatch, httpx.Response(429, headers={"Retry-After": "61"})
    )

    with pytest.raises(RateLimitedError) as caught:
        await CALLS["order_history"](gateway)

    assert caught.value.retry_after == 61.0
    assert waits == []
    assert len(engine.requests) == 1


async def test_a_wait_that_does_not_fit_the_deadline_is_not_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 10 seconds left for the whole call, a wait of 17 ends it at once."""
    asked = httpx.Response(503, headers={"Retry-After": "17"})
    gateway, engine, waits = scripted(monkeypatch, asked, deadline=10)

    with pytest.raises(ServerError):
        await CALLS["order_history"](gateway)

    assert waits == []
    assert len(engine.requests) == 1


async def test_without_a_deadline_every_wait_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """With deadline=None only the policy bounds the attempts."""
    asked = httpx.Response(503, headers={"Retry-After": "59"})
    gateway, _, waits = scripted(monkeypatch, asked, deadline=None)

    with pytest.raises(ServerError):
        await CALLS["order_history"](gateway)

    assert [int(wait) for wait in waits] in ([59, 59], [59, 60])


async def stream() -> AsyncIterator[bytes]:
    """Give two pieces, once."""
    yield b"on"
    yield b"ce"


async def test_a_stream_that_was_begun_is_never_sent_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An update from a stream is not repeated, although an update may be."""
    gateway, engine, _ = scripted(monkeypatch, httpx.ReadError("-"))

    with pytest.raises(ReplyLostError):
        await gateway.aml.update_document("d-1", stream())

    assert engine.bodies == [b"once"]


async def test_a_stream_that_was_not_begun_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that failed before the stream was touched does not cost the upload."""
    gateway, engine, _ = scripted(
        monkeypatch, httpx.ConnectError("-"), httpx.Response(200, json={})
    )

    await gateway.aml.upload_document(stream())

    assert engine.bodies == [b"once"]
    assert len(engine.requests) == 2


async def test_bytes_are_sent_again_from_their_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replayed body is the whole body."""
    gateway, engine, _ = scripted(monkeypatch, httpx.ReadError("-"), httpx.Response(200, json={}))

    await gateway.aml.update_document("d-1", b"whole")

    assert engine.bodies == [b"whole", b"whole"]


async def test_an_error_that_is_not_ours_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in the transport is raised as it is, after one attempt."""
    gateway, engine, _ = scripted(monkeypatch, ZeroDivisionError("bug"))

    with pytest.raises(ZeroDivisionError):
        await CALLS["order_history"](gateway)

    assert len(engine.requests) == 1


async def test_an_error_that_is_not_ours_ends_the_repeating(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bug that shows in a later attempt is raised as it is, too."""
    gateway, engine, _ = scripted(
        monkeypatch, httpx.ConnectError("-"), ZeroDivisionError("bug"), httpx.Response(200)
    )

    with pytest.raises(ZeroDivisionError):
        await CALLS["order_history"](gateway)

    assert len(engine.requests) == 2


async def test_the_last_error_goes_through_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """No RetryError stands around the error of the last attempt."""
    gateway, _, _ = scripted(monkeypatch, httpx.ConnectError("-"))

    with pytest.raises(ConnectionFailedError) as caught:
        await CALLS["list_countries"](gateway)

    assert str(caught.value) == (
        "list_countries: no connection to gateway.test:443: "
        "the connection broke off before anything was sent (3 attempts)"
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("attempts", 0),
        ("attempts", 1.5),
        ("attempts", True),
        ("backoff", -1),
        ("backoff", float("nan")),
        ("backoff_max", float("inf")),
        ("retry_after_max", None),
        ("retry_after_max", "60"),
        ("backoff", False),
    ],
)
def test_a_policy_with_a_number_out_of_range_is_refused(field: str, value: object) -> None:
    """The error names the field."""
    with pytest.raises(ConfigurationError, match=field):
        RetryPolicy(**{field: value})  # type: ignore[arg-type] # that is the point


def test_a_policy_may_wait_no_time_at_all() -> None:
    """Zero is a wait, for tests of services that use the package."""
    assert RetryPolicy(backoff=0, backoff_max=0, retry_after_max=0).backoff == 0
