"""All twelve operations through a session, against the sandbox that knows only the interface."""

import hashlib
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import (
    ConflictError,
    GatewaySession,
    InvalidRequestError,
    NotFoundError,
    Outcome,
    operations,
)
from gateway_sdk.models import Country, CreateRequest, OrderHistoryPage, Revision
from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Sandbox
from tests.interface_table import FILLED


@pytest.fixture(params=["in process", "over a socket"])
async def gateway(
    request: pytest.FixtureRequest, gateway_sandbox: Sandbox
) -> AsyncIterator[GatewaySession]:
    settings: dict[str, Any] = {
        "access_token": SANDBOX_ACCESS_TOKEN,
        "tenant_id": "acme",
        "token_header": "tok",
    }
    if request.param == "in process":
        transport = gateway_sandbox.transport()
        made = GatewaySession("https://sandbox", transport=transport, **settings)
    else:
        made = GatewaySession(request.getfixturevalue("gateway_url"), **settings)
    async with made:
        yield made


async def test_create_customer(gateway: GatewaySession, gateway_sandbox: Sandbox) -> None:
    created = await gateway.customer.create_customer(CreateRequest.model_validate(FILLED))

    assert created == {"customerId": "customer-0005", "externalCustomerId": "externalCustomerId"}
    with pytest.raises(ConflictError) as caught:
        await gateway.customer.create_customer(FILLED)
    assert caught.value.outcome is Outcome.REFUSED
    assert caught.value.payload is not None
    assert caught.value.payload.status == 409
    assert caught.value.payload.path == "/customer/1.0.0/create"
    assert [call.applied for call in gateway_sandbox.received] == [True, False]


async def test_revise_customer(gateway: GatewaySession) -> None:
    revisions = [Revision(key="city", value="Bonn"), Revision(key="city", value="Köln")]

    await gateway.customer.revise_customer("customer-0001", revisions)
    revised = await gateway.customer.revise_customer("customer-0001", {"name": "A"})

    assert revised == {"customerId": "customer-0001", "current": {"city": "Köln", "name": "A"}}
    with pytest.raises(NotFoundError):
        await gateway.customer.revise_customer("nobody", {"a": "b"})


async def test_exchange_rate_series(gateway: GatewaySession) -> None:
    series = await gateway.currency.exchange_rate_series(
        "EUR", ["USD", "GBP"], date(2024, 1, 2), "2024-01-03"
    )

    assert series["symbols"] == "USD,GBP"
    assert series["startDate"] == "2024-01-02"
    assert list(series["rates"]) == ["2024-01-02", "2024-01-03"]
    assert set(series["rates"]["2024-01-02"]) == {"USD", "GBP"}
    assert series["rates"]["2024-01-02"]["USD"] == 1.0956
    with pytest.raises(InvalidRequestError):
        await gateway.currency.exchange_rate_series("EUR", "USD", "yesterday", "today")


async def test_order_history(gateway: GatewaySession) -> None:
    page = await gateway.wallet.order_history(page=2, take=5)
    history = await gateway.wallet.trading_order_history("customer-0001")
    balances = (await gateway.wallet.spot_trading_available_balance())["balances"]

    assert (page["page"], page["take"], page["total"]) == (2, 5, 57)
    ids = [order["orderId"] for order in page["orders"]]
    assert ids == [f"order-{number:04}" for number in range(52, 47, -1)]
    assert history["customerId"] == "customer-0001"
    assert {order["customerId"] for order in history["orders"]} == {"customer-0001"}
    assert " ".join(one["currency"] for one in balances) == "CHF EUR GBP JPY PLN USD"
    for customer_id in ("nobody", "a/b", "%2e%2e", "..%2f", "ä?#\\"):
        with pytest.raises(NotFoundError):
            await gateway.wallet.trading_order_history(customer_id)


async def test_cancel_order(gateway: GatewaySession) -> None:
    orders = (await gateway.wallet.order_history(1, 100))["orders"]
    order = next(order for order in orders if order["status"] == "open")
    filled = next(order for order in orders if order["status"] == "filled")

    for _ in range(2):
        cancelled = await gateway.wallet.cancel_order(order["walletId"], order["orderId"])
        assert cancelled == {**order, "status": "cancelled"}
    with pytest.raises(ConflictError):
        await gateway.wallet.cancel_order(filled["walletId"], filled["orderId"])
    with pytest.raises(NotFoundError):
        await gateway.wallet.cancel_order("wallet-9999", order["orderId"])


async def test_documents(gateway: GatewaySession, tmp_path: Path) -> None:
    scan = b"%PDF-" + bytes(200_000)
    (tmp_path / "scan.pdf").write_bytes(scan)
    progress: list[tuple[int, int | None]] = []

    async def stream() -> AsyncIterator[bytes]:
        yield scan[:7]
        yield scan[7:]

    uploaded = await gateway.aml.upload_document(b"x", "image/png")
    replaced = await gateway.aml.update_document(
        uploaded["documentId"],
        tmp_path / "scan.pdf",
        on_progress=lambda sent, total: progress.append((sent, total)),
    )
    streamed = await gateway.aml.update_document(uploaded["documentId"], stream(), "text/csv")
    statuses = [
        (await gateway.aml.change_document_status(uploaded["documentId"], status))["status"]
        for status in ("approved", {"status": "rejected"})
    ]

    digest = hashlib.sha256(scan).hexdigest()
    assert (uploaded["size"], uploaded["contentType"]) == (1, "image/png")
    assert (replaced["sha256"], replaced["contentType"]) == (digest, "application/pdf")
    assert (streamed["sha256"], streamed["contentType"]) == (digest, "text/csv")
    assert statuses == ["approved", "rejected"]
    assert progress[-1] == (200_005, 200_005)
    assert progress == sorted(progress)


async def test_webhook_and_countries(gateway: GatewaySession, gateway_sandbox: Sandbox) -> None:
    assert await gateway.kyc.send_webhook() is None  # type: ignore[func-returns-value]
    assert await gateway.kyc.send_webhook({"kind": "x"}) is None  # type: ignore[func-returns-value]
    countries = await gateway.country_data.list_countries()

    assert [call.status for call in gateway_sandbox.received] == [202, 202, 200]
    poland = next(country for country in countries if country.two_digit_iso_code == "PL")
    assert len({country.id for country in countries}) == len(countries) > 150
    assert all(type(country) is Country for country in countries)
    assert not any(country.model_extra for country in countries)
    assert (poland.country_name, poland.nationality) == ("Poland", "Polish")
    assert (poland.three_digit_iso_code, poland.currency) == ("POL", "PLN")
    assert str(poland.phone_code).lstrip("+") == "48"


async def test_send_says_the_same_with_more(gateway: GatewaySession) -> None:
    reply = await gateway.send(
        operations.ORDER_HISTORY, body=OrderHistoryPage(page=1, take=1), into=dict[str, Any]
    )

    assert reply.status == 200
    assert reply.value["total"] == 57
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.body.startswith(b'{"page":1')
    assert [attempt.status for attempt in reply.attempts] == [200]
    assert reply.elapsed > 0
