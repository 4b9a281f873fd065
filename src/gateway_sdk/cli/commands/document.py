"""The commands `gateway document upload`, `update` and `status`."""

from typing import Annotated, TypeAlias

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from gateway_sdk.cli.arguments import ContentType
from gateway_sdk.cli.content import open_content
from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.cli.output.console import progress
from gateway_sdk.cli.output.show import show_done
from gateway_sdk.cli.session import ask

File: TypeAlias = Annotated[str, typer.Argument(metavar="FILE", help='The document; "-" is stdin.')]
DocumentId: TypeAlias = Annotated[
    str, typer.Argument(metavar="DOCUMENT", help="The gateway's id of the document.")
]


def _bar(doing: str) -> tuple[ProgressColumn, ...]:
    return (
        TextColumn(doing),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )


def upload(ctx: typer.Context, file: File, *, content_type: ContentType = None) -> None:
    """Upload a document, and print the gateway's reply as JSON.

    It is never uploaded twice behind your back: if the reply is lost, the status is 5, and somebody
    has to look.
    """
    content = open_content(file)
    with progress(*_bar("Uploading")) as show:
        reply = ask(
            ctx,
            lambda gateway: gateway.aml.upload_document(content, content_type, on_progress=show),
        )
    show_done("The document is uploaded.", reply)


def update(
    ctx: typer.Context, document_id: DocumentId, file: File, *, content_type: ContentType = None
) -> None:
    """Replace the content of a document, and print the gateway's reply as JSON."""
    content = open_content(file)
    with progress(*_bar("Updating")) as show:
        reply = ask(
            ctx,
            lambda gateway: gateway.aml.update_document(
                document_id, content, content_type, on_progress=show
            ),
        )
    show_done("The document is updated.", reply)


def status(
    ctx: typer.Context,
    document_id: DocumentId,
    value: Annotated[
        str | None,
        typer.Argument(metavar="STATUS", help="The new status, which is sent as text."),
    ] = None,
    *,
    file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help='A file to send in place of a value; "-" is stdin.'),
    ] = None,
    content_type: ContentType = None,
) -> None:
    """Change the status of a document, and print the gateway's reply as JSON.

    Which values there are, and in which shape, only your gateway knows.
    """
    if bool(value) == (file is not None):
        raise CommandError("give the new status: either a value, or --file", MISUSED)
    content = open_content(file) if file is not None else value or ""
    reply = ask(
        ctx,
        lambda gateway: gateway.aml.change_document_status(document_id, content, content_type),
    )
    show_done("The status is changed.", reply)
