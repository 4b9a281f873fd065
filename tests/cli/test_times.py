import pytest

from gateway_sdk.auth import Token
from gateway_sdk.cli.times import describe_end, describe_moment, describe_start, format_span

NOON = 1_800_014_400.0  # 2027-01-15 12:00 UTC


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0, "0 s"),
        (0.4, "0 s"),
        (1, "1 s"),
        (119.4, "119 s"),
        (119.6, "2 min"),
        (3599.7, "60 min"),
        (7199, "120 min"),
        (7200, "2 h"),
        (172_799, "48 h"),
        (172_800, "2 days"),
        (31_536_000, "365 days"),
    ],
)
def test_span_is_in_the_unit_that_is_large_enough(seconds: float, written: str) -> None:
    """From two of a unit on, that unit counts, without fractions."""
    assert format_span(seconds) == written


@pytest.mark.parametrize(
    ("moment", "written"),
    [
        (NOON, "2027-01-15 12:00:00 UTC, in 0 s"),
        (NOON + 3600, "2027-01-15 13:00:00 UTC, in 60 min"),
        (NOON - 90, "2027-01-15 11:58:30 UTC, 90 s ago"),
    ],
)
def test_moment_is_in_utc_and_relative_to_now(moment: float, written: str) -> None:
    """A moment is a date for the record and a distance for the reader."""
    assert describe_moment(moment, NOON) == written


def test_token_has_a_beginning_and_an_end() -> None:
    """Both are moments."""
    token = Token("any", obtained_at=NOON - 7200, expires_at=NOON + 7200)

    assert describe_start(token, NOON) == "2027-01-15 10:00:00 UTC, 2 h ago"
    assert describe_end(token, NOON) == "2027-01-15 14:00:00 UTC, in 2 h"


def test_end_may_be_unknown() -> None:
    """A token whose end was not said is used until it is refused."""
    assert describe_end(Token("any"), NOON).startswith("it is refused")
