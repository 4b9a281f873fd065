"""The interface as data, which is in `_interface.json`, and what each operation does with a tenant.

Copied by hand from the interface's tables (Endpoints 1-12, Resources) and not from the SDK's
models, so that a misspelt name in the SDK fails against the sandbox. "?" marks what may be null,
"complete" the records that lack no field. Two records are not the interface's: Revisions is the
body of endpoint 2, and DocumentStatus the sandbox's own, because endpoint 8 leaves the body open.
A wrong body is refused with 400. The interface leaves most reply bodies open; these hold what a
caller needs for the next call.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from http.client import responses
from importlib.resources import files
from random import Random
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from gateway_sdk.sandbox._reference_data import Series, country_list, reference_rates


class OperationRoute(NamedTuple):
    """One row of the interface's table of endpoints: the SDK's name for it, method and path."""

    name: str
    method: str
    path: str


_DATA: Final = json.loads((files("gateway_sdk.sandbox") / "_interface.json").read_text("utf-8"))

# In the interface's order. The path of a document with the id "update" or "status" matches 8 and 9;
# the interface does not say which applies, here it is the earlier row.
OPERATIONS: Final = tuple(OperationRoute(*row) for row in _DATA["operations"])
RECORDS: Final[Mapping[str, Mapping[str, str]]] = _DATA["records"]


def _json(value: Any) -> Any:
    json.dumps(value, allow_nan=False)  # pydantic reads NaN and Infinity, which are no JSON
    return value


_SCALARS: Final[Mapping[str, Any]] = {
    "string": str,
    "integer": int,
    "int64": Annotated[int, Field(ge=-(2**63), lt=2**63)],
    "boolean": bool,
    "any": Annotated[Any, AfterValidator(_json)],
}


def check_operation(name: str) -> None:
    names = [operation.name for operation in OPERATIONS]
    if name not in names:
        raise ValueError(f"unknown operation {name!r}; the operations are {', '.join(names)}")


@cache
def _model_of(record: str) -> type[BaseModel]:
    missing = ... if record in _DATA["complete"] else None
    fields: dict[str, Any] = {
        name: (_type_of(kind), missing) for name, kind in RECORDS[record].items()
    }
    return create_model(record, __config__=ConfigDict(extra="forbid", strict=True), **fields)


def _type_of(kind: str) -> Any:
    if kind.startswith("["):
        return list[_type_of(kind[1:-1])]  # type: ignore[misc]
    if kind.endswith("?"):
        return _type_of(kind[:-1]) | None
    return _SCALARS[kind] if kind in _SCALARS else _model_of(kind)


def parse_json(body: bytes, record: str) -> Any:
    """Return the fields that a body has; the refusal names a field, never its value."""
    try:
        return _model_of(record).model_validate_json(body).model_dump(exclude_unset=True)
    except ValidationError as error:
        first = error.errors()[0]
        steps = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in first["loc"])
        raise HTTPException(400, f"${''.join(steps)}: {first['msg']}") from None


async def read_json(request: Request, record: str) -> Any:
    media_type = request.headers.get("Content-Type", "").partition(";")[0]
    if media_type.strip().lower() != "application/json":
        raise HTTPException(415, "Content-Type must be application/json")
    return parse_json(await request.body(), record)


async def read_content(request: Request) -> dict[str, int | str | None]:
    """Read a body of any size, and return what is stored of it: its bytes are not."""
    size, digest = 0, hashlib.sha256()
    async for chunk in request.stream():
        size += len(chunk)
        digest.update(chunk)
    content_type = request.headers.get("Content-Type")
    return {"size": size, "sha256": digest.hexdigest(), "contentType": content_type}


def error_reply(
    scope: Scope, status: int, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    # Interface: Resources, Error payload; Errors 1 and 3
    payload = {
        "reason": responses.get(status, "Unknown Status"),
        "path": scope["path"],
        "method": scope["method"],
        "message": message,
        "timestamp": timestamp(datetime.now(UTC)),
        "status": status,
    }
    return JSONResponse(payload, status, headers)


def timestamp(moment: datetime) -> str:
    """Format a time in UTC as ISO 8601 with milliseconds and a Z."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


