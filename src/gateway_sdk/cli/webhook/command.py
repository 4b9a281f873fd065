"""The signature of `gateway webhook`."""

from typing import Annotated

import typer

from gateway_sdk.cli.input.options import ContentType


def webhook(
    ctx: typer.Context,
    file: Annotated[
        str | None,
        typer.Argument(help='The event; "-" is stdin. None is sent, if left out.'),
    ] = None,
    *,
    content_type: ContentType = None,
) -> None:
    """Call the KYC webhook, until the gateway acknowledges it; there is no reply to print.

    It is never called twice behind your back: if the answer is lost, the status is 5.
    """
    # Imported here, because only those who call it need it.
    from gateway_sdk.cli.webhook.call import call  # noqa: PLC0415

    call(ctx, file, content_type)
