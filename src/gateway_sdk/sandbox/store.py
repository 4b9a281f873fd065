"""What one tenant owns, in memory, and what can be done with it. No I/O here."""

from dataclasses import dataclass, field, replace

from starlette.exceptions import HTTPException

from gateway_sdk.sandbox.bodies import Content


@dataclass
class Customer:
    """A customer: the caller's own id for it, and the latest value of each revised key.

    The person is checked and then forgotten: nothing in the interface reads it back.
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
        """Give the order as JSON: the interface leaves its fields open, these are ours."""
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
    """A document: what is known of its content, and its status."""

    document_id: str
    content: Content
    status: str = "uploaded"

    def to_wire(self) -> dict[str, str | int | None]:
        """Give the document as JSON: the interface leaves its fields open, these are ours."""
        return {
            "documentId": self.document_id,
            "size": self.content.size,
            "sha256": self.content.sha256,
            "contentType": self.content.content_type,
            "status": self.status,
        }


@dataclass
class Tenant:
    """All that belongs to one tenant; *orders* by id, the oldest first."""

    customers: dict[str, Customer]
    orders: dict[str, Order]
    balances: dict[str, str]
    documents: dict[str, Document] = field(default_factory=dict[str, Document])
    external_customer_ids: set[str] = field(default_factory=set[str])

    def create_customer(self, external_customer_id: str | None) -> Customer:
        """Add a customer; 409 if there is one of that external id already."""
        if external_customer_id in self.external_customer_ids:
            raise HTTPException(409, "a customer of this externalCustomerId already exists")
        if external_customer_id is not None:
            self.external_customer_ids.add(external_customer_id)
        customer = Customer(f"customer-{len(self.customers) + 1:04}", external_customer_id)
        self.customers[customer.customer_id] = customer
        return customer

    def customer(self, customer_id: str) -> Customer:
        """Find a customer, or 404."""
        if customer_id not in self.customers:
            raise HTTPException(404, "no such customer")
        return self.customers[customer_id]

    def newest_orders(self, customer_id: str | None = None) -> list[Order]:
        """List the orders of one customer, or of all, the newest first."""
        orders = reversed(self.orders.values())
        return [order for order in orders if customer_id in (None, order.customer_id)]

    def cancel_order(self, wallet_id: str, order_id: str) -> Order:
        """Cancel an open order; 404 if that wallet has no such order, 409 if it is filled."""
        order = self.orders.get(order_id)
        if order is None or order.wallet_id != wallet_id:
            raise HTTPException(404, "no such order in this wallet")
        if order.status == "filled":
            raise HTTPException(409, "the order is filled")
        # DELETE is idempotent (RFC 9110, 9.2.2): cancelling again succeeds and changes nothing,
        # so whoever lost the first reply may simply ask again.
        self.orders[order_id] = replace(order, status="cancelled")
        return self.orders[order_id]

    def add_document(self, content: Content) -> Document:
        """Add a document under a new id."""
        document = Document(f"document-{len(self.documents) + 1:04}", content)
        self.documents[document.document_id] = document
        return document

    def document(self, document_id: str) -> Document:
        """Find a document, or 404."""
        if document_id not in self.documents:
            raise HTTPException(404, "no such document")
        return self.documents[document_id]
