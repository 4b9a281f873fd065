"""Replies that are validated with `parse_float`: with every digit, and else as without it."""

import dataclasses
import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from types import FrameType
from typing import Annotated, Any, Literal

import pytest
from hypothesis import example, given, settings, strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    GetPydanticSchema,
    Json,
    JsonValue,
    PlainValidator,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic_core.core_schema import chain_schema, decimal_schema
from typing_extensions import (  # before Python 3.12 pydantic takes no others
    TypeAliasType,
    TypedDict,
)

from gateway_sdk import UnexpectedReplyError, operations
from gateway_sdk._http.reply import ContentError, RawReply, decode
from tests.http.replying import replying

ORDER = {"walletId": "w-1", "orderId": "o-1"}
DIGITS, DAY = b"12345678901234567890.12", date(2026, 1, 31)
EXACT = Decimal(DIGITS.decode())


class ExactOrder(BaseModel, strict=True):
    amount: Decimal
    day: date


class Open(BaseModel, extra="allow"):
    day: date | None = None


Amount = TypeAliasType("Amount", Decimal)
Chained = Annotated[Any, GetPydanticSchema(lambda _, __: chain_schema([decimal_schema()]))]


class Fee(float, Enum):
    LOW = 1.5
    HIGH = 2.0


class Names(BaseModel):
    """Its fields have the names of parts of a schema."""

    metadata: Decimal | None = None
    default: Any = None
    config: dict[str, Decimal] | list[Any] | None = None
    cls: list[Decimal] | Decimal | None = None
    serialization: Fee | None = None
    type: float | Decimal | None = None


class NamesOfDict(TypedDict, total=False):
    metadata: Decimal
    config: Any
    type: Decimal


@pytest.mark.parametrize(
    ("into", "body", "value"),
    [
        (None, b"[0.10,-0.0,1e2,7]", [Decimal("0.10"), Decimal("-0.0"), Decimal("1E+2"), 7]),
        (dict[str, Any], b'{"a":12345678901234567890.12}', {"a": EXACT}),
        (dict[str, Decimal], b'{"a":12345678901234567890.12}', {"a": EXACT}),
        (list[float], b"[1.5]", [1.5]),
        (list[Decimal], b"[1.5,1.50]", [Decimal("1.5"), Decimal("1.5")]),  # the same number
        (Any, b"[1.5,1.50]", [Decimal("1.5"), Decimal("1.50")]),
        (list[Any], b"[0.0,-0.0]", [Decimal("0.0"), Decimal("-0.0")]),
        (list[Any], b"[[0.25,{}]]", [[Decimal("0.25"), {}]]),
        (tuple[Decimal, date], b'[12345678901234567890.12,"2026-01-31"]', (EXACT, DAY)),
        (
            ExactOrder,
            b'{"amount":12345678901234567890.12,"day":"2026-01-31"}',
            ExactOrder(amount=EXACT, day=DAY),
        ),
        (
            Names,
            b'{"metadata":%b,"default":[%b],"config":{"type":%b},"cls":%b}' % (4 * (DIGITS,)),
            Names(metadata=EXACT, default=[EXACT], config={"type": EXACT}, cls=EXACT),
        ),
        (
            NamesOfDict,
            b'{"metadata":%b,"config":[%b],"type":%b}' % (3 * (DIGITS,)),
            {"metadata": EXACT, "config": [EXACT], "type": EXACT},
        ),
        (Open, b'{"x":[%b]}' % DIGITS, Open(x=[EXACT])),  # type: ignore[call-arg]
        (tuple[Amount, Amount], b"[%b,1]" % DIGITS, (EXACT, Decimal(1))),
        (Chained, DIGITS, EXACT),
        (
            dict[Decimal, Decimal | str],
            b'{"12345678901234567890.12":%b,"1":"x"}' % DIGITS,
            {EXACT: EXACT, Decimal(1): "x"},
        ),
    ],
)
async def test_every_digit_is_kept_for_parse_float(into: Any, body: bytes, value: Any) -> None:
    """What is validated is exact too; pydantic reads the numbers of JSON as floats."""
    gateway = replying(body, parse_float=Decimal)

    reply = await gateway.send(operations.ORDER_HISTORY, body={"page": 1, "take": 1}, into=into)

    assert repr(reply.value) == repr(value)
    gateway = replying(b'{"a":1.5,"b":[]}', parse_float=Decimal)
    with pytest.raises(UnexpectedReplyError) as caught:
        await gateway.send(operations.CANCEL_ORDER, path=ORDER, into=dict[str, float])
    assert caught.value.problems == "b: Input should be a valid number"


