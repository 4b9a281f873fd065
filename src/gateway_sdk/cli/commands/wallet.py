"""The commands `gateway wallet orders`, `history`, `balance` and `cancel`."""

import sys
from typing import Annotated, Any

import typer
from rich.prompt import Confirm
from rich.text import Text

from gateway_sdk.cli.arguments import AsCsv, AsJson, CustomerId, argument, examples, option, switch
from gateway_sdk.cli.output.console import make_console
from gateway_sdk.cli.output.show import choose_form, show_done, show_records, take_apart
from gateway_sdk.cli.process import CommandError, Status, printable
from gateway_sdk.cli.session import ask
from gateway_sdk.session import GatewaySession

app = typer.Typer(rich_markup_mode=None)


@app.command(
    epilog=examples(
        "gateway wallet orders --take 5",
        "gateway wallet orders --page 2 --csv > orders.csv",
        "gateway wallet orders --sandbox | cut -f1,8",
    )
)
def orders(
    ctx: typer.Context,
    *,
    page: Annotated[int, option("N", "The page; most gateways begin with 1.")] = 1,
    take: Annotated[int, option("N", "The number of orders of a page.")] = 20,
    all_pages: Annotated[bool, switch("--all", "Show all pages from --page on.")] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show a page of the tenant's orders, or all."""

    async def fetch(gateway: GatewaySession) -> Any:
        if not all_pages:
            return await gateway.wallet.order_history(page, take)
        pages = gateway.wallet.order_history_pages(take, first_page=page)
        return [order async for reply in pages for order in take_apart(reply)[0] or ()]

    form = choose_form(as_json=as_json, as_csv=as_csv)
    show_records(ask(ctx, fetch), form)


@app.command(
    epilog=examples(
        "gateway wallet history customer-0001",
        "gateway wallet history customer-0001 --json | jq '.orders[].status'",
    )
)
def history(
    ctx: typer.Context, customer_id: CustomerId, *, as_json: AsJson = False, as_csv: AsCsv = False
) -> None:
    """Show the trading orders of a customer."""
    form = choose_form(as_json=as_json, as_csv=as_csv)
    show_records(ask(ctx, lambda gateway: gateway.wallet.trading_order_history(customer_id)), form)


@app.command(
    epilog=examples(
        "gateway wallet balance",
        "gateway wallet balance --csv > balance.csv",
    )
)
def balance(ctx: typer.Context, *, as_json: AsJson = False, as_csv: AsCsv = False) -> None:
    """Show what the tenant has available for spot trading."""
    form = choose_form(as_json=as_json, as_csv=as_csv)
    show_records(ask(ctx, lambda gateway: gateway.wallet.spot_trading_available_balance()), form)


@app.command(
    epilog=examples(
        "gateway wallet cancel wallet-0004 order-0056",
        "gateway wallet cancel wallet-0004 order-0056 --yes --sandbox",
    )
)
def cancel(
    ctx: typer.Context,
    wallet_id: Annotated[str, argument("WALLET", "The id of the wallet.")],
    order_id: Annotated[str, argument("ORDER", "The id of the order.")],
    *,
    yes: Annotated[bool, switch("--yes", "Do not ask; needed in scripts.", "-y")] = False,
) -> None:
    """Cancel a trading order, and print the gateway's reply as JSON.

    It asks first. It does no harm to cancel an order twice.
    """
    if not yes:
        _confirm(f"Cancel order {printable(order_id)} of wallet {printable(wallet_id)}?")
    reply = ask(ctx, lambda gateway: gateway.wallet.cancel_order(wallet_id, order_id))
    show_done("The order is cancelled.", reply)


def _confirm(question: str) -> None:
    if sys.stdin is None or not sys.stdin.isatty():
        problem = "cannot ask, because standard input is not a terminal"
        raise CommandError(f"{problem}\nNothing was sent: add --yes.")
    try:
        meant = Confirm.ask(Text(question), console=make_console(stderr=True), default=False)
    except EOFError:
        meant = False
    if not meant:
        raise CommandError("not cancelled: nothing was sent", Status.FAILED)
