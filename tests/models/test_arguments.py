"""Models made by hand accept what the methods accept, with errors in plain words."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from functools import partial
from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from gateway_sdk import InvalidArgumentError
from gateway_sdk.models import (
    Address,
    AddressesItem,
    CreateRequest,
    DocumentsItem,
    ExchangeRateSeriesRequest,
    Name,
    OrderHistoryPage,
    PersonData,
    Revision,
)
from tests.support.recorder import Recorder
from tests.support.secrecy import CANARY, texts_of

FIRST, LAST = date(2026, 1, 1), date(2026, 1, 31)


def _query(**given: Any) -> ExchangeRateSeriesRequest:
    usual = {"base": "EUR", "symbols": "USD", "start_date": FIRST, "end_date": LAST}
    return ExchangeRateSeriesRequest(**{**usual, **given})


SERIES: dict[str, dict[str, Any]] = {
    "strings": {"symbols": " usd;gbp ", "start_date": "yesterday", "end_date": ""},
    "an empty string": {"symbols": ""},
    "a list and dates": {"symbols": ["USD", "GBP"]},
    "a tuple": {"symbols": ("USD", "GBP")},
    "one code": {"symbols": ["USD"]},
    "a mapping": {"symbols": {"USD": 1, "GBP": 2}},
    "a set": {"symbols": {"USD", "GBP", "CHF"}},
    "no list": {"symbols": []},
    "no set": {"symbols": set()},
    "None": {"symbols": None, "start_date": None, "base": None},
    "numbers": {"symbols": 5, "start_date": 20260101, "end_date": 1.5, "base": 10**5000},
    "numbers in a list": {"symbols": ["USD", 5]},
    "an empty code": {"symbols": ["USD", ""]},
    "a comma": {"symbols": ["USD,GBP"]},
    "bytes": {"symbols": b"USD", "base": b"EUR", "start_date": b"2026-01-01"},
    "datetimes": {
        "start_date": datetime(2026, 1, 1, tzinfo=UTC),
        "end_date": datetime(2026, 1, 31, 0, 0),  # noqa: DTZ001 - a naive one
    },
}


@pytest.mark.parametrize("given", SERIES.values(), ids=SERIES)
async def test_model_takes_what_the_method_takes(given: dict[str, Any]) -> None:
    recorder = Recorder()
    usual = {"base": "EUR", "symbols": "USD", "start_date": FIRST, "end_date": LAST}
    try:
        await recorder.session().currency.exchange_rate_series(**{**usual, **given})
    except InvalidArgumentError as error:
        with pytest.raises(ValidationError) as caught:
            _query(**given)
        said = [f"{problem['loc'][0]} {problem['msg']}" for problem in caught.value.errors()]
        assert str(error).endswith("; ".join(said))  # noqa: PT017 - either may happen
        assert recorder.sent == []
    else:
        assert _query(**given).model_dump_json(by_alias=True).encode() == recorder.sent[0].content


def test_codes_and_dates_are_kept_as_strings() -> None:
    query = _query(symbols=iter(["USD", "GBP"]))

    assert query.symbols == "USD,GBP"
    assert (query.start_date, query.end_date) == ("2026-01-01", "2026-01-31")
    assert query == _query(symbols="USD,GBP", start_date="2026-01-01", end_date="2026-01-31")
    ends = {days: [part.end_date for part in query.split(days=days)] for days in (16, 30, 31)}
    two = {16: ["2026-01-16", "2026-01-31"], 30: ["2026-01-30", "2026-01-31"]}
    assert ends == {**two, 31: ["2026-01-31"]}
    assert len(_query(end_date=FIRST).split(days=1)) == 1


@pytest.mark.parametrize("kind", [set, frozenset])
def test_sets_are_sorted(kind: Callable[[list[str]], Any]) -> None:
    """The order of a set differs between processes, and a journal identifies items by it."""
    assert _query(symbols=kind(["USD", "CHF", "GBP", "AUD"])).symbols == "AUD,CHF,GBP,USD"


@given(st.text())
def test_strings_are_never_touched(text: str) -> None:
    query = _query(base=text, symbols=text, start_date=text, end_date=text)

    assert {query.base, query.symbols, query.start_date, query.end_date} == {text}


def test_what_is_no_field_that_was_set_stays_absent() -> None:
    made = OrderHistoryPage(page=1, take=2)
    assert OrderHistoryPage.model_construct({"page", "take"}, **vars(made)) == made

    for set_here in ("is_b2b", "isB2B"):
        for name in ("is_b2b", "isB2B"):
            given: dict[str, Any] = {name: True, "customer_name": None, "customerType": None}
            assert CreateRequest.model_construct({set_here}, **given).to_wire() == {"isB2B": True}


def test_copy_with_other_values_is_validated() -> None:
    copied = _query().model_copy(update={"symbols": ["USD", "GBP"], "end_date": FIRST})

    assert copied.to_wire()["symbols"] == "USD,GBP"
    assert copied.to_wire()["endDate"] == "2026-01-01"
    with pytest.raises(ValidationError, match=r"symbols\n  must hold strings without commas"):
        copied.model_copy(update={"symbols": [5]})


def test_absent_is_not_null() -> None:
    """A set of requests must not lose one of two that differ on the wire."""
    absent, null = Name(name="A"), Name(name="A", order=None)

    assert len({absent, null, Name(name="A"), absent.model_copy(deep=True)}) == 2
    assert PersonData(first_name=absent) != PersonData(first_name=null)
    for other, is_same in ((ANY, True), ("A", False)):
        assert (absent == other) == is_same


def test_copy_takes_both_names_of_a_field() -> None:
    """With a name that is not taken, the old value would be written."""
    ada = CreateRequest(customer_name="Ada", person=PersonData(email="ada@example.com"))

    copied = ada.model_copy(update={"customerName": "Bob", "is_b2b": True}, deep=True)

    assert copied == CreateRequest(customer_name="Bob", is_b2b=True, person=ada.person)
    assert copied.person is not ada.person
    assert ada.model_copy() == ada


# --- errors -----------------------------------------------------------------------------------


def _deep() -> Any:
    value: Any = CANARY
    for _ in range(5000):
        value = [value]
    return value


def _endless() -> Any:
    value: list[Any] = [CANARY]
    value.append(value)
    return value


def _document(value: Any) -> Callable[[], Any]:
    return lambda: DocumentsItem(verification_response=value)


DOCUMENT = '{"documents":[{"verificationResponse":%s}]}'
ERRORS: list[tuple[Callable[[], Any], str]] = [
    (lambda: OrderHistoryPage(page="12", take=5), "page\n  must be a whole number, not str"),  # type: ignore[arg-type]
    (lambda: OrderHistoryPage(page=1, take=True), "take\n  must be a whole number, not bool"),
    (lambda: OrderHistoryPage(page=1.0, take=1), "page\n  must be a whole number, not float"),  # type: ignore[arg-type]
    (lambda: OrderHistoryPage(page=[1], take=1), "page\n  must be a whole number, not list"),  # type: ignore[arg-type]
    (lambda: OrderHistoryPage(take=1), "page\n  is missing"),  # type: ignore[call-arg]
    (lambda: _query(base=10**5000), "base\n  must be a string, not int"),
    (lambda: _query(symbols=5), "symbols\n  must be a string or an iterable of codes, not int"),
    (lambda: _query(end_date=None), "end_date\n  must be a string or a date, not None"),
    (lambda: ExchangeRateSeriesRequest.model_validate({"base": "EUR"}), "startDate\n  is missing"),
    (lambda: CreateRequest(is_b2b=CANARY), "is_b2b\n  must be True or False, not str"),  # type: ignore[arg-type]
    (lambda: CreateRequest(customer_type=4711), "customer_type\n  must be a string, not int"),  # type: ignore[arg-type]
    (lambda: CreateRequest(share_percentage=2**63), "share_percentage\n  must fit into 64 bits"),
    (lambda: CreateRequest(share_percentage=-(2**63) - 1), "must fit into 64 bits"),
    (lambda: CreateRequest(notifications=CANARY), "must be a list or tuple, not str"),  # type: ignore[arg-type]
    (lambda: CreateRequest(notifications={}), "notifications\n  must be a list or tuple, not dict"),  # type: ignore[arg-type]
    (
        lambda: CreateRequest.model_validate_json('{"notifications":5}'),
        "notifications\n  must be a list or tuple, not int",
    ),
    (lambda: CreateRequest(person=CANARY), "person\n  must be a JSON object (PersonData), not str"),  # type: ignore[arg-type]
    (lambda: AddressesItem(address=CANARY), "address\n  must be a JSON object (Address), not str"),  # type: ignore[arg-type]
    (lambda: CreateRequest(person=None), "person\n  may be left out, but not null"),
    (lambda: PersonData(password=4711), "password\n  must be a string, not int"),  # type: ignore[arg-type]
    (lambda: PersonData(pin_code="**********"), "pin_code\n  is the mask of a secret"),
    (lambda: Revision(key=CANARY, value=None), "value\n  must be a string, not None"),  # type: ignore[arg-type]
    (lambda: Address(street_number=["1", 2]), "street_number.1\n  must be a string, not int"),  # type: ignore[list-item]
    (
        lambda: CreateRequest.model_validate({"custmerType": CANARY}),
        "custmerType\n  is not a field of CreateRequest: did you mean customerType?",
    ),
    (
        lambda: CreateRequest(custmer_type=CANARY),  # type: ignore[call-arg]
        "custmer_type\n  is not a field of CreateRequest: did you mean customer_type?",
    ),
    (lambda: Name(xyz=CANARY), "xyz\n  is not a field of Name: in Python, gateway.send("),  # type: ignore[call-arg]
    (
        lambda: PersonData.model_validate({"fullName": CANARY, "full_name": CANARY}),
        "full_name\n  is given twice: fullName is the same field",
    ),
    (
        lambda: PersonData.model_validate({"documents": [{"dict": CANARY}]}),
        "documents.0.dict\n  is not a field of DocumentsItem",
    ),
    (lambda: CreateRequest.model_validate({1: CANARY}), "1\n  is not a string, as the name"),
    (lambda: CreateRequest.model_validate([CANARY]), "must be a JSON object (CreateRequest), not"),
    (lambda: CreateRequest.model_validate({"\ud800": CANARY}), "holds half of a surrogate"),
    (lambda: CreateRequest.model_validate_json("{"), "Invalid JSON"),
    (
        lambda: CreateRequest().model_copy(update={"custmerName": CANARY}),
        "custmerName\n  is not a field of CreateRequest: did you mean customerName?",
    ),
    (
        lambda: CreateRequest().model_copy(update={"customer_name": CANARY, "customerName": "B"}),
        "customer_name\n  is given twice: customerName is the same field",
    ),
    (lambda: Revision.model_construct(key=CANARY), "value\n  is missing"),
    (_document({CANARY: float("nan")}), "verification_response\n  holds NaN or Infinity"),
    *(
        (
            partial(PersonData.model_validate_json, DOCUMENT % odd),
            "documents.0.verificationResponse\n  holds NaN or Infinity, which are not JSON",
        )
        for odd in ("NaN", "-Infinity", '{"a":[1,Infinity]}')
    ),
    (_document([[{CANARY: {CANARY}}]]), "verification_response\n  must be a JSON value, not set"),
    (_document(_deep()), "verification_response\n  is nested too deeply"),
    (_document(_endless()), "verification_response\n  is nested too deeply"),
]


@pytest.mark.parametrize(("make", "words"), ERRORS, ids=[words for _, words in ERRORS])
def test_error_says_which_field_what_is_wanted_and_what_was_given(
    make: Callable[[], Any], words: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        make()

    assert words in str(caught.value)
    assert CANARY not in texts_of(caught.value)
    assert "4711" not in str(caught.value)


def test_every_problem_is_told_in_the_order_of_the_fields() -> None:
    with pytest.raises(ValidationError) as caught:
        CreateRequest(
            customer_type=5,  # type: ignore[arg-type]
            person={"first_name": {"order": CANARY}, "pinCode": 4711},  # type: ignore[arg-type]
            is_director="yes",  # type: ignore[arg-type]
        )

    assert [(problem["loc"], problem["msg"]) for problem in caught.value.errors()] == [
        (("customer_type",), "must be a string, not int"),
        (("person", "first_name", "order"), "must be a whole number, not str"),
        (("person", "pinCode"), "must be a string, not int"),
        (("is_director",), "must be True or False, not str"),
    ]


def test_what_a_generator_raises_is_raised() -> None:
    def codes() -> Iterator[str]:
        yield "USD"
        raise LookupError(CANARY)

    with pytest.raises(LookupError, match=CANARY):
        _query(symbols=codes())
