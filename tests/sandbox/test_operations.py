"""What each operation answers: each row is a story of requests to a new sandbox."""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import pytest

from gateway_sdk.sandbox import Sandbox
from gateway_sdk.sandbox._operations import seeded_tenant
from gateway_sdk.sandbox._reference_data import country_list
from tests.sandbox.conftest import HEADERS

CREATE = "POST /customer/1.0.0/create"
REVISE = "POST /customer/1.0.0/update/customer-0001/revisions"
SERIES = "POST /currency/1.0.0/exchangeRateSeries"
ORDERS = "POST /wallet/1.0.0/orders"
HISTORY = "GET /wallet/1.0.0/customer-0001/trading-order-history"
BALANCE = "GET /wallet/1.0.0/spot-trading/available-balance"
CANCEL = "DELETE /wallet/1.0.0/wallet-0004/orders/order-0056"
UPLOAD = "POST /aml/1.0.0/document/upload"
UPDATE = "PUT /aml/1.0.0/document/update/document-0001"
STATUS = "PUT /aml/1.0.0/document/document-0001/status"
WEBHOOK = "POST /kyc/1.0.0/webhook"
COUNTRIES = "POST /countrydata/1.0.0/listData"


class Step(NamedTuple):
    """A request and its reply: JSON, the message of an error, a condition, or None for any."""

    request: str
    content: Any  # bytes, or what is sent as JSON
    status: int
    reply: Any = None
    tenant: str | None = "acme"
    content_type: str | None = None


ADA = {"externalCustomerId": "ext-1", "person": {"pinCode": "1234", "password": "enchantress"}}
NAMELESS = {"externalCustomerId": None}
CREATED = {"customerId": "customer-0005", "externalCustomerId": "ext-1"}
QUERY = {"base": "EUR", "symbols": "USD,JPY", "startDate": "2026-01-01", "endDate": "2026-01-05"}
RATES = {"2026-01-02": {"USD": 1.1721, "JPY": 183.94}, "2026-01-05": {"USD": 1.1664, "JPY": 182.93}}
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
BALANCES = [
    {"currency": "CHF", "available": "26116.11"},
    {"currency": "EUR", "available": "27943.49"},
    {"currency": "GBP", "available": "94705.27"},
    {"currency": "JPY", "available": "63010.42"},
    {"currency": "PLN", "available": "14583.06"},
    {"currency": "USD", "available": "11045.23"},
]
ABC = {
    "documentId": "document-0001",
    "size": 3,
    "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    "contentType": "application/pdf",
    "status": "uploaded",
}
UPLOADED = Step(UPLOAD, b"first", 200)
CANCELLED = Step(CANCEL, None, 200, lambda order: order["status"] == "cancelled")


def page_of(page: int, *numbers: int) -> Step:
    ids = [f"order-{number:04}" for number in numbers]

    def is_it(got: Any) -> bool:
        listed = [order["orderId"] for order in got["orders"]]
        return (got["page"], got["take"], got["total"], listed) == (page, 20, 57, ids)

    return Step(ORDERS, {"page": page, "take": 20}, 200, is_it)


def second_order_is(status: str, tenant: str) -> Step:
    return Step(
        ORDERS,
        {"page": 1, "take": 2},
        200,
        lambda got: got["orders"][0] == NEWEST and got["orders"][1]["status"] == status,
        tenant,
    )