def read_into(into: Any, text: str, parse_float: Any) -> Any:
    fields = [(b"content-type", b"application/json")]
    reply = RawReply(200, fields, dict(fields), body=text.encode())
    return decode(reply, operations.CANCEL_ORDER, into, parse_float)


class Steps:
    """Counts the lines of Python that run, and stops what runs too many."""

    def __init__(self, most: int) -> None:
        self._left = most

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._follow)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _follow(self, _frame: FrameType, event: str, _arg: object) -> Any:
        self._left -= event == "line"
        if self._left < 0:
            raise RuntimeError("too many steps")
        return self._follow


SPELLINGS = ["1.{}", "-1.{}", "0.{}", "0.1{}", "1.5{}", "1.0{}e300", "-0.0{}", "-1.50{}E1"]
CROWDS = [
    *([text.format("0" * n) for n in range(1, 50)] for text in SPELLINGS),
    [f"{n}e-400" for n in range(50)],
    [f"0.1000000000000000055511151231257827{n}" for n in range(5000)],
    # Of floats side by side: the digits of a float, and more.
    [f"{Decimal(1.5 - n % 60 / 2**52):.52f}{n:04}" for n in range(3600)],
    [
        text + f"{n:04}"
        for n in range(500)
        for text in ("1.00000000000000000", "0.99999999999999999")
    ],
]


@pytest.mark.parametrize("texts", CROWDS, ids=lambda texts: texts[0])
def test_numbers_that_share_a_float_are_told_apart_in_few_steps(texts: list[str]) -> None:
    with Steps(50 * len(texts)):
        found = read_into(list[Decimal], f"[{','.join(texts)}]", Decimal)

    assert found == [Decimal(text) for text in texts]


def test_spellings_of_a_number_beyond_floats_end() -> None:
    texts = [f"1.{'0' * n}e999" for n in range(1, 50)]
    with Steps(100_000), pytest.raises(ContentError):
        read_into(list[Decimal], f"[{','.join(texts)}]", Decimal)


async def test_a_country_may_hold_a_number_in_many_spellings() -> None:
    """Its unknown fields are open."""
    body = b'[{"id":1,"lat":1.0,"long":1.00,"area":1.000}]'
    with Steps(100_000):
        (country,) = await replying(body, parse_float=Decimal).country_data.list_countries()
    assert country.model_extra == dict.fromkeys(("lat", "long", "area"), Decimal(1))


class Color(Enum):
    RED = "red"
    ONE = 1


@dataclasses.dataclass
class Point:
    x: Decimal
    y: float = 0.0


class Shape(BaseModel):
    name: str
    points: tuple[Point, ...] = ()
    size: int | str | None = None


class StrictShape(Shape, strict=True):
    seen: datetime | None = None
    color: Color | None = None
    sizes: dict[int, Iterable[date]] = {}


class OwnInit(BaseModel):
    x: Decimal
    more: Any = None

    def __init__(self, **given: Any) -> None:
        super().__init__(more=repr(given), **given)


