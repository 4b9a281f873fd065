"""The signatures of the commands for customers."""

from typing import Annotated

import typer


def create(
    ctx: typer.Context,
    file: Annotated[
        str, typer.Argument(help='A file of JSON with the fields of CreateRequest; "-" is stdin.')
    ],
) -> None:
    """Create a customer, and print the gateway's reply as JSON.

    A customer is never created twice behind your back: if the reply is lost, the status is 5, and
    somebody has to look. The tenant is that of GATEWAY_TENANT_ID.
    """
    # Imported here, because only those who create need it.
    from gateway_sdk.cli.customer.write import create_customer  # noqa: PLC0415

    create_customer(ctx, file)


def revise(
    ctx: typer.Context,
    customer_id: Annotated[str, typer.Argument(help="The gateway's id of the customer.")],
    revisions: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE | KEY=VALUE...",
            help='What to change; or a file of JSON, {"key": "value"}; "-" is stdin. Others on this'
            " machine can read arguments: what is private belongs into a file.",
        ),
    ],
) -> None:
    """Change fields of a customer, and print the gateway's reply as JSON.

    It is never done twice behind your back: if the reply is lost, the status is 5.
    """
    # Imported here, because only those who revise need it.
    from gateway_sdk.cli.customer.write import revise_customer  # noqa: PLC0415

    revise_customer(ctx, customer_id, revisions)
