"""Replies that are validated into a type of the user."""

import dataclasses
import json
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Json
from typing_extensions import TypedDict  # before Python 3.12 pydantic takes no other

from gateway_sdk import Outcome, UnexpectedReplyError, operations
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


@pytest.mark.parametrize("into", [Balance | None, None | list[int], Any, None])
@pytest.mark.parametrize(
    ("status", "body"), [(204, b""), (200, b""), (200, b" \r\n"), (200, b"null")]
)
async def test_an_empty_body_is_null(into: Any, status: int, body: bytes) -> None:
    """The gateway has cancelled the order: that it says nothing of it is no error."""
    gateway = replying(body, status=status)

    assert (await gateway.send(operations.CANCEL_ORDER, path=ORDER, into=into)).value is None


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
        (list[Json[int]], b'["{"]', "0: Invalid JSON"),
        (Json[int], b'"{"', "it: Invalid JSON"),
        (list[int], b"", "it: Input should be a valid array"),
    ],
)
async def test_body_that_does_not_fit_a_type(into: Any, body: bytes, problems: str) -> None:
    with pytest.raises(UnexpectedReplyError, match=r"does not fit: see error\.problems") as caught:
        await replying(body).send(operations.CANCEL_ORDER, path=ORDER, into=into)

    assert problems in caught.value.problems
    assert caught.value.body == body
    assert caught.value.outcome is Outcome.APPLIED
    assert CANARY not in texts_of(caught.value)


async def test_message_names_no_key_that_a_type_of_the_user_gives_to_countries() -> None:
    with pytest.raises(UnexpectedReplyError, match=r"does not fit: see error\.problems") as caught:
        await replying(b'[{"%s":"x"}]' % CANARY.encode()).send(
            operations.LIST_COUNTRIES, into=list[dict[str, int]]
        )

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
