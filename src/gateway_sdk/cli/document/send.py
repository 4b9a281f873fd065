"""Sending documents and their status."""

import typer

from gateway_sdk.cli.document.progress import progress
from gateway_sdk.cli.input.files import open_content
from gateway_sdk.cli.output.show import show_done
from gateway_sdk.cli.reach import ask


def upload_document(ctx: typer.Context, file: str, content_type: str | None) -> None:
    """Upload a document.

    Raises:
        CommandError: the file cannot be read; nothing was sent.
        GatewayError: its outcome says whether the document may be there.
    """
    content = open_content(file)
    with progress("Uploading") as show:
        reply = ask(
            ctx,
            lambda gateway: gateway.aml.upload_document(content, content_type, on_progress=show),
        )
    show_done("The document is uploaded.", reply)


def update_document(
    ctx: typer.Context, document_id: str, file: str, content_type: str | None
) -> None:
    """Replace a document.

    Raises:
        CommandError: the file cannot be read; nothing was sent.
        GatewayError: its outcome says whether the document may be replaced.
    """
    content = open_content(file)
    with progress("Updating") as show:
        reply = ask(
            ctx,
            lambda gateway: gateway.aml.update_document(
                document_id, content, content_type, on_progress=show
            ),
        )
    show_done("The document is updated.", reply)


def change_status(
    ctx: typer.Context,
    document_id: str,
    *,
    value: str | None,
    file: str | None,
    content_type: str | None,
) -> None:
    """Change the status of a document to a value, or to what a file says.

    Raises:
        CommandError: the file cannot be read; nothing was sent.
        GatewayError: its outcome says whether the status may be changed.
    """
    content = open_content(file) if file is not None else value or ""
    reply = ask(
        ctx,
        lambda gateway: gateway.aml.change_document_status(document_id, content, content_type),
    )
    show_done("The status is changed.", reply)
