"""Cancelling an order, once somebody has said so."""

import sys

import typer
from rich.prompt import Confirm
from rich.text import Text

from gateway_sdk.cli.console import make_console
from gateway_sdk.cli.failure import FAILED, MISUSED, CommandError
from gateway_sdk.cli.output.printable import printable
from gateway_sdk.cli.output.show import show_done
from gateway_sdk.cli.reach import ask


def cancel_order(ctx: typer.Context, wallet_id: str, order_id: str, *, yes: bool) -> None:
    """Ask, unless that is settled, and cancel.

    Raises:
        CommandError: nobody can be asked, or the answer was no; nothing was sent.
        GatewayError: its outcome says whether the order may be cancelled.
    """
    if not yes:
        _confirm(f"Cancel order {printable(order_id)} of wallet {printable(wallet_id)}?")
    reply = ask(ctx, lambda gateway: gateway.wallet.cancel_order(wallet_id, order_id))
    show_done("The order is cancelled.", reply)


def _confirm(question: str) -> None:
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandError(
            "cancelling asks first, and there is nobody to ask here\n"
            "Add --yes if it is meant; nothing was sent.",
            MISUSED,
        )
    try:
        meant = Confirm.ask(Text(question), console=make_console(stderr=True), default=False)
    except EOFError:
        meant = False
    if not meant:
        raise CommandError("not cancelled: nothing was sent", FAILED)