STORIES: dict[str, list[Step]] = {
    "external ids are unique in a tenant": [
        Step(CREATE, ADA, 200, CREATED),
        Step(CREATE, ADA, 409, "a customer with this externalCustomerId already exists"),
        Step(CREATE, ADA, 200, CREATED, tenant="other"),
    ],
    "without an external id each customer is another": [
        Step(CREATE, {}, 200, NAMELESS | {"customerId": "customer-0005"}),
        Step(CREATE, NAMELESS, 200, NAMELESS | {"customerId": "customer-0006"}),
    ],
    "revisions apply in their order": [
        Step(REVISE, {"revisions": [{"key": "city", "value": "Bonn"}]}, 200),
        Step(
            REVISE,
            {"revisions": [{"key": "name", "value": "A"}, {"key": "name", "value": "B"}]},
            200,
            {"customerId": "customer-0001", "current": {"city": "Bonn", "name": "B"}},
        ),
    ],
    "a series has the business days, ascending": [
        Step(SERIES, QUERY, 200, QUERY | {"rates": RATES}),
        Step(SERIES, QUERY, 200, lambda got: list(got["rates"]) == list(RATES)),
        # White space around a code is ignored; before the euro there are no rates.
        Step(SERIES, QUERY | {"symbols": " USD , JPY"}, 200, lambda got: got["rates"] == RATES),
        Step(
            SERIES,
            QUERY | {"startDate": "1990-01-01", "endDate": "1990-12-31"},
            200,
            lambda got: got["rates"] == {},
        ),
    ],
    "pages have no gap and no overlap": [
        page_of(1, *range(57, 37, -1)),
        page_of(2, *range(37, 17, -1)),
        page_of(3, *range(17, 0, -1)),
        page_of(4),
    ],
    "a customer has only its own orders, the newest first": [
        Step(
            HISTORY,
            None,
            200,
            lambda got: (
                got["customerId"] == "customer-0001"
                and got["orders"][0] == NEWEST
                and {order["customerId"] for order in got["orders"]} == {"customer-0001"}
            ),
        ),
        Step(CREATE, {}, 200),
        Step(
            HISTORY.replace("0001", "0005"),
            None,
            200,
            {"customerId": "customer-0005", "orders": []},
        ),
    ],
    "balances are decimal strings": [Step(BALANCE, None, 200, {"balances": BALANCES})],
    "an order is cancelled again and again, in its tenant": [
        CANCELLED,
        CANCELLED,
        second_order_is("cancelled", "acme"),
        second_order_is("open", "other"),
    ],
    "without a tenant it is the default one": [
        CANCELLED._replace(tenant=None),
        second_order_is("cancelled", "default"),
    ],
    "a document has the size and the digest of its content": [
        Step(UPLOAD, b"abc", 200, ABC, content_type="application/pdf"),
        Step(UPLOAD, bytes(2 * 1024 * 1024), 200, lambda got: got["size"] == 2 * 1024 * 1024),
        Step(UPLOAD, b"", 200, lambda got: (got["size"], got["contentType"]) == (0, None)),
    ],
    "an update replaces the content and keeps the status": [
        UPLOADED,
        Step(STATUS, b"verified", 200),
        Step(UPDATE, b"abc", 200, ABC | {"contentType": None, "status": "verified"}),
        Step(UPDATE, b"", 200, lambda got: got["size"] == 0),
    ],
    "a status is text or JSON of any media type": [
        UPLOADED,
        *(
            Step(STATUS, body, 200, lambda got: got["status"] == "verified", content_type="a/b")
            for body in (b"verified", b" verified\n", b'{"status": "verified"}')
        ),
        Step(STATUS, b"x", 404, tenant="other"),
    ],
    "a webhook takes any body": [
        Step(WEBHOOK, body, 202) for body in (None, b"", b'{"event": "checked"}', b"\xff")
    ],
    "countries are an array": [
        Step(COUNTRIES, body, 200, lambda got: got == country_list().records)
        for body in (None, b"{}")
    ],
}


async def take(step: Step, client: httpx.AsyncClient) -> None:
    headers = {"Authorization": HEADERS["Authorization"]}
    headers |= {"tenantId": step.tenant} if step.tenant is not None else {}
    headers |= {"Content-Type": step.content_type} if step.content_type else {}
    kind = "content" if step.content is None or isinstance(step.content, bytes) else "json"
    method, path = step.request.split()

    got = await client.request(method, path, headers=headers, **{kind: step.content})

    assert got.status_code == step.status
    if callable(step.reply):
        assert step.reply(got.json()), got.json()
    elif isinstance(step.reply, str):
        assert got.json()["message"] == step.reply
        assert "1234" not in got.text
    elif step.reply is not None:
        assert got.json() == step.reply
    if step.status == 202:
        assert got.content == b""


