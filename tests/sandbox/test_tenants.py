from decimal import Decimal

from gateway_sdk.sandbox._operations import MID_PRICES, seeded_tenant


def test_same_seed_makes_the_same_tenant() -> None:
    """The same seed gives the same data, and another seed gives others."""
    assert seeded_tenant(7) == seeded_tenant(7)
    assert seeded_tenant(7) != seeded_tenant(8)


def test_orders_are_plausible() -> None:
    """Several pages, the newest first, of customers that are known, near the reference rates."""
    tenant = seeded_tenant(0)
    orders = tenant.newest_orders()
    times = [order["createdAt"] for order in orders]

    assert len(orders) == 57
    assert {order["status"] for order in orders} == {"open", "filled", "cancelled"}
    assert {order["side"] for order in orders} == {"buy", "sell"}
    assert times == sorted(times, reverse=True)
    assert times[-1].startswith("2026-09-01T17:")
    for order in orders:
        assert order["customerId"] in tenant.customers
        assert order["walletId"] == order["customerId"].replace("customer", "wallet")
        ratio = Decimal(order["price"]) / MID_PRICES[order["pair"]]
        assert Decimal("0.979") < ratio < Decimal("1.021")
