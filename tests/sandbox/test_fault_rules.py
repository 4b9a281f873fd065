import pytest

from gateway_sdk.sandbox import Fault, Faults

FAULT = Fault.status(500)


def hits(faults: Faults, operation: str = "cancel_order", calls: int = 6) -> list[int]:
    return [call for call in range(1, calls + 1) if faults.due(operation)]


@pytest.mark.parametrize(
    ("at", "times", "expected"),
    [
        (None, None, [1, 2, 3, 4, 5, 6]),
        (None, 2, [1, 2]),
        (3, None, [3]),
        (3, 2, [3, 4]),
        (9, None, []),
    ],
)
def test_fault_happens_at_its_calls(at: int | None, times: int | None, expected: list[int]) -> None:
    assert hits(Faults().on("cancel_order", FAULT, at=at, times=times)) == expected


def test_fault_counts_its_own_operation_only() -> None:
    faults = Faults().on("cancel_order", FAULT, at=2).anywhere(FAULT, at=9)

    assert hits(faults, "list_countries") == []
    assert hits(faults, "cancel_order") == [2, 3]


def test_call_may_have_several_faults() -> None:
    slow = Fault.latency(1)
    faults = Faults().anywhere(slow).on("cancel_order", FAULT, at=1)

    assert faults.due("cancel_order") == [slow, FAULT]
    assert faults.due("cancel_order") == [slow]


def test_rate_is_a_probability() -> None:
    """At a rate of 0.25 a fault happens at about a quarter of the calls, the same for a seed."""
    first = hits(Faults(seed=1).anywhere(FAULT, rate=0.25), calls=1000)

    assert 200 < len(first) < 300
    assert hits(Faults(seed=1).anywhere(FAULT, rate=0.25), calls=1000) == first
    assert hits(Faults(seed=2).anywhere(FAULT, rate=0.25), calls=1000) != first
    assert hits(Faults().anywhere(FAULT, rate=0)) == []
    assert hits(Faults().anywhere(FAULT, rate=1)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"at": 0}, "at must be a whole number of at least 1: 0"),
        ({"at": 1.5}, "at must be a whole number of at least 1: 1.5"),
        ({"times": 0}, "times must be a whole number of at least 1: 0"),
        ({"rate": 1.5}, "rate must be from 0 to 1: 1.5"),
        ({"rate": -0.1}, "rate must be from 0 to 1: -0.1"),
        ({"rate": float("nan")}, "rate must be from 0 to 1: nan"),
    ],
)
def test_number_out_of_range_is_refused(numbers: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Faults().anywhere(FAULT, **numbers)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("latency=0.5", "latency of 0.5 s"),
        ("drip=0.1", "drip of 0.1 s"),
        ("list_countries:status=503", "status 503"),
        ("malformed_error=500,times=2", "malformed error of status 500"),
        ("too_many_requests", "status 429"),
        ("too_many_requests=3,at=1", "status 429"),
        ("unavailable=3", "status 503"),
        ("cut_body,rate=1", "cut body"),
    ],
)
def test_fault_may_be_written_as_text(text: str, due: str) -> None:
    faults = Faults().add(text)

    assert [fault.name for fault in faults.due("list_countries")] == [due]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "unknown fault 'nonsense'"),
        ("latency", "latency needs a number: write latency=..."),
        ("latency=x", "'x' is not a number"),
        ("unauthorized=1", "unauthorized takes no value"),
        ("nonsense=1", "unknown fault 'nonsense'"),
        ("status=200", "status is out of range"),
        ("status=inf", "'inf' is not a whole number"),
        ("x:cut_body", r"unknown operation 'x'; the operations are create_customer, .*countries"),
        ("cut_body,on=1", "'on=1' is not at=N, times=N or rate=0.1"),
        ("cut_body,at", "'' is not a whole number"),
    ],
)
def test_wrong_text_of_a_fault_is_refused(text: str, words: str) -> None:
    faults = Faults()

    with pytest.raises(ValueError, match=words):
        faults.add(text)

    assert faults.due("list_countries") == []
