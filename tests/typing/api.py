"""How the package looks to a type checker; checked by mypy and basedpyright, never run."""

from collections.abc import AsyncIterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, TypedDict, assert_type

import httpx
from pydantic import SecretStr

from gateway_sdk import (
    Advice,
    GatewaySession,
    Outcome,
    Reply,
    RetryPolicy,
    StatusError,
    bulk,
    operations,
)
from gateway_sdk.models import (
    Country,
    CreateRequest,
    DocumentsItem,
    ErrorPayload,
    ExchangeRateSeriesRequest,
    Name,
    NotificationsItem,
    PersonData,
    Revision,
    SecretQuestionItem,
)


async def token() -> str:
    return "token"


async def every_word() -> AsyncIterator[str]:
    yield "word"


class Tokens:
    async def token(self, rejected: str | None = None) -> str:
        return "token"


class Status(TypedDict):
    """A document's status in the user's own words."""

    status: str


class OtherRequest:
    """A request of another library, as httpx2 has one."""


class OtherTransport:
    """A transport with the methods of httpx2's."""

    async def handle_async_request(self, request: OtherRequest) -> OtherRequest:
        return request

    async def aclose(self) -> None: ...


class OtherClient:
    """A client with the methods of httpx2's."""

    is_closed = False

    async def send(
        self,
        request: OtherRequest,
        *,
        stream: bool = False,
        auth: object = None,
        follow_redirects: bool | object = None,
    ) -> OtherRequest:
        return request


def every_way_to_send() -> None:
    """Give transports and clients of httpx, and those that look like httpx2's."""
    url = "https://gateway.example.com"
    GatewaySession(
        url, access_token="t", transport=httpx.MockTransport(lambda _: httpx.Response(200))
    )
    GatewaySession(url, access_token="t", transport=httpx.AsyncHTTPTransport(retries=1))
    GatewaySession(url, access_token="t", http_client=httpx.AsyncClient())
    GatewaySession(url, access_token="t", transport=OtherTransport())
    GatewaySession(url, access_token="t", http_client=OtherClient())
    GatewaySession(url, access_token="t", transport=httpx.AsyncClient())  # type: ignore[arg-type]
    GatewaySession(url, access_token="t", http_client=httpx.Client())  # type: ignore[arg-type]


async def every_operation() -> None:
    async with GatewaySession(
        "https://gateway.example.com",
        access_token=Tokens(),
        tenant_id="acme",
        token_header=SecretStr("header"),
        timeout=5,
        retry=RetryPolicy(attempts=2),
        headers={"X-Trace": "1"},
        parse_float=Decimal,
    ) as gateway:
        assert_type(await gateway.country_data.list_countries(), list[Country])
        assert_type(await gateway.currency.exchange_rate_series(
            base="EUR", symbols=["USD", "GBP"], start_date=date(2026, 1, 1), end_date="2026-10-30"
        ), Any)  # fmt: skip
        request = CreateRequest(
            customer_type="person",
            is_b2b=False,
            person=PersonData(
                first_name=Name(name="Ada"),
                pin_code=SecretStr("1234"),
                password="never shown in a log",
                documents=[DocumentsItem(verification_response={"ok": True})],
                secret_question=(SecretQuestionItem(question="?", answer=None),),
            ),
            notifications=[NotificationsItem(is_enabled=True)],
        )
        await gateway.customer.create_customer(request)
        await gateway.customer.create_customer({"customerType": "person"})
        await gateway.customer.revise_customer("c-1", {"email": "ada@example.com"})
        await gateway.customer.revise_customer("c-1", [Revision(key="email", value="a@b.c")])
        await gateway.wallet.cancel_order("w-1", "o-1")
        await gateway.aml.upload_document(Path("passport.pdf"), on_progress=print)
        await gateway.aml.change_document_status("d-1", Status(status="ok"))
        maybe = await gateway.send(operations.ORDER_HISTORY, body={}, into=Country | None)
        assert_type(maybe, Reply[Any])
        assert_type(await gateway.wallet.order_history(1, 5), Any)
        assert_type(await gateway.wallet.order_history(1, 5, into=list[Country]), list[Country])
        assert_type(await gateway.wallet.order_history(1, 5, into=Country | None, deadline=5), Any)
        assert_type(await gateway.kyc.send_webhook(headers={"X-Trace": "1"}), None)
        assert_type(await gateway.send(operations.LIST_COUNTRIES), Reply[list[Country]])
        assert_type(
            await gateway.send(operations.ORDER_HISTORY, body={"page": 1, "take": 1}, into=Country),
            Reply[Country],
        )
        view = gateway.with_options(
            access_token=token, tenant_id=None, headers={"X-Trace": None}, deadline=None, retry=None
        )
        assert_type(view, GatewaySession)


async def every_result() -> None:
    gateway = GatewaySession.from_env(tenant_id="acme", token_store="keyring", deadline=None)
    # A checker that takes one of the next two for right complains of the comment.
    GatewaySession.from_env(tenant="acme")  # type: ignore[call-arg]
    async for result in bulk.run(gateway.wallet.trading_order_history, ["c-1", "c-2"]):
        assert_type(result.item, str)
        assert_type(result.value, Any)  # a method that is generic in `into` would leave it unknown
        assert_type(result.attempts, int)
        assert_type(result.advice, Advice | None)
        assert_type(result.outcome, Outcome | None)
    async for page in gateway.wallet.order_history_pages(into=list[Country], deadline=5):
        assert_type(page, list[Country])
    async for page in gateway.wallet.order_history_pages(headers={"X-Trace": "1"}):
        assert_type(page, Any)
    query = ExchangeRateSeriesRequest(
        base="EUR", symbols="USD", start_date="2026-01-01", end_date="2026-01-31"
    )
    same = ExchangeRateSeriesRequest(
        base="EUR", symbols={"USD", "GBP"}, start_date=date(2026, 1, 1), end_date=date(2026, 1, 31)
    )
    assert_type(same.symbols, str)
    assert_type(same.start_date, str)
    ExchangeRateSeriesRequest(base="EUR", symbols=5, start_date="", end_date="")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    async for series in gateway.currency.exchange_rate_series_bulk(
        query.split(days=7), concurrency=bulk.Adaptive(maximum=50), journal=Path("rates.jsonl")
    ):
        assert_type(series.item, ExchangeRateSeriesRequest)
        assert_type(bulk.rate_rows(series.value, base="EUR"), list[bulk.RateRow] | None)
    async for typed in gateway.currency.exchange_rate_series_bulk([query], into=Country, job="j"):
        assert_type(typed.value, Country)
    async for either in gateway.currency.exchange_rate_series_bulk([query], into=Country | None):
        assert_type(either.value, Any)

    async def measure(word: str) -> int:
        return len(word)

    async for length in bulk.run(measure, every_word(), concurrency="adaptive", patience=60):
        assert_type(length.value, int)
    try:
        await gateway.wallet.cancel_order("w-1", "o-1")
    except StatusError as error:
        assert_type(error.payload, ErrorPayload | None)
        assert_type(error.outcome, Outcome)
        assert_type(error.retry_after, float | None)
