"""The command `gateway kyc webhook`."""

from typing import Annotated

import typer

from gateway_sdk.cli.arguments import ContentType, argument, examples
from gateway_sdk.cli.files import open_content
from gateway_sdk.cli.output.show import show_done
from gateway_sdk.cli.process import CommandError
from gateway_sdk.cli.session import ask

app = typer.Typer(rich_markup_mode=None)


@app.command(
    epilog=examples(
        "gateway kyc webhook",
        "gateway kyc webhook event.json --sandbox",
    )
)
def webhook(
    ctx: typer.Context,
    file: Annotated[
        str | None, argument("FILE", 'The event, if there is one; "-" is standard input.')
    ] = None,
    *,
    content_type: ContentType = None,
) -> None:
    """Call the KYC webhook.

    The request is never sent twice: if the reply is lost, the status is 5.
    """
    if file is None and content_type is not None:
        raise CommandError("--content-type needs a file")
    content = None if file is None else open_content(file)
    ask(ctx, lambda gateway: gateway.kyc.send_webhook(content, content_type))
    show_done("The gateway has acknowledged it.", None)
