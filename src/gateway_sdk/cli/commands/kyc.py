"""The command `gateway kyc webhook`."""

import typer

from gateway_sdk.cli.arguments import MayBeLeftOut
from gateway_sdk.cli.files import open_content
from gateway_sdk.cli.output.show import show_done
from gateway_sdk.cli.process import CommandError
from gateway_sdk.cli.session import ask


def webhook(
    ctx: typer.Context, file: MayBeLeftOut = None, *, content_type: str | None = None
) -> None:
    """Call the KYC webhook.

    The request is never sent twice: if the reply is lost, the status is 5.

    Args:
        file (FILE): The event, if there is one; "-" is standard input.

    Examples:
        gateway kyc webhook
        gateway kyc webhook event.json --sandbox
    """
    if file is None and content_type is not None:
        raise CommandError("--content-type needs a file")
    content = None if file is None else open_content(file)
    ask(ctx, lambda gateway: gateway.kyc.send_webhook(content, content_type))
    show_done("The gateway has acknowledged it.", None)
