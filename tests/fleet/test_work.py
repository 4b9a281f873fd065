"""Items: what can be seen to be wrong is refused when the plan is made."""

from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from gateway_sdk import GatewaySession, operations
from gateway_sdk.errors import ConfigurationError, InvalidArgumentError, UnexpectedReplyError
from gateway_sdk.fleet._job import make_work
from gateway_sdk.models import CreateRequest, ExchangeRateSeriesRequest, OrderHistoryPage
from tests.fleet.gateways import CountingGateway, customer, series


class AnyBase(BaseModel):
    base: Any


WITH_SECRET = {"person": {"pinCode": "4711"}}
ITEMS: dict[str, Any] = {
    "create_customer": customer(1),
    "revise_customer": {"customer_id": "c1", "revisions": {"name": "x"}},
    "exchange_rate_series": series(1),
    "order_history": {"page": 1, "take": 10},
    "trading_order_history": {"customer_id": "c1"},
    "spot_trading_available_balance": {},
    "cancel_order": {"wallet_id": "w1", "order_id": "o1"},
    "change_document_status": {"document_id": "d1", "content": {"status": "ok"}},
    "update_document": {"document_id": "d1", "content": {"text": 1}},
    "upload_document": {"content": "text", "content_type": "text/plain"},
    "send_webhook": {"content": {"event": 1}},
    "list_countries": {},
}


@pytest.mark.parametrize("operation", operations.OPERATIONS, ids=lambda one: one.name)
async def test_each_operation_takes_its_arguments(
    operation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = CountingGateway()
    monkeypatch.setattr("tests.fleet.gateways.json.loads", str)  # documents are no JSON
    work = make_work(operation, None)
    item = from_json(work.dump(ITEMS[operation.name]))

    async with GatewaySession(**gateway.settings()) as made:
        if operation is operations.LIST_COUNTRIES:
            with pytest.raises(UnexpectedReplyError):
                await work.call(made, item)
        else:
            await work.call(made, item)

    assert gateway.requests == 1
    assert work.is_once is (operation.repeatability is operations.CREATE_CUSTOMER.repeatability)


@pytest.mark.parametrize(
    ("operation", "item", "same"),
    [
        ("create_customer", CreateRequest.model_validate(customer(1)), customer(1)),
        (
            "exchange_rate_series",
            ExchangeRateSeriesRequest(
                base="B1", symbols="USD", start_date=date(2026, 1, 1), end_date="2026-01-31"
            ),
            {**series(1), "symbols": "USD"},
        ),
        ("exchange_rate_series", {**series(1), "start_date": date(2026, 1, 1)}, series(1)),
        ("order_history", OrderHistoryPage(page=1, take=10), {"take": 10, "page": 1}),
    ],
)
def test_models_and_mappings_are_the_same(operation: str, item: Any, same: Any) -> None:
    work = make_work(operation, None)

    assert work.dump(item) == work.dump(same)


@pytest.mark.parametrize(
    ("operation", "item", "message"),
    [
        ("exchange_rate_series", "EUR", "must be a mapping .* base, symbols, start"),
        ("list_countries", 1, "arguments of list_countries: none"),
        ("exchange_rate_series", AnyBase(base=object()), "a value that is not JSON"),
        ("exchange_rate_series", {"base": "EUR"}, "missing a required argument: 'symbols'"),
        ("exchange_rate_series", {**series(1), "pin": 4711}, "unexpected keyword argument 'pin'"),
        ("exchange_rate_series", {**series(1), "symbols": []}, "symbols is empty"),
        ("cancel_order", {"wallet_id": "", "order_id": "4711"}, "wallet_id is empty"),
        ("cancel_order", {"wallet_id": 4711, "order_id": "1"}, "wallet_id must be a string"),
        ("order_history", {"page": "x", "take": 1}, "page"),
        ("create_customer", {"person": {"nme": 4711}}, "nme"),
        ("create_customer", WITH_SECRET, "holds a secret, which would be kept in clear"),
        ("create_customer", CreateRequest.model_validate(WITH_SECRET), "holds a secret"),
        ("change_document_status", {"document_id": "1", "content": None}, "content is missing"),
        ("upload_document", {"content": float("nan")}, r"no JSON value \(ValueError\)"),
        ("upload_document", {"content": object()}, "no JSON value"),
    ],
)
def test_wrong_items_are_refused(operation: str, item: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        make_work(operation, None).dump(item)

    assert "4711" not in str(caught.value)


def test_an_item_that_cannot_be_read_again_is_refused() -> None:
    """Its lists lie too deep for the reader, or even for the writer."""
    for levels in (300, 100_000):
        item: Any = 0
        for _ in range(levels):
            item = [item]
        with pytest.raises(InvalidArgumentError, match="no JSON value"):
            make_work(None, with_anything).dump(item)


class Query(BaseModel):
    model_config = ConfigDict(strict=True)
    number: Annotated[int, Field(serialization_alias="n", validation_alias="n")]
    day: date = date(2026, 1, 1)


async def with_model(gateway: GatewaySession, item: Query) -> tuple[int, date]:
    return item.number, item.day


async def with_anything(gateway: Any, item) -> Any:  # type: ignore[no-untyped-def] # noqa: ANN001
    return item


async def with_any_number(*both: Any) -> Any:
    return both[1]


class Callable_:  # noqa: N801 - an instance is the function
    async def __call__(self, gateway: Any, item: str) -> str:
        return item


DAY = date(2026, 1, 1)


@pytest.mark.parametrize(
    ("function", "item", "text", "value"),
    [
        (with_model, Query.model_validate({"n": 3}), '{"n":3}', (3, DAY)),
        (with_model, {"n": 3, "day": DAY}, '{"day":"2026-01-01","n":3}', (3, DAY)),
        (with_anything, {"b": [1], "a": None}, '{"a":null,"b":[1]}', {"b": [1], "a": None}),
        (with_anything, [10**99, 1.5], f"[{10**99},1.5]", [10**99, 1.5]),
        (with_any_number, "x", '"x"', "x"),
        (Callable_(), "é", '"é"', "é"),
    ],
)
async def test_functions_get_the_type_that_they_name(
    function: Any, item: Any, text: str, value: Any
) -> None:
    work = make_work(None, function)

    assert work.dump(item) == text.encode()
    assert await work.call(None, from_json(text)) == value  # type: ignore[arg-type]
    assert not work.is_once


@pytest.mark.parametrize("item", [{"n": "x4711"}, {"m": 4711}, [4711]])
def test_items_that_a_function_does_not_take_are_refused(item: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        make_work(None, with_model).dump(item)

    assert "4711" not in str(caught.value)


async def no_arguments() -> None: ...


async def a_session_as_item(gateway: Any, item: GatewaySession) -> None: ...


async def with_type_of_checkers(gateway: "Unknown", item: Any) -> Any:  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
    ...


async def yields(gateway: Any, item: Any) -> Any:
    yield item


@pytest.mark.parametrize(
    ("operation", "function", "message"),
    [
        (None, None, "either operation= or function="),
        ("create_customer", with_model, "either operation= or function="),
        ("rates", None, "operation must be one of create_customer, "),
        (3, None, "operation must be one of create_customer, "),
        (None, print, "must be a coroutine function"),
        (None, "print", "must be a coroutine function"),
        (None, yields, "must be a coroutine function"),
        (None, no_arguments, "must take two arguments"),
        (None, a_session_as_item, "takes a GatewaySession as its item"),
        (None, with_type_of_checkers, r"not there when it runs \(Unknown\)"),
    ],
)
def test_wrong_work_is_refused(operation: Any, function: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_work(operation, function)