@pytest.fixture
async def plain(sandbox: Sandbox) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=sandbox.transport(), base_url="http://s") as client:
        yield client


@pytest.mark.parametrize("name", STORIES)
async def test_story(name: str, plain: httpx.AsyncClient) -> None:
    for step in STORIES[name]:
        await take(step, plain)


def series(message: str, status: int = 400, **change: Any) -> Step:
    return Step(SERIES, QUERY | change, status, message)


def page(message: str, **change: Any) -> Step:
    return Step(ORDERS, {"page": 1, "take": 10} | change, 400, message)


BOUNDS = "$.page must be 1 or more, and $.take from 1 to 100"
NO_TENANT = "the header tenantId is required"
NO_STATUS = "the body contains no status"
REFUSED: list[Step] = [
    Step(CREATE, ADA, 400, NO_TENANT, tenant=" "),
    Step(CREATE, ADA, 400, NO_TENANT, tenant=None),
    Step(
        CREATE,
        {"person": {"pincode": "1234"}},
        400,
        "$.person.pincode: Extra inputs are not permitted",
    ),
    Step(REVISE, {"revisions": []}, 400, "$.revisions is empty"),
    Step(REVISE, {"revisions": [{"key": "a"}]}, 400, "$.revisions[0].value: Field required"),
    Step(
        REVISE.replace("0001", "9999"),
        {"revisions": [{"key": "a", "value": "b"}]},
        404,
        "no such customer",
    ),
    series("no reference rates for BTC", 404, base="BTC"),
    series("no reference rates for XAU", 404, symbols="USD,XAU"),
    series("no reference rates for usd", 404, symbols="usd"),
    series("$.base and $.symbols must name currencies", symbols="USD,"),
    series("$.base and $.symbols must name currencies", base=""),
    series("$.startDate must be an ISO 8601 date", startDate="2026-02-30"),
    series("$.endDate must be an ISO 8601 date", endDate="yesterday"),
    series("$.startDate is after $.endDate", startDate="2026-01-06"),
    series("$.endDate: Input should be a valid string", endDate=None),
    *(page(BOUNDS, **change) for change in ({"page": 0}, {"take": 0}, {"take": 101})),
    page("$.page: Input should be a valid integer", page="1"),
    Step(HISTORY.replace("0001", "9999"), None, 404),
    Step("DELETE /wallet/1.0.0/wallet-0001/orders/order-0057", None, 409, "the order is filled"),
    Step(CANCEL.replace("order-0056", "order-9999"), None, 404),
    Step(CANCEL.replace("wallet-0004", "wallet-0001"), None, 404),
    Step(STATUS, b"abc", 404, "no such document"),
    Step(UPDATE, b"abc", 404, "no such document"),
]


@pytest.mark.parametrize("step", REFUSED, ids=lambda step: f"{step.content} {step.reply}"[:60])
async def test_what_is_impossible_is_refused(step: Step, plain: httpx.AsyncClient) -> None:
    await take(step, plain)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", NO_STATUS),
        (b" \n", NO_STATUS),
        (b"g\xfcltig", "the body is not UTF-8"),
        (b'{"status": " "}', NO_STATUS),
        (b'{"status": 1}', "$.status: Input should be a valid string"),
        (b'{"state": "verified"}', "$.status: Field required"),
        (b'{"status"', "$: Invalid JSON: EOF while parsing an object at line 1 column 9"),
    ],
)
async def test_missing_status_is_refused(
    plain: httpx.AsyncClient, body: bytes, message: str
) -> None:
    """Of a document that is there."""
    for step in (UPLOADED, Step(STATUS, body, 400, message)):
        await take(step, plain)


def test_same_seed_makes_the_same_tenant() -> None:
    assert seeded_tenant(7) == seeded_tenant(7)
    assert seeded_tenant(7) != seeded_tenant(8)
