"""Digests of keys: the same in every process and version, different for different keys."""

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
    tags: frozenset[str] = frozenset()
    note: str = field(default="", compare=False)


class Basket(BaseModel):
    """A model whose serializer depends on the hash seed."""

    model_config = ConfigDict(extra="allow")
    tags: Annotated[set[str], PlainSerializer(list)]


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
    (set(TAGS), "d2fccfc793edb1533d16b77a04418ba4"),
    ({(one, 1) for one in TAGS}, "ee5b35bb5d00fe6b1a7b8c92afdb51aa"),
    (frozenset({frozenset(TAGS), frozenset(TAGS[:2])}), "162567e375ec7fc1c761483ab817bf83"),
    (Basket(tags=set(TAGS)), "392fcddb5e2fa12dd1d8c746b213ff32"),
    (Basket.model_validate({"tags": [], "more": set(TAGS)}), "ba1d7ce0a65221c68f2875d43ba71e48"),
    (Numbers([1, 2]), "8c4c84e638cccfdfe16e75a49ad83362"),
    (
        ExchangeRateSeriesRequest(base="EUR", symbols="USD", start_date="a", end_date="b"),
        "58eb0782469675abaa5b1897e077c25e",
    ),
    (CreateRequest(customer_name="Ada", is_b2b=True), "8b4b3de6b6e9e8311f99318fc25fab56"),
    (Order(1, frozenset(TAGS)), "c30d8367b06a4436f1ec4d8d0c621cc8"),
    (Side.BUY, "abf5f2229f585f8ccf0614f73637cd6a"),
    (Cancel("o-1"), "5bb66b8dfc5b155ff68cdcbd3a328458"),
    (date(2026, 1, 2), "7c9ce107b693b9305ea2bbb4bb5fc63e"),
    (datetime(2026, 1, 2, 3, 4, 5, 6), "3b1b0f7e924de57811d8929c0d768b41"),  # noqa: DTZ001 - a naive one is taken too
    (
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))),
        "ec4472023857dbbc1d8a9401b44453d8",
    ),
    (time(12, 30), "4f2c4290643c61347f2073b31094d557"),
    (timedelta(days=-1, microseconds=1), "6dac697ed2db83965c7b3669e56810ec"),
    (Decimal("-1.50"), "a8b40c6737c3557838064be4c3544e80"),
    (Decimal(1500), "690bb55e81db4c84b075b8a81a4619f6"),
    (Decimal("Infinity"), "edd61add63b775944c8ea6b9ed9fdf8f"),
    (UUID(int=7), "c6eefb1702396898d355291566ffcce8"),
    (b"\xff\x00", "f147acd249916efbc4bcd9b835a6d0ae"),
    (PurePosixPath("a/b"), "230946ed745902acf0bcb8a5605f7c24"),
]


@pytest.mark.parametrize(("value", "digest"), GOLDEN)
def test_digests_never_change(value: object, digest: str) -> None:
    """Else journals forget finished items; the order of a set depends on PYTHONHASHSEED."""
    assert digest_of(value).hex() == digest


def test_no_two_values_share_a_digest() -> None:
    assert len({digest for _, digest in GOLDEN}) == len(GOLDEN)


EQUAL: list[tuple[object, object]] = [
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
]

DIFFERENT: list[tuple[object, object]] = [
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
]


@pytest.mark.parametrize(
    ("one", "other", "is_equal"),
    [*((*pair, True) for pair in EQUAL), *((*pair, False) for pair in DIFFERENT)],
)
def test_only_equal_values_have_one_digest(one: object, other: object, is_equal: bool) -> None:
    assert (digest_of(one) == digest_of(other)) is is_equal
    assert (digest_of([one]) == digest_of([other])) is is_equal


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
    with pytest.raises(InvalidArgumentError, match=named) as caught:
        digest_of(value)

    assert "give key=" in str(caught.value)
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None
