"""Calling the webhook."""

import typer

from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.cli.input.files import open_content
from gateway_sdk.cli.output.show import show_done
from gateway_sdk.cli.reach import ask


def call(ctx: typer.Context, file: str | None, content_type: str | None) -> None:
    """Call it with the event in a file, or with none.

    Raises:
        CommandError: the file cannot be read, or a media type has nothing to describe.
        GatewayError: its outcome says whether the gateway may have got it.
    """
    if file is None and content_type is not None:
        raise CommandError("--content-type needs a file that it describes", MISUSED)
    content = None if file is None else open_content(file)
    ask(ctx, lambda gateway: gateway.kyc.send_webhook(content, content_type))
    show_done("The gateway has acknowledged it.", None)
