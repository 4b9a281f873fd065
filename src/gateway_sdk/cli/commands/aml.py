"""The commands of documents: `gateway aml upload`, `update`, `status`."""

import os
from contextlib import AbstractContextManager
from typing import Annotated

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from gateway_sdk.cli.arguments import ContentType, DocumentId, argument, examples, option
from gateway_sdk.cli.files import name_of, open_content, refuse
from gateway_sdk.cli.output.console import Show, progress
from gateway_sdk.cli.output.show import show_done
from gateway_sdk.cli.process import CommandError
from gateway_sdk.cli.session import ask

app = typer.Typer(rich_markup_mode=None)


def _bar(doing: str) -> AbstractContextManager[Show]:
    size, speed, left = DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    return progress(TextColumn(doing), BarColumn(bar_width=None), size, speed, left)


@app.command(
    epilog=examples(
        "gateway aml upload passport.pdf",
        "gateway aml upload passport.bin --content-type application/pdf",
        "gateway aml upload - < passport.pdf",
    )
)
def upload(
    ctx: typer.Context,
    file: Annotated[str, argument("FILE", 'The document; "-" is standard input.')],
    *,
    content_type: ContentType = None,
) -> None:
    """Upload a document, and print the gateway's reply as JSON.

    The request is never sent twice: if the reply is lost, the status is 5, and somebody has to
    check at the gateway.
    """
    content = open_content(file)
    with _bar("Uploading") as show:
        reply = ask(ctx, lambda it: it.aml.upload_document(content, content_type, on_progress=show))
    show_done("The document is uploaded.", reply)


@app.command(epilog=examples("gateway aml update document-0001 passport.pdf"))
def update(
    ctx: typer.Context,
    document_id: DocumentId,
    file: Annotated[str, argument("FILE", 'The new content; "-" is standard input.')],
    *,
    content_type: ContentType = None,
) -> None:
    """Replace the content of a document, and print the gateway's reply as JSON."""
    given = document_id, open_content(file), content_type
    with _bar("Updating") as show:
        reply = ask(ctx, lambda it: it.aml.update_document(*given, on_progress=show))
    show_done("The document is updated.", reply)


@app.command(
    epilog=examples(
        "gateway aml status document-0001 approved",
        "gateway aml status document-0001 --file status.json",
    )
)
def status(
    ctx: typer.Context,
    document_id: DocumentId,
    value: Annotated[str | None, argument("STATUS", "The new status, sent as text.")] = None,
    *,
    file: Annotated[
        str | None, option("FILE", 'A file to send in place of a value; "-" is standard input.')
    ] = None,
    content_type: ContentType = None,
) -> None:
    """Change the status of a document, and print the gateway's reply as JSON.

    The interface does not say which values are allowed.
    """
    if bool(value) == (file is not None):
        raise CommandError("give the new status, or --file")
    if value and not value.isalnum() and os.path.isfile(value):  # noqa: PTH113 - any text, however long
        refuse(f"{name_of(value)} is a file\nTo send its content, give --file.")
    given = document_id, open_content(file) if file is not None else value or "", content_type
    reply = ask(ctx, lambda it: it.aml.change_document_status(*given))
    show_done("The status is changed.", reply)
