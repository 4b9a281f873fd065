"""When a token is too old to be sent, and how its end reads."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_sdk.auth import Token
from gateway_sdk.auth.token import DEFAULT_LEEWAY
from tests.auth.responses import NOW

MOMENTS = st.floats(0, 4e9)


def lasting(life: float | None) -> Token:
    """Return a token obtained at NOW that lasts so many seconds."""
    return Token("x", expires_at=None if life is None else NOW + life, obtained_at=NOW)


@pytest.mark.parametrize(
    ("life", "leeway", "usable"),
    [
        (3600, 30, 3570),
        (3600, 0, 3600),
        (3600, 360, 3240),
        (3600, 361, 3240),  # a tenth of the life at the most
        (3600, 7200, 3240),
        (300, 30, 270),
        (299, 30, 269.1),
        (60, 30, 54),
        (60, 5, 55),
        (1, 30, 0.9),
        (1, 0, 1),
        (0, 30, 0),
    ],
)
def test_a_token_expires_its_leeway_early_to_the_instant(
    life: float, leeway: float, usable: float
) -> None:
    """Just before its end less the leeway a token is sent; from that very moment on it is not."""
    token = lasting(life)
    end = NOW + life - min(leeway, life - usable)  # rounded as any computation of it is

    assert end == pytest.approx(NOW + usable, abs=1e-6)
    assert not token.expired(end - 1e-6, leeway)
    assert token.expired(end + 1e-6, leeway)
    if usable == int(usable):
        assert not token.expired(math.nextafter(NOW + usable, 0), leeway)
        assert token.expired(NOW + usable, leeway)


def test_the_leeway_is_half_a_minute() -> None:
    """Who gives no leeway gets 30 seconds, but no more than a tenth of the token's life."""
    assert DEFAULT_LEEWAY == 30

    assert not lasting(3600).expired(NOW + 3569.9)
    assert lasting(3600).expired(NOW + 3570)
    assert not lasting(60).expired(NOW + 53.9)
    assert lasting(60).expired(NOW + 54)


@pytest.mark.parametrize("life", [1, 60, 3600])
@pytest.mark.parametrize("leeway", [0, 30, 1e9])
def test_no_token_is_born_expired(life: float, leeway: float) -> None:
    """However large the leeway, a new token is sent; otherwise login would follow login."""
    assert not lasting(life).expired(NOW, leeway)


@pytest.mark.parametrize("now", [0.0, NOW, 1e12])
def test_a_token_of_unknown_life_never_expires(now: float) -> None:
    """Without an end a token is used until it is refused."""
    assert not lasting(None).expired(now)
    assert not lasting(None).expired(now, leeway=1e9)


@pytest.mark.parametrize("now", [0.0, NOW - 3600, NOW - 1])
def test_a_clock_that_went_back_does_not_expire_a_token(now: float) -> None:
    """Before it was obtained a token is as good as new."""
    assert not lasting(3600).expired(now)


@pytest.mark.parametrize("leeway", [0, 30, 1e9])
def test_a_token_that_ended_before_it_was_obtained_ends_when_it_says(leeway: float) -> None:
    """A clock that was wrong makes no life of less than nothing."""
    token = Token("x", expires_at=100, obtained_at=NOW)

    assert token.expired(100, leeway)
    assert token.expired(NOW, leeway)
    assert not token.expired(math.nextafter(100, 0), leeway)


@given(MOMENTS, MOMENTS, MOMENTS, MOMENTS, st.floats(0, 1e6))
def test_expiry_comes_once_and_near_the_end(
    obtained_at: float, expires_at: float, one: float, other: float, leeway: float
) -> None:
    """Whatever the clock, who is expired stays so; never before nine tenths, never after all."""
    token = Token("x", expires_at=expires_at, obtained_at=obtained_at)
    earlier, later = sorted((one, other))

    assert token.expired(later, leeway) or not token.expired(earlier, leeway)
    assert token.expired(expires_at, leeway)
    if expires_at > obtained_at:
        sure = obtained_at + 0.9 * (expires_at - obtained_at) - 1e-5
        assert not token.expired(sure, leeway)
    assert not token.expired(expires_at - leeway - 1e-5, leeway)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/New_York"])
@pytest.mark.parametrize(
    ("expires_at", "read"),
    [
        (None, ""),
        (0, "1970-01-01 00:00:00 UTC"),
        (NOW + 0.9, "2027-01-15 08:00:00 UTC"),
        (253402300799, "9999-12-31 23:59:59 UTC"),
    ],
)
def test_the_end_reads_the_same_everywhere(
    monkeypatch: pytest.MonkeyPatch, zone: str, expires_at: float | None, read: str
) -> None:
    """The end is told in UTC, whatever the zone of the machine; an unknown one is empty."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert Token("x", expires_at=expires_at, obtained_at=0).ends == read
    finally:
        monkeypatch.undo()
        time.tzset()
