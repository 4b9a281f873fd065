"""What the sandbox stores, in memory: access tokens, and what each tenant owns. No I/O here."""

import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Literal, NamedTuple

from starlette.exceptions import HTTPException

from gateway_sdk.sandbox._http import StoredContent, timestamp

TokenProblem = Literal["is unknown", "expired", "was revoked"]


class TokenRegistry:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._expiries: dict[str, float] = {}
        self._revoked: set[str] = set()

    def issue(self, token: str, lifetime: float | None = None) -> None:
        """Accept a token from now on, for *lifetime* seconds; None means without end."""
        self._expiries[token] = math.inf if lifetime is None else self._clock() + lifetime
        self._revoked.discard(token)

    def revoke(self, token: str) -> None:
        """Refuse a token from now on; it need not have been issued."""
        self._revoked.add(token)

    def revoke_all(self) -> None:
        self._revoked |= self._expiries.keys()

    def check(self, token: str) -> TokenProblem | None:
        if token in self._revoked:
            return "was revoked"
        if token not in self._expiries:
            return "is unknown"
        return "expired" if self._expiries[token] <= self._clock() else None


class TokenKind(NamedTuple):
    """A kind of token that the user can choose on the login page."""

    label: str
    hint: str
    stated: int | None  # seconds, in the authorization response; None states none
    lifetime: float | None  # seconds, which the gateway applies; None means without end
    revoked: bool = False  # from the start

    def issue(self, tokens: TokenRegistry) -> dict[str, str]:
        # RFC 6749, section 4.2.2
        token = secrets.token_urlsafe(32)
        tokens.issue(token, self.lifetime)
        if self.revoked:
            tokens.revoke(token)
        response = {"access_token": token, "token_type": "Bearer"}
        return response if self.stated is None else {**response, "expires_in": str(self.stated)}


# By the value of the form's field "token"; the page preselects the first.
TOKEN_KINDS: Mapping[str, TokenKind] = {
    "hour": TokenKind("Lasts an hour", "What a gateway would usually do", 3600, 3600),
    "minute": TokenKind("Lasts a minute", "To watch it being renewed", 60, 60),
    "unstated": TokenKind("No stated lifetime", "It lasts until it is revoked", None, None),
    "expired": TokenKind("Already expired", "Says an hour, is refused as expired", 3600, 0),
    "revoked": TokenKind(
        "Revoked", "Says an hour, is refused as revoked", 3600, 3600, revoked=True
    ),
}


@dataclass
class Customer:
    """No personal data: it is checked and not stored, because no operation reads it."""

    customer_id: str
    external_customer_id: str | None = None
    revised: dict[str, str] = field(default_factory=dict[str, str])  # the current values


@dataclass(frozen=True)
class Order:
    order_id: str
    customer_id: str
    wallet_id: str
    pair: str
    side: str
    quantity: str
    price: str
    status: str  # "open", "filled" or "cancelled"
    created_at: str

    def to_wire(self) -> dict[str, str]:
        """The interface leaves the fields open; these are the sandbox's own."""
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
    document_id: str
    content: StoredContent
    status: str = "uploaded"

    def to_wire(self) -> dict[str, str | int | None]:
        return {
            "documentId": self.document_id,
            "size": self.content.size,
            "sha256": self.content.sha256,
            "contentType": self.content.content_type,
            "status": self.status,
        }


@dataclass
class Tenant:
    customers: dict[str, Customer]
    orders: dict[str, Order]  # oldest first
    balances: dict[str, str]
    documents: dict[str, Document] = field(default_factory=dict[str, Document])
    external_customer_ids: set[str] = field(default_factory=set[str])

    def create_customer(self, external_customer_id: str | None) -> Customer:
        if external_customer_id in self.external_customer_ids:
            raise HTTPException(409, "a customer with this externalCustomerId already exists")
        if external_customer_id is not None:
            self.external_customer_ids.add(external_customer_id)
        customer = Customer(f"customer-{len(self.customers) + 1:04}", external_customer_id)
        self.customers[customer.customer_id] = customer
        return customer

    def customer(self, customer_id: str) -> Customer:
        if customer_id not in self.customers:
            raise HTTPException(404, "no such customer")
        return self.customers[customer_id]

    def newest_orders(self, customer_id: str | None = None) -> list[Order]:
        orders = reversed(self.orders.values())
        return [order for order in orders if customer_id in (None, order.customer_id)]

    def cancel_order(self, wallet_id: str, order_id: str) -> Order:
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
        document = Document(f"document-{len(self.documents) + 1:04}", content)
        self.documents[document.document_id] = document
        return document

    def document(self, document_id: str) -> Document:
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
    return str(Decimal(random.randint(1, most * 100)).scaleb(-2))


def _price(random: Random, mid: Decimal) -> str:
    """Return a price within two per cent of *mid*, with the same number of decimals."""
    return str((mid * (1000 + random.randint(-20, 20)) / 1000).quantize(mid))
