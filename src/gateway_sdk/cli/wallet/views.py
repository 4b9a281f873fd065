"""Showing orders and balances."""

import typer

from gateway_sdk.cli.output.options import Form
from gateway_sdk.cli.output.show import show_records
from gateway_sdk.cli.reach import ask


def show_orders(ctx: typer.Context, page: int, take: int, form: Form) -> None:
    """Show a page of the tenant's orders.

    Raises:
        GatewayError: the page did not come.
    """
    show_records(ask(ctx, lambda gateway: gateway.wallet.order_history(page, take)), form)


def show_history(ctx: typer.Context, customer_id: str, form: Form) -> None:
    """Show the orders of a customer.

    Raises:
        GatewayError: they did not come.
    """
    show_records(ask(ctx, lambda gateway: gateway.wallet.trading_order_history(customer_id)), form)


def show_balance(ctx: typer.Context, form: Form) -> None:
    """Show the tenant's balance.

    Raises:
        GatewayError: it did not come.
    """
    show_records(ask(ctx, lambda gateway: gateway.wallet.spot_trading_available_balance()), form)
