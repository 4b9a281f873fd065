"""The handlers of the twelve operations.

The interface leaves most reply bodies open; these hold what a caller needs for the next call.
"""

from datetime import date

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway_sdk.sandbox._http import drain, parse_json, read_content, read_json, read_text
from gateway_sdk.sandbox._reference_data import (
    ReferenceRates,
    Series,
    country_list,
    reference_rates,
)
from gateway_sdk.sandbox._store import Tenant

MAX_TAKE = 100


async def create_customer(request: Request, tenant: Tenant) -> Response:
    # Interface: Endpoints 1; Rules 1
    if not request.headers.get("tenantId", "").strip():
        raise HTTPException(400, "the header tenantId is required")
    body = await read_json(request, "CreateRequest")
    customer = tenant.create_customer(body.get("externalCustomerId"))
    return JSONResponse(
        {
            "customerId": customer.customer_id,
            "externalCustomerId": customer.external_customer_id,
        }
    )


async def revise_customer(request: Request, tenant: Tenant) -> Response:
    # Interface: Endpoints 2
    body = await read_json(request, "Revisions")
    if not body["revisions"]:  # the SDK refuses it too
        raise HTTPException(400, "$.revisions is empty")
    customer = tenant.customer(request.path_params["customerId"])
    for revision in body["revisions"]:
        customer.revised[revision["key"]] = revision["value"]
    return JSONResponse({"customerId": customer.customer_id, "current": customer.revised})


async def exchange_rate_series(request: Request, _: Tenant) -> Response:
    # Interface: Endpoints 3
    body = await read_json(request, "ExchangeRateSeriesRequest")
    base, symbols = body["base"], body["symbols"]
    start, end = _parse_date(body, "startDate"), _parse_date(body, "endDate")
    if start > end:
        raise HTTPException(400, "$.startDate is after $.endDate")
    rates = await run_in_threadpool(_find_series, base, symbols, start, end)
    return JSONResponse(
        {
            "base": base,
            "symbols": symbols,
            "startDate": start.isoformat(),
            "endDate": end.isoformat(),
            "rates": rates,
        }
    )


async def order_history(request: Request, tenant: Tenant) -> Response:
    # Interface: Endpoints 4
    body = await read_json(request, "OrderHistoryPage")
    page, take = body["page"], body["take"]
    if page < 1:
        raise HTTPException(400, "$.page must be 1 or more")
    if not 1 <= take <= MAX_TAKE:
        raise HTTPException(400, f"$.take must be from 1 to {MAX_TAKE}")
    orders = tenant.newest_orders()
    on_page = orders[(page - 1) * take : page * take]
    return JSONResponse(
        {
            "page": page,
            "take": take,
            "total": len(orders),
            "orders": [order.to_wire() for order in on_page],
        }
    )


async def trading_order_history(request: Request, tenant: Tenant) -> Response:
    # Interface: Endpoints 5
    customer = tenant.customer(request.path_params["customerId"])
    orders = tenant.newest_orders(customer.customer_id)
    return JSONResponse(
        {"customerId": customer.customer_id, "orders": [order.to_wire() for order in orders]}
    )


async def spot_trading_available_balance(_: Request, tenant: Tenant) -> Response:
    # Interface: Endpoints 6
    balances = [
        {"currency": currency, "available": available}
        for currency, available in tenant.balances.items()
    ]
    return JSONResponse({"balances": balances})


async def cancel_order(request: Request, tenant: Tenant) -> Response:
    # Interface: Endpoints 7
    order = tenant.cancel_order(request.path_params["walletId"], request.path_params["orderId"])
    return JSONResponse(order.to_wire())


async def change_document_status(request: Request, tenant: Tenant) -> Response:
    """Set the status; the body is the bare status or {"status": …}, of any media type."""
    # Interface: Endpoints 8
    text = await read_text(request)
    if text.startswith("{"):
        text = parse_json(text, "DocumentStatus")["status"].strip()
    if not text:
        raise HTTPException(400, "the body contains no status")
    document = tenant.document(request.path_params["documentId"])
    document.status = text
    return JSONResponse(document.to_wire())


async def update_document(request: Request, tenant: Tenant) -> Response:
    # Interface: Endpoints 9
    content = await read_content(request)
    document = tenant.document(request.path_params["docid"])
    document.content = content
    return JSONResponse(document.to_wire())


async def upload_document(request: Request, tenant: Tenant) -> Response:
    # Interface: Endpoints 10
    content = await read_content(request)
    return JSONResponse(tenant.add_document(content).to_wire())


async def send_webhook(request: Request, _: Tenant) -> Response:
    # Interface: Endpoints 11; Rules 3
    await drain(request)
    return Response(status_code=202)


async def list_countries(request: Request, _: Tenant) -> Response:
    # Interface: Endpoints 12; Rules 2
    await drain(request)
    # The first call reads the data and blocks for a tenth of a second.
    countries = await run_in_threadpool(country_list)
    return JSONResponse(countries.records)


def _parse_date(body: dict[str, str], name: str) -> date:
    try:
        return date.fromisoformat(body[name])
    except ValueError:
        raise HTTPException(400, f"$.{name} must be an ISO 8601 date") from None


def _find_series(base: str, symbols: str, start: date, end: date) -> Series:
    rates = reference_rates()
    codes = list(dict.fromkeys(code.strip() for code in symbols.split(",")))
    for code in [base, *codes]:
        _check_currency(code, rates)
    return rates.series(base, codes, start, end)


def _check_currency(code: str, rates: ReferenceRates) -> None:
    if not code:
        raise HTTPException(400, "$.base and $.symbols must name currencies")
    if code not in rates.currencies:
        raise HTTPException(404, f"no reference rates for {code}")
