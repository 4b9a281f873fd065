"""The signatures of the commands for wallets."""

from typing import Annotated, Final

import typer

from gateway_sdk.cli.output.options import AsCsv, AsJson, choose_form

USUAL_TAKE: Final = 20
"""Orders of a page: they fit a terminal."""


def orders(
    ctx: typer.Context,
    *,
    page: Annotated[int, typer.Option(help="Which page; most gateways begin with 1.")] = 1,
    take: Annotated[int, typer.Option(help="How many orders a page has.")] = USUAL_TAKE,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show a page of the tenant's orders."""
    form = choose_form(as_json=as_json, as_csv=as_csv)
    # Imported here, because only those who ask need it.
    from gateway_sdk.cli.wallet.views import show_orders  # noqa: PLC0415

    show_orders(ctx, page, take, form)


def history(
    ctx: typer.Context,
    customer_id: Annotated[str, typer.Argument(help="The gateway's id of the customer.")],
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show the trading orders of a customer."""
    form = choose_form(as_json=as_json, as_csv=as_csv)
    # Imported here, because only those who ask need it.
    from gateway_sdk.cli.wallet.views import show_history  # noqa: PLC0415

    show_history(ctx, customer_id, form)


def balance(ctx: typer.Context, *, as_json: AsJson = False, as_csv: AsCsv = False) -> None:
    """Show what the tenant has available for spot trading."""
    form = choose_form(as_json=as_json, as_csv=as_csv)
    # Imported here, because only those who ask need it.
    from gateway_sdk.cli.wallet.views import show_balance  # noqa: PLC0415

    show_balance(ctx, form)


def cancel(
    ctx: typer.Context,
    wallet_id: Annotated[str, typer.Argument(help="The gateway's id of the wallet.")],
    order_id: Annotated[str, typer.Argument(help="The gateway's id of the order.")],
    *,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask; scripts have to say so.")
    ] = False,
) -> None:
    """Cancel a trading order, and print the gateway's reply as JSON.

    It asks first. Cancelling twice does no more than cancelling once.
    """
    # Imported here, because only those who cancel need it.
    from gateway_sdk.cli.wallet.cancel import cancel_order  # noqa: PLC0415

    cancel_order(ctx, wallet_id, order_id, yes=yes)
