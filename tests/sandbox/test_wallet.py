from typing import Any

import httpx
import pytest

NEWEST = {
    "orderId": "order-0057",
    "customerId": "customer-0001",
    "walletId": "wallet-0001",
    "pair": "EUR/PLN",
    "side": "sell",
    "quantity": "198.31",
    "price": "4.3994",
    "status": "filled",
    "createdAt": "2026-09-22T17:32:42.000Z",
}


async def test_first_page_has_the_newest_orders(client: httpx.AsyncClient) -> None:
    """A page has its number, the total of orders, and begins with the newest order."""
    reply = await client.post("/wallet/1.0.0/orders", json={"page": 1, "take": 10})

    page = reply.json()
    assert reply.status_code == 200
    assert (page["page"], page["take"], page["total"]) == (1, 10, 57)
    assert [order["orderId"] for order in page["orders"][:2]] == ["order-0057", "order-0056"]
    assert page["orders"][0] == NEWEST


async def test_pages_end_with_the_oldest_order(client: httpx.AsyncClient) -> None:
    """Pages have no gap and no overlap, the last is short, and later ones are empty."""
    ids: list[str] = []
    for page, length in [(1, 20), (2, 20), (3, 17), (4, 0)]:
        reply = await client.post("/wallet/1.0.0/orders", json={"page": page, "take": 20})
        orders = reply.json()["orders"]
        assert len(orders) == length
        ids += [order["orderId"] for order in orders]

    assert ids == [f"order-{number:04}" for number in range(57, 0, -1)]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"page": 0, "take": 10}, "$.page must be 1 or more"),
        ({"page": 1, "take": 0}, "$.take must be from 1 to 100"),
        ({"page": 1, "take": 101}, "$.take must be from 1 to 100"),
        ({"page": "1", "take": 10}, "$.page must be an integer"),
        ({"page": True, "take": 10}, "$.page must be an integer"),
        ({"page": 1}, "$.take is missing"),
    ],
)
async def test_impossible_page_is_refused(
    client: httpx.AsyncClient, body: dict[str, Any], message: str
) -> None:
    """An impossible page is refused, and the message says why."""
    reply = await client.post("/wallet/1.0.0/orders", json=body)

    assert reply.status_code == 400
    assert reply.json()["message"] == message


async def test_history_of_a_customer_has_only_its_own_orders(client: httpx.AsyncClient) -> None:
    """The history of a customer lists its orders, the newest first."""
    reply = await client.get("/wallet/1.0.0/customer-0001/trading-order-history")

    history = reply.json()
    assert reply.status_code == 200
    assert history["customerId"] == "customer-0001"
    assert history["orders"][0] == NEWEST
    assert {order["customerId"] for order in history["orders"]} == {"customer-0001"}


async def test_created_customer_has_no_orders(client: httpx.AsyncClient) -> None:
    """The history of a new customer is empty."""
    created = await client.post("/customer/1.0.0/create", json={})

    reply = await client.get(f"/wallet/1.0.0/{created.json()['customerId']}/trading-order-history")

    assert reply.json() == {"customerId": "customer-0005", "orders": []}


async def test_history_of_an_unknown_customer_is_not_found(client: httpx.AsyncClient) -> None:
    """The history of an unknown customer gets 404."""
    reply = await client.get("/wallet/1.0.0/customer-9999/trading-order-history")

    assert reply.status_code == 404


async def test_balance_is_per_currency(client: httpx.AsyncClient) -> None:
    """Each currency has a decimal string."""
    reply = await client.get("/wallet/1.0.0/spot-trading/available-balance")

    assert reply.status_code == 200
    assert reply.json() == {
        "balances": [
            {"currency": "CHF", "available": "26116.11"},
            {"currency": "EUR", "available": "27943.49"},
            {"currency": "GBP", "available": "94705.27"},
            {"currency": "JPY", "available": "63010.42"},
            {"currency": "PLN", "available": "14583.06"},
            {"currency": "USD", "available": "11045.23"},
        ]
    }


async def test_open_order_is_cancelled_once_and_again(client: httpx.AsyncClient) -> None:
    """Cancelling twice succeeds twice, and the order stays cancelled."""
    path = "/wallet/1.0.0/wallet-0004/orders/order-0056"

    first = await client.delete(path)
    second = await client.delete(path)

    assert first.status_code == second.status_code == 200
    assert first.json() == second.json()
    assert first.json()["status"] == "cancelled"


async def test_filled_order_is_not_cancelled(client: httpx.AsyncClient) -> None:
    """The cancellation of a filled order gets 409."""
    reply = await client.delete("/wallet/1.0.0/wallet-0001/orders/order-0057")

    assert reply.status_code == 409
    assert reply.json()["message"] == "the order is filled"


@pytest.mark.parametrize(
    "place", ["wallet-0004/orders/order-9999", "wallet-0001/orders/order-0056"]
)
async def test_order_is_found_in_its_own_wallet_only(client: httpx.AsyncClient, place: str) -> None:
    """An order that does not exist, or is in another wallet, gets 404."""
    reply = await client.delete(f"/wallet/1.0.0/{place}")

    assert reply.status_code == 404


async def test_tenants_do_not_see_each_other(client: httpx.AsyncClient) -> None:
    """A cancellation in one tenant does not change the order of the same id in another."""
    path = "/wallet/1.0.0/wallet-0004/orders/order-0056"
    await client.delete(path)

    other = await client.post(
        "/wallet/1.0.0/orders", json={"page": 1, "take": 2}, headers={"tenantId": "other"}
    )

    assert other.json()["orders"][1]["status"] == "open"


async def test_default_tenant(client: httpx.AsyncClient) -> None:
    """A call without the header tenantId belongs to the tenant named default."""
    path = "/wallet/1.0.0/wallet-0004/orders/order-0056"
    del client.headers["tenantId"]
    await client.delete(path)

    default = await client.post(
        "/wallet/1.0.0/orders", json={"page": 1, "take": 2}, headers={"tenantId": "default"}
    )

    assert default.json()["orders"][1]["status"] == "cancelled"
