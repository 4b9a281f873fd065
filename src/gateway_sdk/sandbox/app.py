"""The app: which handler serves which operation."""

from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from gateway_sdk.sandbox import handlers
from gateway_sdk.sandbox.authorization.client import RedirectUris
from gateway_sdk.sandbox.authorization.endpoint import AuthorizationEndpoint
from gateway_sdk.sandbox.endpoint import Endpoint, Handler, State
from gateway_sdk.sandbox.operations import OPERATIONS
from gateway_sdk.sandbox.replies import reply_to_refusal

HANDLERS: Mapping[str, Handler] = {
    "create_customer": handlers.create_customer,
    "revise_customer": handlers.revise_customer,
    "exchange_rate_series": handlers.exchange_rate_series,
    "order_history": handlers.order_history,
    "trading_order_history": handlers.trading_order_history,
    "spot_trading_available_balance": handlers.spot_trading_available_balance,
    "cancel_order": handlers.cancel_order,
    "change_document_status": handlers.change_document_status,
    "update_document": handlers.update_document,
    "upload_document": handlers.upload_document,
    "send_webhook": handlers.send_webhook,
    "list_countries": handlers.list_countries,
}


def build_app(state: State, redirect_uris: RedirectUris) -> Starlette:
    """Build the app on this state; the bearer check belongs to each operation, not to the app."""
    authorization = AuthorizationEndpoint(state.tokens, redirect_uris)
    app = Starlette(
        routes=[*gateway_routes(state), authorization.route()],
        exception_handlers={HTTPException: reply_to_refusal},
    )
    # A path with a slash too many is unknown, and no redirect: a client's credentials stay put.
    app.router.redirect_slashes = False
    return app


def gateway_routes(state: State) -> list[Route]:
    """Give the route of each operation, in the order of the interface."""
    return [
        Route(
            operation.path,
            Endpoint(operation, HANDLERS[operation.name], state),
            methods=[operation.method],
        )
        for operation in OPERATIONS
    ]
