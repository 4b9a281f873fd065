"""When a token is too old to be sent, and how its end is shown."""

import math
import time

import pytest
from hypothesis import given, strategies as st

from gateway_sdk.auth import Token
from gateway_sdk.auth.token import DEFAULT_LEEWAY
from tests.auth.responses import NOW

MOMENTS = st.floats(0, 4e9)


def lasting(life: float | None) -> Token:
    """Return a token obtained at NOW that lasts this number of seconds."""
    return Token("x", expires_at=None if life is None else NOW + life, obtained_at=NOW)


@pytest.mark.parametrize(
    ("life", "leeway", "usable"),
    [
        (3600, 30, 3570),
        (3600, 0, 3600),
        (3600, 360, 3240),
        (3600, 361, 3240),  # at most a tenth of the lifetime
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
    """Until its end minus the leeway a token is sent, and from that moment on it is not."""
    token = lasting(life)
    end = NOW + life - min(leeway, life - usable)  # rounded like the computation in the code

    assert end == pytest.approx(NOW + usable, abs=1e-6)
    assert not token.expired(end - 1e-6, leeway)
    assert token.expired(end + 1e-6, leeway)
    if usable == int(usable):
        assert not token.expired(math.nextafter(NOW + usable, 0), leeway)
        assert token.expired(NOW + usable, leeway)


def test_the_leeway_is_half_a_minute() -> None:
    """Without a leeway argument it is 30 s, but at most a tenth of the token's lifetime."""
    assert DEFAULT_LEEWAY == 30

    assert not lasting(3600).expired(NOW + 3569.9)
    assert lasting(3600).expired(NOW + 3570)
    assert not lasting(60).expired(NOW + 53.9)
    assert lasting(60).expired(NOW + 54)


@pytest.mark.parametrize("life", [1, 60, 3600])
@pytest.mark.parametrize("leeway", [0, 30, 1e9])
def test_a_new_token_has_not_expired(life: float, leeway: float) -> None:
    """A new token is sent, however large the leeway: otherwise each login would cause the next."""
    assert not lasting(life).expired(NOW, leeway)


@pytest.mark.parametrize("now", [0.0, NOW, 1e12])
def test_a_token_of_unknown_life_never_expires(now: float) -> None:
    """A token without an end is used until it is refused."""
    assert not lasting(None).expired(now)
    assert not lasting(None).expired(now, leeway=1e9)


@pytest.mark.parametrize("now", [0.0, NOW - 3600, NOW - 1])
def test_a_clock_that_was_set_back_does_not_expire_a_token(now: float) -> None:
    """Before its time of issue, a token counts as new."""
    assert not lasting(3600).expired(now)


@pytest.mark.parametrize("leeway", [0, 30, 1e9])
def test_a_token_that_ended_before_it_was_obtained_ends_when_it_says(leeway: float) -> None:
    """A wrong clock does not give a negative lifetime."""
    token = Token("x", expires_at=100, obtained_at=NOW)

    assert token.expired(100, leeway)
    assert token.expired(NOW, leeway)
    assert not token.expired(math.nextafter(100, 0), leeway)


@given(MOMENTS, MOMENTS, MOMENTS, MOMENTS, st.floats(0, 1e6))
def test_expiry_comes_once_and_near_the_end(
    obtained_at: float, expires_at: float, one: float, other: float, leeway: float
) -> None:
    """An expired token stays expired, and no token expires before nine tenths of its lifetime."""
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
    """The end is shown in UTC, in any time zone of the machine; an unknown end is empty."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert Token("x", expires_at=expires_at, obtained_at=0).ends == read
    finally:
        monkeypatch.undo()
        time.tzset()
