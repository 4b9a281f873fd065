from decimal import Decimal

from gateway_sdk.sandbox._store import MID_PRICES, seeded_tenant


def test_same_seed_makes_the_same_tenant() -> None:
    """The same seed gives the same data, and another seed gives others."""
    assert seeded_tenant(7) == seeded_tenant(7)
    assert seeded_tenant(7) != seeded_tenant(8)


def test_orders_fill_several_pages_of_every_status() -> None:
    """There are several pages of orders, open, filled and cancelled."""
    orders = seeded_tenant(0).newest_orders()

    assert len(orders) == 57
    assert {order.status for order in orders} == {"open", "filled", "cancelled"}
    assert {order.side for order in orders} == {"buy", "sell"}


def test_newest_order_comes_first() -> None:
    """Orders are listed by their time, the newest first."""
    times = [order.created_at for order in seeded_tenant(0).newest_orders()]

    assert times == sorted(times, reverse=True)
    assert times[-1].startswith("2026-09-01T17:")


def test_orders_belong_to_customers_and_their_wallets() -> None:
    """Every order belongs to a known customer, and to the wallet of the same number."""
    tenant = seeded_tenant(0)

    for order in tenant.newest_orders():
        assert order.customer_id in tenant.customers
        assert order.wallet_id == order.customer_id.replace("customer", "wallet")


def test_prices_are_close_to_the_reference_rate() -> None:
    """A price is a decimal string within two per cent of its pair's rate."""
    for order in seeded_tenant(0).newest_orders():
        ratio = Decimal(order.price) / MID_PRICES[order.pair]
        assert Decimal("0.979") < ratio < Decimal("1.021")


def test_balances_are_decimal_strings() -> None:
    """A balance is above zero and has two decimals."""
    for balance in seeded_tenant(0).balances.values():
        assert Decimal(balance) > 0
        assert len(balance.partition(".")[2]) == 2
