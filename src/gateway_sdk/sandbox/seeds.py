"""The customers, orders and balances that every tenant starts with, the same for the same seed."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

from gateway_sdk.sandbox.replies import timestamp
from gateway_sdk.sandbox.store import Customer, Order, Tenant

# Some pages of orders at any usual page size, the last of them not full.
ORDERS = 57
CUSTOMERS = 4
FIRST_ORDER_AT = datetime(2026, 9, 1, 8, tzinfo=UTC)

# Units of the second currency per one of the first: the ECB's reference rates of 30 October 2026.
MID_PRICES = {
    "EUR/USD": Decimal("1.1172"),
    "EUR/GBP": Decimal("0.8338"),
    "EUR/CHF": Decimal("0.9194"),
    "EUR/PLN": Decimal("4.4038"),
    "EUR/JPY": Decimal("175.68"),
}
BALANCE_CURRENCIES = ("CHF", "EUR", "GBP", "JPY", "PLN", "USD")


def seeded_tenant(seed: int) -> Tenant:
    """Make a tenant with its seed data and no documents."""
    random = Random(seed)  # noqa: S311 - it has to be repeatable, not secret
    customers = [Customer(f"customer-{number:04}") for number in range(1, CUSTOMERS + 1)]
    orders = [_order(number, random) for number in range(1, ORDERS + 1)]
    return Tenant(
        customers={customer.customer_id: customer for customer in customers},
        orders={order.order_id: order for order in orders},
        balances={code: _amount(random, 100_000) for code in BALANCE_CURRENCIES},
    )


def _order(number: int, random: Random) -> Order:
    # Orders turn up every nine hours and up to an hour late, so a later number is always newer.
    created_at = FIRST_ORDER_AT + timedelta(hours=9 * number, seconds=random.randrange(3600))
    owner = random.randint(1, CUSTOMERS)
    pair = random.choice(list(MID_PRICES))
    return Order(
        order_id=f"order-{number:04}",
        customer_id=f"customer-{owner:04}",
        wallet_id=f"wallet-{owner:04}",
        pair=pair,
        side=random.choice(["buy", "sell"]),
        quantity=_amount(random, 5_000),
        price=_price(random, MID_PRICES[pair]),
        status=random.choice(["open", "filled", "cancelled"]),
        created_at=timestamp(created_at),
    )


def _amount(random: Random, most: int) -> str:
    """Write an amount above zero with two decimals."""
    return str(Decimal(random.randint(1, most * 100)).scaleb(-2))


def _price(random: Random, mid: Decimal) -> str:
    """Write a price within two per cent of *mid*, with as many decimals."""
    return str((mid * (1000 + random.randint(-20, 20)) / 1000).quantize(mid))