MAX_TAKE = 100

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

Record = dict[str, Any]
T = TypeVar("T")


@dataclass
class Tenant:
    # What was revised, by id. Other data of a customer are not stored: no operation reads them.
    customers: dict[str, dict[str, str]]
    orders: dict[str, Record]  # oldest first
    balances: list[Record]
    documents: dict[str, Record] = field(default_factory=dict[str, Record])
    external_customer_ids: set[str] = field(default_factory=set[str])

    def newest_orders(self, customer_id: str | None = None) -> list[Record]:
        orders = reversed(self.orders.values())
        return [order for order in orders if customer_id in (None, order["customerId"])]


def seeded_tenant(seed: int) -> Tenant:
    random = Random(seed)  # noqa: S311 - repeatable, not secret
    orders = [_order(number, random) for number in range(1, ORDERS + 1)]
    return Tenant(
        customers={f"customer-{number:04}": {} for number in range(1, CUSTOMERS + 1)},
        orders={order["orderId"]: order for order in orders},
        balances=[
            {"currency": code, "available": _amount(random, 100_000)} for code in BALANCE_CURRENCIES
        ],
    )


def _order(number: int, random: Random) -> Record:
    # Every nine hours and up to an hour later, so a higher number is always newer.
    created_at = FIRST_ORDER_AT + timedelta(hours=9 * number, seconds=random.randrange(3600))
    owner = random.randint(1, CUSTOMERS)
    pair = random.choice(list(MID_PRICES))
    mid = MID_PRICES[pair]
    return {
        "orderId": f"order-{number:04}",
        "customerId": f"customer-{owner:04}",
        "walletId": f"wallet-{owner:04}",
        "pair": pair,
        "side": random.choice(["buy", "sell"]),
        "quantity": _amount(random, 5_000),
        # Within two per cent of the rate, with the same number of decimals.
        "price": str((mid * (1000 + random.randint(-20, 20)) / 1000).quantize(mid)),
        "status": random.choice(["open", "filled", "cancelled"]),
        "createdAt": timestamp(created_at),
    }


def _amount(random: Random, most: int) -> str:
    return str(Decimal(random.randint(1, most * 100)).scaleb(-2))


def _find(records: Mapping[str, T], record_id: str, kind: str) -> T:
    if record_id not in records:
        raise HTTPException(404, f"no such {kind}")
    return records[record_id]


async def create_customer(request: Request, tenant: Tenant) -> Response:
    # Interface: Endpoints 1; Rules 1
    if not request.headers.get("tenantId", "").strip():
        raise HTTPException(400, "the header tenantId is required")
    external_id = (await read_json(request, "CreateRequest")).get("externalCustomerId")
    if external_id in tenant.external_customer_ids:
        raise HTTPException(409, "a customer with this externalCustomerId already exists")
    if external_id is not None:
        tenant.external_customer_ids.add(external_id)
    customer_id = f"customer-{len(tenant.customers) + 1:04}"
    tenant.customers[customer_id] = {}
    return JSONResponse({"customerId": customer_id, "externalCustomerId": external_id})


async def revise_customer(request: Request, tenant: Tenant) -> Response:
    # Interface: Endpoints 2
    revisions = (await read_json(request, "Revisions"))["revisions"]
    if not revisions:  # the SDK refuses it too
        raise HTTPException(400, "$.revisions is empty")
    customer_id = request.path_params["customerId"]
    current = _find(tenant.customers, customer_id, "customer")
    current |= {revision["key"]: revision["value"] for revision in revisions}
    return JSONResponse({"customerId": customer_id, "current": current})


async def exchange_rate_series(request: Request, _: Tenant) -> Response:
    # Interface: Endpoints 3
    body = await read_json(request, "ExchangeRateSeriesRequest")
    start, end = _parse_date(body, "startDate"), _parse_date(body, "endDate")
    if start > end:
        raise HTTPException(400, "$.startDate is after $.endDate")
    # The first call reads the data, which blocks for a tenth of a second.
    rates = await run_in_threadpool(_find_series, body["base"], body["symbols"], start, end)
    days = {"startDate": start.isoformat(), "endDate": end.isoformat()}
    return JSONResponse({**body, **days, "rates": rates})


