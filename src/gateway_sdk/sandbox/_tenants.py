"""What one tenant owns, in memory, and what it starts with. No I/O here."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

from starlette.exceptions import HTTPException

from gateway_sdk.sandbox._http import StoredContent, timestamp


@dataclass
class Customer:
    """A customer; *revised* is the current value of each revised key.

    Personal data is checked and not stored, because no operation reads it.
    """

    customer_id: str
    external_customer_id: str | None = None
    revised: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Order:
    """A trading order; *status* is "open", "filled" or "cancelled"."""

    order_id: str
    customer_id: str
    wallet_id: str
    pair: str
    side: str
    quantity: str
    price: str
    status: str
    created_at: str

    def to_wire(self) -> dict[str, str]:
        """Return the order as JSON; the interface leaves its fields open, these are ours."""
        return {
            "orderId": self.order_id,
            "customerId": self.customer_id,
            "walletId": self.wallet_id,
            "pair": self.pair,
            "side": self.side,
            "quantity": self.quantity,
            "price": self.price,
            "status": self.status,
            "createdAt": self.created_at,
        }


@dataclass
class Document:
    """A document: its status and what is stored of its content."""

    document_id: str
    content: StoredContent
    status: str = "uploaded"

    def to_wire(self) -> dict[str, str | int | None]:
        """Return the document as JSON; the interface leaves its fields open, these are ours."""
        return {
            "documentId": self.document_id,
            "size": self.content.size,
            "sha256": self.content.sha256,
            "contentType": self.content.content_type,
            "status": self.status,
        }


@dataclass
class Tenant:
    """All data of one tenant; *orders* by id, oldest first."""

    customers: dict[str, Customer]
    orders: dict[str, Order]
    balances: dict[str, str]
    documents: dict[str, Document] = field(default_factory=dict[str, Document])
    external_customer_ids: set[str] = field(default_factory=set[str])

    def create_customer(self, external_customer_id: str | None) -> Customer:
        """Add a customer; 409 if the external id is in use."""
        if external_customer_id in self.external_customer_ids:
            raise HTTPException(409, "a customer with this externalCustomerId already exists")
        if external_customer_id is not None:
            self.external_customer_ids.add(external_customer_id)
        customer = Customer(f"customer-{len(self.customers) + 1:04}", external_customer_id)
        self.customers[customer.customer_id] = customer
        return customer

    def customer(self, customer_id: str) -> Customer:
        """Return a customer; 404 if there is none with this id."""
        if customer_id not in self.customers:
            raise HTTPException(404, "no such customer")
        return self.customers[customer_id]

    def newest_orders(self, customer_id: str | None = None) -> list[Order]:
        """Return the orders of one customer, or of all, newest first."""
        orders = reversed(self.orders.values())
        return [order for order in orders if customer_id in (None, order.customer_id)]

    def cancel_order(self, wallet_id: str, order_id: str) -> Order:
        """Cancel an order; 404 if the wallet has no such order, 409 if it is filled."""
        order = self.orders.get(order_id)
        if order is None or order.wallet_id != wallet_id:
            raise HTTPException(404, "no such order in this wallet")
        if order.status == "filled":
            raise HTTPException(409, "the order is filled")
        # DELETE is idempotent (RFC 9110, 9.2.2): to cancel again succeeds and changes nothing, so a
        # client that lost the first reply can repeat the call.
        self.orders[order_id] = replace(order, status="cancelled")
        return self.orders[order_id]

    def add_document(self, content: StoredContent) -> Document:
        """Add a document under a new id."""
        document = Document(f"document-{len(self.documents) + 1:04}", content)
        self.documents[document.document_id] = document
        return document

    def document(self, document_id: str) -> Document:
        """Return a document; 404 if there is none with this id."""
        if document_id not in self.documents:
            raise HTTPException(404, "no such document")
        return self.documents[document_id]


# Several pages at usual page sizes, with a last page that is not full.
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
    """Return a tenant with customers, orders and balances by *seed*, and no documents."""
    random = Random(seed)  # noqa: S311 - repeatable, not secret
    customers = [Customer(f"customer-{number:04}") for number in range(1, CUSTOMERS + 1)]
    orders = [_order(number, random) for number in range(1, ORDERS + 1)]
    return Tenant(
        customers={customer.customer_id: customer for customer in customers},
        orders={order.order_id: order for order in orders},
        balances={code: _amount(random, 100_000) for code in BALANCE_CURRENCIES},
    )


def _order(number: int, random: Random) -> Order:
    # Every nine hours and up to an hour later, so a higher number is always newer.
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
    """Return an amount above zero with two decimals."""
    return str(Decimal(random.randint(1, most * 100)).scaleb(-2))


def _price(random: Random, mid: Decimal) -> str:
    """Return a price within two per cent of *mid*, with the same number of decimals."""
    return str((mid * (1000 + random.randint(-20, 20)) / 1000).quantize(mid))
