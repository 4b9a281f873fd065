"""Digests of keys: the same in every process and version, different for different keys."""

import math
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, RootModel, SecretBytes, SecretStr

from gateway_sdk import InvalidArgumentError
from gateway_sdk.bulk._source import digest_of
from gateway_sdk.models import CreateRequest, ExchangeRateSeriesRequest

Side = Enum("Side", ["BUY"])
Level = IntEnum("Level", ["LOW"])
Word = StrEnum("Word", {"EUR": "EUR"})


class Cancel(NamedTuple):
    order: str


class Refund(NamedTuple):
    order: str


@dataclass
class Order:
    number: int
    tags: tuple[str, ...] = ()
    note: str = field(default="", compare=False)


class Basket(BaseModel):
    model_config = ConfigDict(extra="allow")
    tags: list[str]


class Numbers(RootModel[list[int]]): ...


TAGS = ["red", "green", "blue", "white", "black", "grey"]

GOLDEN: list[tuple[object, str]] = [
    # Values, and the digests that they had when this was written; never to be changed.
    (None, "941dffce4e4308ceb33e87326003257d"),
    (True, "b30ee95ec6cda01eb712d912431fe867"),
    (7, "9e287f590d2dcbbf387bfb70928e621d"),
    (2**70, "6ce3067301bf0b45b6af189eb2566b06"),
    (0.1, "8857a128fe69b49792e563135c5774e9"),
    (2.0, "4129e2a8044a57ce7635fd6023661cd6"),
    (1e300, "cdf895bd4adadec4072c34b7ae7a4f8f"),
    (math.inf, "14fa9e19254cc3dadd46763a7f634c23"),
    (-math.inf, "168686c6f4d144bf39844a78620afa4b"),
    (math.nan, "4523863be0252b2eabedc7f0d52adcd7"),
    ("caf\u00e9", "6ecaa0d5231d4d87ce35d785dfd2823e"),
    ("\ud800", "d3d1891eb02519356ef0f0c6e4574825"),
    ([1, [2, "3"]], "41cffc55e4cf2d2811b6a38a46462b0b"),
    ({"b": 1, "a": [None]}, "d3078a9103809d9a054c7a2638edcc44"),
    ({1: "a", "1": "b", None: "c", date(2026, 1, 2): "d"}, "0be2743248ba2490289f27d6bb55d9be"),
    (Basket(tags=TAGS), "4ef29d7675007d1ec9ec371d112ef24c"),
    (Basket.model_validate({"tags": [], "more": TAGS}), "e178a3ecb8873332b911906e3d2d0375"),
    (Numbers([1, 2]), "8c4c84e638cccfdfe16e75a49ad83362"),
    (
        ExchangeRateSeriesRequest(base="EUR", symbols="USD", start_date="a", end_date="b"),
        "58eb0782469675abaa5b1897e077c25e",
    ),
    (CreateRequest(customer_name="Ada", is_b2b=True), "8b4b3de6b6e9e8311f99318fc25fab56"),
    (Order(1, tuple(TAGS)), "83a27b5c22d99943196785e48c1d26f2"),
    (Cancel("o-1"), "5bb66b8dfc5b155ff68cdcbd3a328458"),
    (date(2026, 1, 2), "7c9ce107b693b9305ea2bbb4bb5fc63e"),
    (datetime(2026, 1, 2, 3, 4, 5, 6), "3b1b0f7e924de57811d8929c0d768b41"),  # noqa: DTZ001 - a naive one is taken too
    (
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))),
        "ec4472023857dbbc1d8a9401b44453d8",
    ),
]


@pytest.mark.parametrize(("value", "digest"), GOLDEN)
def test_digests_never_change(value: object, digest: str) -> None:
    """Else journals forget finished items."""
    assert digest_of(value).hex() == digest


EQUAL: list[tuple[object, object]] = [
    (1, 1.0),
    (0.0, -0.0),
    (math.nan, -math.nan),
    ((1, 2), [1, 2]),
    ({"a": [1], "b": 2}, {"b": 2, "a": [1]}),
    ({"a": 1}, OrderedDict(a=1)),
    ({"a": 1}, MappingProxyType({"a": 1})),
    (Level.LOW, 1),
    (Word.EUR, "EUR"),
    (datetime(2026, 1, 2, 3, tzinfo=UTC), datetime.fromisoformat("2026-01-02T04:00:00+01:00")),
    (date(2026, 1, 2), "2026-01-02"),
    (Order(1, note="one"), Order(1, note="other")),
    (CreateRequest(customer_name="Ada"), CreateRequest.model_validate({"customerName": "Ada"})),
]

DIFFERENT: list[tuple[object, object]] = [
    (math.nan, "NaN"),
    ({1: "a", "1": "b"}, {1: "b", "1": "a"}),
    (Cancel("o-1"), Refund("o-1")),
    (Cancel("o-1"), ("o-1",)),
    (Order(1), {"number": 1, "tags": []}),
    (Numbers([1]), [1]),
    (date(2026, 1, 2), datetime(2026, 1, 2)),  # noqa: DTZ001
    (CreateRequest(), CreateRequest(customer_name=None)),
    (Basket.model_validate({"tags": [], "more": 1}), Basket(tags=[])),
]


@pytest.mark.parametrize(
    ("one", "other", "is_equal"),
    [*((*pair, True) for pair in EQUAL), *((*pair, False) for pair in DIFFERENT)],
)
def test_only_equal_values_have_one_digest(one: object, other: object, is_equal: bool) -> None:
    assert (digest_of(one) == digest_of(other)) is is_equal
    assert (digest_of([one]) == digest_of([other])) is is_equal


def test_a_text_of_asterisks_is_no_secret() -> None:
    """As of a masked account number: what is secret is judged by its type."""
    texts = ["**********", "************1234", "************5678"]
    assert len({digest_of({"account": text}) for text in texts}) == 3


class Odd:
    @property
    def __dataclass_fields__(self) -> dict[str, Any]:
        raise LookupError("canary")


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (object(), "a object, which"),
        ([object()], "a object, which"),
        ({"a": (object(),)}, "a object, which"),
        (Order, "a type"),
        ((one for one in TAGS), "a generator"),
        ({"red"}, "a set"),
        (Decimal("1.5"), "a Decimal"),
        (Side.BUY, "a Side"),
        (b"red", "a bytes"),
        (UUID(int=7), "a UUID"),
        (Path("red"), "Path, which"),
        (time(12), "a time"),
        (CYCLE, "RecursionError"),
        pytest.param(10**5000, "ValueError", id="an integer of 5000 digits"),
        (Odd(), "Odd|LookupError"),
        # Masked they would all be equal, so two items would be one.
        (SecretStr("canary"), "holds a Secret"),
        ([SecretBytes(b"canary")], "holds a Secret"),
        (CreateRequest.model_validate({"person": {"password": "canary"}}), "holds a Secret"),
    ],
)
def test_a_key_without_a_digest_is_refused(value: object, named: str) -> None:
    with pytest.raises(InvalidArgumentError, match=named) as caught:
        digest_of(value)

    assert "give key=" in str(caught.value)
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None
