"""Digests of keys: the same in every process and version, different for different keys."""

import json
import math
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, PlainSerializer, RootModel, SecretBytes, SecretStr

from gateway_sdk import InvalidArgumentError
from gateway_sdk.bulk._keys import digest_of
from gateway_sdk.models import CreateRequest, ExchangeRateSeriesRequest


class Side(Enum):
    BUY = 1


class Other(Enum):
    BUY = 1


class Level(IntEnum):
    LOW = 1


class Word(StrEnum):
    EUR = "EUR"


class Cancel(NamedTuple):
    order: str


class Refund(NamedTuple):
    order: str


@dataclass
class Order:
    """An item of a user's class."""

    number: int
    tags: frozenset[str] = frozenset()
    note: str = field(default="", compare=False)


class Basket(BaseModel):
    """A model whose serializer depends on the hash seed."""

    model_config = ConfigDict(extra="allow")
    tags: Annotated[set[str], PlainSerializer(list)]


class Numbers(RootModel[list[int]]):
    """A model that is a list."""


TAGS = ["red", "green", "blue", "white", "black", "grey"]

VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "integer": 7,
    "big": 2**70,
    "float": 0.1,
    "whole": 2.0,
    "huge": 1e300,
    "infinite": math.inf,
    "minus infinite": -math.inf,
    "nan": math.nan,
    "text": "caf\u00e9",
    "surrogate": "\ud800",
    "array": [1, [2, "3"]],
    "object": {"b": 1, "a": [None]},
    "keys of all kinds": {1: "a", "1": "b", None: "c", date(2026, 1, 2): "d"},
    "set": set(TAGS),
    "set of tuples": {(one, 1) for one in TAGS},
    "frozenset of frozensets": frozenset({frozenset(TAGS), frozenset(TAGS[:2])}),
    "model with a set": Basket(tags=set(TAGS)),
    "model with more": Basket.model_validate({"tags": [], "more": set(TAGS)}),
    "root model": Numbers([1, 2]),
    "query": ExchangeRateSeriesRequest(base="EUR", symbols="USD", start_date="a", end_date="b"),
    "customer": CreateRequest(customer_name="Ada", is_b2b=True),
    "dataclass": Order(1, frozenset(TAGS)),
    "enum": Side.BUY,
    "named tuple": Cancel("o-1"),
    "date": date(2026, 1, 2),
    "datetime": datetime(2026, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 - a naive one is taken too
    "moment": datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))),
    "time": time(12, 30),
    "span": timedelta(days=-1, microseconds=1),
    "decimal": Decimal("-1.50"),
    "whole decimal": Decimal(1500),
    "infinite decimal": Decimal("Infinity"),
    "uuid": UUID(int=7),
    "bytes": b"\xff\x00",
    "path": PurePosixPath("a/b"),
}

GOLDEN = json.loads((Path(__file__).parent / "digests.json").read_text())
"""What each of the values had as its digest when this was written; never to be changed."""


@pytest.mark.parametrize("name", VALUES)
def test_digests_never_change(name: str) -> None:
    """A changed digest would make journals forget finished items and repeat them.

    It does not depend on the process, in which the order of a set depends on PYTHONHASHSEED.
    """
    assert digest_of(VALUES[name]).hex() == GOLDEN[name]


def test_no_two_values_share_a_digest() -> None:
    assert len(set(GOLDEN.values())) == len(VALUES)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (0.0, -0.0),
        (math.nan, -math.nan),
        ((1, 2), [1, 2]),
        ({"a": [1], "b": {2}}, {"b": {2}, "a": [1]}),
        ({"a": 1}, OrderedDict(a=1)),
        ({"a": 1}, MappingProxyType({"a": 1})),
        ({1, 2}, frozenset({2, 1})),
        (Level.LOW, 1),
        (Word.EUR, "EUR"),
        (Decimal("1.10"), Decimal("1.1")),
        (Decimal(0), Decimal("-0.00")),
        (Decimal(100), Decimal("1e2")),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), datetime.fromisoformat("2026-01-02T04:00:00+01:00")),
        (b"a", bytearray(b"a")),
        (PurePosixPath("a"), "a"),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00+00:00"),
        (time(12, 30), "12:30:00"),
        (UUID(int=7), str(UUID(int=7))),
        (Order(1, note="one"), Order(1, note="other")),
        (Basket(tags={"a", "b"}), Basket(tags={"b", "a"})),
        (CreateRequest(customer_name="Ada"), CreateRequest.model_validate({"customerName": "Ada"})),
    ],
)
def test_equal_values_have_one_digest(one: object, other: object) -> None:
    assert digest_of(one) == digest_of(other)
    assert digest_of([one]) == digest_of([other])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (math.nan, "NaN"),
        ({1, 2}, [1, 2]),
        ({1: "a", "1": "b"}, {1: "b", "1": "a"}),
        (Side.BUY, 1),
        (Cancel("o-1"), Refund("o-1")),
        (Cancel("o-1"), ("o-1",)),
        (Order(1), {"number": 1, "tags": []}),
        (Numbers([1]), [1]),
        (date(2026, 1, 2), datetime(2026, 1, 2)),  # noqa: DTZ001
        (Path("a"), Path("b")),
        (CreateRequest(), CreateRequest(customer_name=None)),
        (Basket.model_validate({"tags": [], "more": 1}), Basket(tags=set())),
    ],
)
def test_different_values_have_different_digests(one: object, other: object) -> None:
    """Also values with the same text."""
    assert digest_of(one) != digest_of(other)
    assert digest_of([one]) != digest_of([other])


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
        ({"a": {object()}}, "a object, which"),
        (Order, "a type"),
        ((one for one in TAGS), "a generator"),
        (range(3), "a range"),
        (1 + 2j, "a complex"),
        (ValueError("canary"), "a ValueError"),
        (time(12, tzinfo=UTC), "time with a time zone"),
        (CYCLE, "RecursionError"),
        pytest.param(10**5000, "ValueError", id="an integer of 5000 digits"),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), "OverflowError"),
        (Odd(), "Odd|LookupError"),
        # All masked secrets are equal, so two items would be one.
        (SecretStr("canary"), "holds a secret"),
        ([SecretBytes(b"canary")], "holds a secret"),
        ({"a": "**********"}, "holds a secret"),
        (CreateRequest.model_validate({"person": {"password": "canary"}}), "holds a secret"),
    ],
)
def test_a_key_without_a_digest_is_refused(value: object, named: str) -> None:
    """The error names the class and the way out, and does not show the value."""
    with pytest.raises(InvalidArgumentError, match=named) as caught:
        digest_of(value)

    assert "give key=" in str(caught.value)
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None
