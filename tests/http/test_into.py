"""Replies that are validated into a type of the user, also with exact numbers."""

import dataclasses
import json
import sys
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from types import FrameType
from typing import Annotated, Any, Literal

import pytest
from hypothesis import example, given, strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # before Python 3.12 pydantic takes no other

from gateway_sdk import Outcome, UnexpectedReplyError, operations
from gateway_sdk._http.reply import ContentError, RawReply, decode
from gateway_sdk.models import Country
from tests.http.replying import replying
from tests.interface_table import COUNTRY
from tests.support.secrecy import CANARY, texts_of

ORDER = {"walletId": CANARY + "-path", "orderId": CANARY + "-path"}


@dataclasses.dataclass
class Balance:
    currency: str
    available: Decimal


class Page(TypedDict):
    orders: list[int]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    currency: str


INTO: list[tuple[Any, bytes, Any]] = [
    (Balance, b'{"currency":"EUR","available":"1.50"}', Balance("EUR", Decimal("1.50"))),
    (list[Balance], b"[]", []),
    (Page, b'{"orders":[1]}', {"orders": [1]}),
    (Strict, b'{"currency":"EUR"}', Strict(currency="EUR")),
    (list[int], b"[1,2]", [1, 2]),
    (tuple[int, ...], b"[1,2]", (1, 2)),
    (str | None, b"null", None),
    (str | None, b'"x"', "x"),
    (Any, b'{"a":1}', {"a": 1}),
    (Country, json.dumps(COUNTRY).encode(), Country.model_validate(COUNTRY)),
    (Annotated[list[int], Field(min_length=1)], b"[1]", [1]),
    (Annotated[list[int], {"no": ["hash"]}], b"[1]", [1]),
    (dict[str, Decimal], b'{"a":"0.10"}', {"a": Decimal("0.10")}),
]


@pytest.mark.parametrize(("into", "body", "value"), INTO, ids=lambda value: repr(value)[:30])
async def test_body_is_read_into_a_type(into: Any, body: bytes, value: Any) -> None:
    reply = await replying(body).send(operations.CANCEL_ORDER, path=ORDER, into=into)

    assert reply.value == value
    assert type(reply.value) is type(value)
    assert reply.body == body


class One(BaseModel):
    pass


class Other(BaseModel):
    pass


async def test_of_a_union_the_first_type_that_fits_is_taken() -> None:
    """The union in the other order is equal to it."""
    for into, expected in [(One | Other, One), (Other | One, Other)] * 2:
        for wanted in (into, list[into]):  # type: ignore[valid-type]
            gateway = replying(b"{}" if wanted is into else b"[{}]")
            reply = await gateway.send(operations.CANCEL_ORDER, path=ORDER, into=wanted)
            assert type(reply.value if wanted is into else reply.value[0]) is expected


@pytest.mark.parametrize(
    ("into", "body", "problems"),
    [
        (Balance, b'{"currency":"EUR"}', "available: Field required"),
        (Page, b'{"orders":["x"]}', "orders.0: Input should be a valid integer"),
        (Strict, b'{"currency":"EUR","canary-4711":1}', "canary-4711: Extra inputs"),
        (dict[str, int], b'{"canary-4711":"canary-4711"}', "canary-4711: Input should be a valid"),
        (str | None, b"5", "Input should be a valid string"),
        (list[int], b"{", "it: Invalid JSON"),
        (list[int], b"", "it: Invalid JSON"),
    ],
)
async def test_body_that_does_not_fit_a_type(into: Any, body: bytes, problems: str) -> None:
    with pytest.raises(UnexpectedReplyError, match=r"does not fit: see error\.problems") as caught:
        await replying(body).send(operations.CANCEL_ORDER, path=ORDER, into=into)

    assert problems in caught.value.problems
    assert caught.value.body == body
    assert caught.value.outcome is Outcome.APPLIED
    assert CANARY not in texts_of(caught.value)


async def test_validator_that_fails_is_an_error_with_an_outcome() -> None:
    """A validator of the user may raise anything, but the gateway has cancelled the order."""

    def broken(_: object) -> None:
        raise KeyError(CANARY)

    with pytest.raises(UnexpectedReplyError, match="the type raised KeyError") as caught:
        await replying(b"1").send(
            operations.CANCEL_ORDER, path=ORDER, into=Annotated[int, AfterValidator(broken)]
        )

    assert caught.value.outcome is Outcome.APPLIED
    assert CANARY not in texts_of(caught.value)


EXACT, DAY = Decimal("12345678901234567890.12"), date(2026, 1, 31)


class ExactOrder(BaseModel, strict=True):
    amount: Decimal
    day: date


