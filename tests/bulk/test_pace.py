"""The calls per second, for a gateway that limits them."""

import pytest

from gateway_sdk.bulk._controller import Controller
from gateway_sdk.bulk._pace import Pace


def stop(pace: Pace, at: float) -> None:
    """Refuse six calls in a row, each of which waits for a second."""
    for number in range(6):
        now = at + 0.01 * number
        pace.refused(now - 0.01, now, is_429=True, was_fine=True, row=6)
        pace.waits(now, 1.0)


def paced() -> Pace:
    """Return a pace that has learned of 50 calls per second, at the time 2.05."""
    pace = Pace()
    stop(pace, 0.0)
    for number in range(100):
        pace.taken(1.0 + number / 100, 1.0 + number / 100)
    stop(pace, 2.0)
    return pace


def test_the_second_stop_sets_the_pace() -> None:
    """It lies between the successes since the first stop and those of the last second."""
    pace = paced()

    assert pace.rate is not None
    assert 50 <= pace.rate <= 100
    pace.begin(10.0)
    assert pace.wait_until(10.0) is None  # a call may be a little late
    for _ in range(10):
        pace.begin(10.0)
    until = pace.wait_until(10.0)
    assert until is not None
    assert until > 10.0


@pytest.mark.parametrize(
    ("is_429", "was_fine", "wait"), [(False, True, 1.0), (True, False, 1.0), (True, True, 0.4)]
)
def test_refusals_with_another_reason_set_no_pace(
    is_429: bool, was_fine: bool, wait: float
) -> None:
    """Another status, a new number of calls, and a wait without Retry-After do not."""
    pace = Pace()

    for at in (0.0, 2.0, 4.0):
        for number in range(6):
            now = at + 0.01 * number
            pace.refused(now, now, is_429=is_429, was_fine=was_fine, row=6)
            pace.waits(now, wait)
        assert pace.is_stopped
        pace.taken(at + 1.5, at + 1.6)
        assert not pace.is_stopped

    assert pace.rate is None


@pytest.mark.parametrize(("seconds", "grows"), [(1.0, True), (10.0, False)])
def test_only_a_rate_that_was_reached_is_good(seconds: float, grows: bool) -> None:
    """A machine that is too slow for a rate proves nothing."""
    pace = paced()
    before = pace.rate
    assert before is not None
    for _ in range(20):
        pace.begin(3.0)
    assert pace.wait_until(3.0) is not None

    for number in range(1, int(before) + 2):
        now = 2.05 + seconds * number / before
        pace.taken(now, now)

    assert pace.rate is not None
    assert (pace.rate > before) is grows


def test_the_refusals_of_one_stop_lower_the_pace_once() -> None:
    """Refusals before the end of the Retry-After tell nothing new."""
    pace = paced()
    before = pace.rate
    assert before is not None

    for number in range(5):
        pace.refused(3.5 + number / 100, 3.6 + number / 100, is_429=True, was_fine=True, row=6)

    assert pace.rate is not None
    assert before / 2 <= pace.rate < before


def refusals(controller: Controller, *, is_429: bool, overlapping: bool = False) -> None:
    """Take a call and refuse the next one, twelve times; perhaps while another is on its way."""
    for second in range(12):
        at = float(second)
        fine = controller.begin(at)
        refused = None
        if overlapping:
            refused = controller.begin(at + 0.1)
        controller.attempt_ended(fine, at + 0.2, refused=False, is_429=False)
        controller.ended(fine)
        refused = refused or controller.begin(at + 0.3)
        controller.attempt_ended(refused, at + 0.4, refused=True, is_429=is_429)
        controller.ended(refused)


@pytest.mark.parametrize(
    ("is_429", "overlapping", "is_rate"),
    [(True, False, True), (False, False, False), (True, True, False)],
    ids=["alone", "503", "not alone"],
)
def test_calls_that_are_refused_alone_prove_a_rate(
    *, is_429: bool, overlapping: bool, is_rate: bool
) -> None:
    """It is not the number of calls; a 503 may have another reason."""
    controller = Controller(maximum=10, start=2)

    refusals(controller, is_429=is_429, overlapping=overlapping)

    assert (controller._pace.rate is not None) is is_rate


def test_another_call_of_an_item_begins_when_the_one_before_has_ended() -> None:
    controller = Controller(maximum=10, start=1)
    slot = controller.begin(0.0)
    controller.attempt_ended(slot, 5.0, refused=False, is_429=False)

    assert (slot.began, slot.stage) == (5.0, controller._stage)
