"""The commands `gateway wallet orders`, `history`, `balance` and `cancel`."""

import sys
from typing import Annotated, Any, Final

import typer
from rich.prompt import Confirm
from rich.text import Text

from gateway_sdk.cli.failure import FAILED, MISUSED, CommandError
from gateway_sdk.cli.output.console import make_console
from gateway_sdk.cli.output.show import (
    AsCsv,
    AsJson,
    choose_form,
    show_done,
    show_records,
    take_apart,
)
from gateway_sdk.cli.output.values import printable
from gateway_sdk.cli.session import ask
from gateway_sdk.session import GatewaySession

USUAL_TAKE: Final = 20
"""Orders of a page: they fit a terminal."""


def orders(
    ctx: typer.Context,
    *,
    page: Annotated[
        int, typer.Option(metavar="N", help="Which page; most gateways begin with 1.")
    ] = 1,
    take: Annotated[
        int, typer.Option(metavar="N", help="How many orders a page has.")
    ] = USUAL_TAKE,
    all_pages: Annotated[
        bool, typer.Option("--all", help="Show all orders, from the page on up to an empty one.")
    ] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show a page of the tenant's orders, or all."""
    form = choose_form(as_json=as_json, as_csv=as_csv)
    if all_pages:

        async def fetch(gateway: GatewaySession) -> list[Any]:
            pages = gateway.wallet.order_history_pages(take, first_page=page)
            return [order async for reply in pages for order in take_apart(reply)[0] or ()]

        show_records(ask(ctx, fetch), form)
        return
    show_records(ask(ctx, lambda gateway: gateway.wallet.order_history(page, take)), form)


def history(
    ctx: typer.Context,
    customer_id: Annotated[
        str, typer.Argument(metavar="CUSTOMER", help="The gateway's id of the customer.")
    ],
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show the trading orders of a customer."""
    form = choose_form(as_json=as_json, as_csv=as_csv)
    show_records(ask(ctx, lambda gateway: gateway.wallet.trading_order_history(customer_id)), form)


def balance(ctx: typer.Context, *, as_json: AsJson = False, as_csv: AsCsv = False) -> None:
    """Show what the tenant has available for spot trading."""
    form = choose_form(as_json=as_json, as_csv=as_csv)
    show_records(ask(ctx, lambda gateway: gateway.wallet.spot_trading_available_balance()), form)


def cancel(
    ctx: typer.Context,
    wallet_id: Annotated[
        str, typer.Argument(metavar="WALLET", help="The gateway's id of the wallet.")
    ],
    order_id: Annotated[
        str, typer.Argument(metavar="ORDER", help="The gateway's id of the order.")
    ],
    *,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask; scripts have to say so.")
    ] = False,
) -> None:
    """Cancel a trading order, and print the gateway's reply as JSON.

    It asks first. Cancelling twice does no more than cancelling once.
    """
    if not yes:
        _confirm(f"Cancel order {printable(order_id)} of wallet {printable(wallet_id)}?")
    reply = ask(ctx, lambda gateway: gateway.wallet.cancel_order(wallet_id, order_id))
    show_done("The order is cancelled.", reply)


def _confirm(question: str) -> None:
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandError(
            "cancelling asks first, and standard input is no terminal\n"
            "Add --yes if it is meant; nothing was sent.",
            MISUSED,
        )
    try:
        meant = Confirm.ask(Text(question), console=make_console(stderr=True), default=False)
    except EOFError:
        meant = False
    if not meant:
        raise CommandError("not cancelled: nothing was sent", FAILED)