class Computed(BaseModel):
    x: float
    y: Decimal | None = None
    more: Any = None

    @model_validator(mode="before")
    @classmethod
    def compute(cls, given: Any) -> Any:
        return {"more": OrderedDict(a=given["x"] / 3), **given, "y": given["x"] * 1.1}


class Defaults(BaseModel, validate_default=True):
    x: Decimal = 0.3  # type: ignore[assignment]
    y: float = 0.1
    more: Any = [0.7]
    kind: Any = {"type": "decimal"}


class Percent(BaseModel):
    x: Annotated[float, BeforeValidator(lambda value: float(str(value).rstrip("%")) / 100)]
    y: Annotated[Decimal, BeforeValidator(lambda value: value)] | None = None


class Tagged(BaseModel):
    x: Annotated[int, Tag("int")] | Annotated[Decimal, Tag("decimal")] | None = None


TYPES: list[Any] = [
    *(str, int, float, bool, Decimal, date, datetime, timedelta, Color, Any, bytes, complex),
    *(list[Decimal], tuple[int, str], set[float], frozenset[date], dict[str, Decimal]),
    *(Decimal | str, int | str, float | None, Literal[1, "1.5"], list[int | str], list[Any]),
    *(str | Decimal, float | Decimal | str | None, Decimal | int, int | Decimal, Decimal | float),
    *(bool | float, Decimal | bool, Decimal | Any, list[Decimal] | list[float], Fee, JsonValue),
    *(Point, Shape, Open, StrictShape, dict[str, Shape], Annotated[Decimal, Field(gt=1)]),
    *(Names, NamesOfDict, OwnInit, Computed, Defaults, Percent, Tagged, list[Percent | OwnInit]),
    *(Annotated[list[Decimal], Json], Json, Iterable[Decimal], dict[Decimal, Iterable[float]]),
    *(
        list[Annotated[Any, PlainValidator(repr)]],
        Annotated[str, Field(coerce_numbers_to_str=True)],
    ),
    *(Annotated[str, Field(strict=True)], Annotated[date, Field(strict=True)]),
    *(Annotated[Decimal, Field(strict=True)], Annotated[tuple[date, float], Field(strict=True)]),
    *(Annotated[Decimal | int, Field(strict=True)], Annotated[Fee, Field(strict=True)]),
    dict[Annotated[int, Field(strict=True)], Decimal | str],
]


def _object(fields: dict[str, str]) -> str:
    return "{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}"


NUMBERS = st.sampled_from(
    [
        "1.5",
        "1.50",
        "0.0",
        "-0.0",
        "2.0",
        "2.00",
        "1e2",
        "0.1",
        "1.7e9",
        "1E-7",
        "12345678901234567890.12",
    ]
)
LEAVES = NUMBERS | st.sampled_from(
    [
        "1",
        "0",
        "-7",
        "null",
        "true",
        '"x"',
        '"1.5"',
        '"red"',
        '"2.5%"',
        '"[1.50,0.1]"',
        '"2026-01-31"',
        '"2026-01-31T10:00:00Z"',
        '"P1D"',
    ]
)
FIELDS = st.sampled_from(
    ["name", "points", "size", "x", "y", "day", "seen", "color", "more", "sizes", "1.50"]
)
FIELD_NAMES = st.sampled_from([*Names.model_fields])
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda some: f"[{','.join(some)}]")
        | st.dictionaries(FIELDS | FIELD_NAMES, inner, max_size=4).map(_object)
    ),
    max_leaves=5,
)


def rounded(value: Any, number: type) -> Any:
    """Return a value with its types, and of numbers that may be exact what a float holds."""
    if isinstance(value, float | Decimal):
        # With Decimal in place of float a Decimal may stand where anything fits.
        kind = Decimal if number is Decimal and type(value) is float else type(value)
        return kind, repr(float(value))
    parts = value
    if isinstance(value, BaseModel | Point):
        parts = [*vars(value).items(), getattr(value, "model_extra", None)]
    elif isinstance(value, dict):
        parts = [*value.items()]
    elif isinstance(value, Iterator):
        try:
            value = parts = list(value)
        except ValidationError as error:
            value = parts = [problem["type"] for problem in error.errors()]
    if isinstance(parts, list | tuple | set | frozenset):
        return type(value), [rounded(one, number) for one in parts]
    return type(value), value