def _parse_date(body: dict[str, str], name: str) -> date:
    try:
        return date.fromisoformat(body[name])
    except ValueError:
        raise HTTPException(400, f"$.{name} must be an ISO 8601 date") from None


def _find_series(base: str, symbols: str, start: date, end: date) -> Series:
    rates = reference_rates()
    codes = list(dict.fromkeys(code.strip() for code in symbols.split(",")))
    for code in [base, *codes]:
        if not code:
            raise HTTPException(400, "$.base and $.symbols must name currencies")
        if code not in rates.currencies:
            raise HTTPException(404, f"no reference rates for {code}")
    return rates.series(base, codes, start, end)


async def order_history(request: Request, tenant: Tenant) -> Response:
    # Interface: Endpoints 4
    body = await read_json(request, "OrderHistoryPage")
    page, take = body["page"], body["take"]
    if page < 1 or not 1 <= take <= MAX_TAKE:
        raise HTTPException(400, f"$.page must be 1 or more, and $.take from 1 to {MAX_TAKE}")
    orders = tenant.newest_orders()
    on_page = orders[(page - 1) * take : page * take]
    return JSONResponse({"page": page, "take": take, "total": len(orders), "orders": on_page})


async def trading_order_history(request: Request, tenant: Tenant) -> Response:
    # Interface: Endpoints 5
    customer_id = request.path_params["customerId"]
    _find(tenant.customers, customer_id, "customer")
    return JSONResponse({"customerId": customer_id, "orders": tenant.newest_orders(customer_id)})


async def spot_trading_available_balance(_: Request, tenant: Tenant) -> Response:
    # Interface: Endpoints 6
    return JSONResponse({"balances": tenant.balances})


async def cancel_order(request: Request, tenant: Tenant) -> Response:
    # Interface: Endpoints 7
    order = tenant.orders.get(request.path_params["orderId"])
    if order is None or order["walletId"] != request.path_params["walletId"]:
        raise HTTPException(404, "no such order in this wallet")
    if order["status"] == "filled":
        raise HTTPException(409, "the order is filled")
    # DELETE is idempotent (RFC 9110, 9.2.2): to cancel again succeeds and changes nothing, so a
    # client that lost the first reply can repeat the call.
    order["status"] = "cancelled"
    return JSONResponse(order)


async def change_document_status(request: Request, tenant: Tenant) -> Response:
    """Set the status; the body is the bare status or {"status": …}, of any media type."""
    # Interface: Endpoints 8
    body = (await request.body()).strip()
    if body.startswith(b"{"):
        text = parse_json(body, "DocumentStatus")["status"].strip()
    else:
        try:
            text = body.decode()
        except UnicodeDecodeError:
            raise HTTPException(400, "the body is not UTF-8") from None
    if not text:
        raise HTTPException(400, "the body contains no status")
    document = _find(tenant.documents, request.path_params["documentId"], "document")
    document["status"] = text
    return JSONResponse(document)


async def update_document(request: Request, tenant: Tenant) -> Response:
    # Interface: Endpoints 9
    content = await read_content(request)
    document = _find(tenant.documents, request.path_params["docid"], "document")
    document |= content
    return JSONResponse(document)


async def upload_document(request: Request, tenant: Tenant) -> Response:
    # Interface: Endpoints 10
    content = await read_content(request)
    document_id = f"document-{len(tenant.documents) + 1:04}"
    tenant.documents[document_id] = {"documentId": document_id, **content, "status": "uploaded"}
    return JSONResponse(tenant.documents[document_id])


async def send_webhook(request: Request, _: Tenant) -> Response:
    # Interface: Endpoints 11; Rules 3
    await read_content(request)  # whatever it is
    return Response(status_code=202)


async def list_countries(request: Request, _: Tenant) -> Response:
    # Interface: Endpoints 12; Rules 2
    await read_content(request)  # whatever it is
    countries = await run_in_threadpool(country_list)  # the first call blocks as for the rates
    return JSONResponse(countries.records)
