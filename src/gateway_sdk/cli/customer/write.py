"""Creating and revising customers."""

from collections.abc import Sequence

import typer

from gateway_sdk.cli.customer.revisions import read_revisions
from gateway_sdk.cli.input.fields import check_fields
from gateway_sdk.cli.input.json_file import read_json
from gateway_sdk.cli.output.show import show_done
from gateway_sdk.cli.reach import ask
from gateway_sdk.models import CreateRequest


def create_customer(ctx: typer.Context, file: str) -> None:
    """Create the customer in a file.

    Raises:
        CommandError: the file is not what it has to be; nothing was sent.
        GatewayError: its outcome says whether the customer may be there.
    """
    request = check_fields(CreateRequest, read_json(file), file)
    reply = ask(ctx, lambda gateway: gateway.customer.create_customer(request), needs_tenant=True)
    show_done("The customer is created.", reply)


def revise_customer(ctx: typer.Context, customer_id: str, words: Sequence[str]) -> None:
    """Revise a customer as words or a file say.

    Raises:
        CommandError: they are not what they have to be; nothing was sent.
        GatewayError: its outcome says whether the customer may be changed.
    """
    revisions = read_revisions(words)
    reply = ask(ctx, lambda gateway: gateway.customer.revise_customer(customer_id, revisions))
    show_done("The customer is revised.", reply)