CROWD = "0.3,0.30000000000000000001,0.3000000000000000000100"


@pytest.mark.parametrize("into", TYPES, ids=str)
@settings(max_examples=settings().max_examples // 2)
@given(text=VALUES, more=st.sampled_from(["0.5", CROWD]))
@example(text='"1.5"', more="0.5")
@example(text='"[1.50,0.1]"', more="0.5")
@example(text="[1.50,1.5]", more="0.5")
@example(text="[0.0,-0.0]", more="0.5")
@example(text='{"1":1}', more=CROWD)
@example(text='{"x":"2.5%"}', more="0.5")
@example(text='{"x":1.50,"y":1.5}', more=CROWD)
@example(text='{"metadata":1.50,"default":1.5,"config":{"x":1.500}}', more="0.5")
def test_exact_numbers_are_taken_as_the_same_json_is_without_them(
    into: Any, text: str, more: str
) -> None:
    """By every type, strict ones too: no number passes for a text, and a text may be a date."""
    body = f"[{text},[{more}]]"  # there is a number in any case
    wanted = tuple[into, list[Any]]

    for number in (float, Decimal):
        try:
            expected = read_into(wanted, body, None)
        except ContentError:  # a validator raised something, as that of pydantic 2.13 may
            continue
        except ValidationError:
            with pytest.raises(ValidationError):
                read_into(wanted, body, number)
            continue
        found = read_into(wanted, body, number)

        assert rounded(found, number) == rounded(expected, number)
        assert found[1] == list(map(number, more.split(",")))
        assert {*map(type, found[1])} == {number}


TWINS = ["1.00000000000000000001", "1.0", "1e0", "1.0000000000000000001", "1.0000000000000002"]


@pytest.mark.parametrize("number", [Decimal, float])
@pytest.mark.parametrize(
    ("into", "make"),
    [
        (list[Decimal], Decimal),
        (list[Any], None),
        (Iterable[Decimal], Decimal),
        (Iterable[Iterable[Decimal]], Decimal),
        (list[float], float),
        (list[JsonValue], None),
        (list[float | Decimal], float),
        (Annotated[list[Decimal], Field(strict=True)], Decimal),
    ],
    ids=str,
)
def test_numbers_that_share_a_float_are_each_exact(into: Any, make: Any, number: type) -> None:
    nested = into == Iterable[Iterable[Decimal]]
    texts = [f"[{text}]" if nested else text for text in TWINS]

    found = read_into(into, f"[{','.join(texts)}]", number)

    numbers = [next(iter(one)) if nested else one for one in found]
    expected = [(make or number)(text) for text in TWINS]
    assert numbers == expected
    assert list(map(type, numbers)) == list(map(type, expected))


def test_a_whole_number_stays_one_beside_another_with_its_float() -> None:
    assert read_into(list[int], "[1.00000000000000000001,1.0]", Decimal) == [1, 1]


async def test_a_validator_of_the_user_runs_once() -> None:
    calls: list[Any] = []

    def check(value: Decimal) -> Decimal:
        calls.append(value)
        if len(calls) > 1:
            raise ValueError("twice")
        return value

    gateway = replying(b"[0.10,1.5]", parse_float=Decimal)
    into = tuple[Annotated[Decimal, AfterValidator(check)], str]
    with pytest.raises(UnexpectedReplyError) as caught:
        await gateway.send(operations.CANCEL_ORDER, path=ORDER, into=into)

    assert [str(value) for value in calls] == ["0.10"]
    assert caught.value.problems == "1: Input should be a valid string"