@pytest.mark.parametrize(
    ("into", "body", "value"),
    [
        (None, b"[0.10,-0.0,1e2,7]", [Decimal("0.10"), Decimal("-0.0"), Decimal("1E+2"), 7]),
        (dict[str, Any], b'{"a":12345678901234567890.12}', {"a": EXACT}),
        (dict[str, Decimal], b'{"a":12345678901234567890.12}', {"a": EXACT}),
        (list[float], b"[1.5]", [1.5]),
        (list[Decimal], b"[1.5,1.50]", [Decimal("1.5"), Decimal("1.5")]),  # the same number
        (Any, b"[1.5,1.50]", [Decimal("1.5"), Decimal("1.50")]),
        (list[Any], b"[[0.25,{}]]", [[Decimal("0.25"), {}]]),
        (tuple[Decimal, date], b'[12345678901234567890.12,"2026-01-31"]', (EXACT, DAY)),
        (
            ExactOrder,
            b'{"amount":12345678901234567890.12,"day":"2026-01-31"}',
            ExactOrder(amount=EXACT, day=DAY),
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


def reply_of(body: bytes) -> RawReply:
    fields = [(b"content-type", b"application/json")]
    return RawReply(200, fields, dict(fields), body=body)


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
    [f"0.1000000000000000055511151231257827{n}" for n in range(20_000)],
    [
        text + f"{n:04}"
        for n in range(500)
        for text in ("1.00000000000000000", "0.99999999999999999")
    ],
]


@pytest.mark.parametrize("texts", CROWDS, ids=lambda texts: texts[0])
def test_numbers_that_share_a_float_are_told_apart_in_few_steps(texts: list[str]) -> None:
    reply = reply_of(f"[{','.join(texts)}]".encode())

    with Steps(100 * len(texts)):
        found = decode(reply, operations.CANCEL_ORDER, list[Decimal], Decimal)

    assert found == [Decimal(text) for text in texts]


def test_spellings_of_a_number_beyond_floats_end() -> None:
    texts = [f"1.{'0' * n}e999" for n in range(1, 50)]
    body = f"[{','.join(texts)}]".encode()
    with Steps(100_000), pytest.raises(ContentError):
        decode(reply_of(body), operations.CANCEL_ORDER, list[Decimal], Decimal)


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


class Open(BaseModel, extra="allow"):
    day: date | None = None


class StrictShape(Shape, strict=True):
    seen: datetime | None = None
    color: Color | None = None


TYPES: list[Any] = [
    *(str, int, float, bool, Decimal, date, datetime, timedelta, Color, Any, bytes),
    *(list[Decimal], tuple[int, str], set[float], frozenset[date], dict[str, Decimal]),
    *(Decimal | str, int | str, float | None, Literal[1, "1.5"], list[int | str], list[Any]),
    *(str | Decimal, float | Decimal | str | None),
    *(Point, Shape, Open, StrictShape, dict[str, Shape], Annotated[Decimal, Field(gt=1)]),
    *(Annotated[str, Field(strict=True)], Annotated[date, Field(strict=True)]),
    *(Annotated[Decimal, Field(strict=True)], Annotated[tuple[date, float], Field(strict=True)]),
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
        '"2026-01-31"',
        '"2026-01-31T10:00:00Z"',
        '"P1D"',
    ]
)
FIELDS = st.sampled_from(["name", "points", "size", "x", "y", "day", "seen", "color", "more"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda some: f"[{','.join(some)}]")
        | st.dictionaries(FIELDS, inner, max_size=4).map(_object)
    ),
    max_leaves=5,
)


def rounded(value: Any) -> Any:
    """Return a value with floats in place of decimals."""
    match value:
        case Decimal():
            return float(value)
        case BaseModel():
            return type(value), rounded(dict(value))
        case Point():
            return rounded(value.x), value.y
        case list() | tuple() | set() | frozenset():
            return type(value), [rounded(one) for one in value]
        case dict():
            return {name: rounded(one) for name, one in value.items()}
        case _:
            return value


@pytest.mark.parametrize("into", TYPES, ids=str)
@given(text=VALUES)
@example(text='"1.5"')
def test_exact_numbers_are_taken_as_the_same_json_is_without_them(into: Any, text: str) -> None:
    """By every type, strict ones too: no number passes for a text, and a text may be a date."""
    body = f"[{text},0.5]".encode()  # there is a number in any case
    wanted = tuple[into, Any]
    reply = reply_of(body)

    try:
        expected = TypeAdapter(wanted).validate_json(body)
    except ValidationError:
        with pytest.raises(ValidationError):
            decode(reply, operations.CANCEL_ORDER, wanted, Decimal)
        return
    found = decode(reply, operations.CANCEL_ORDER, wanted, Decimal)

    assert rounded(found) == rounded(expected)
    assert repr(found[1]) == "Decimal('0.5')"


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
