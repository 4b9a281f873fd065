"""The signatures of the commands for documents."""

from typing import Annotated, TypeAlias

import typer

from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.cli.input.options import ContentType

File: TypeAlias = Annotated[str, typer.Argument(help='The document; "-" is stdin.')]
DocumentId: TypeAlias = Annotated[str, typer.Argument(help="The gateway's id of the document.")]


def upload(ctx: typer.Context, file: File, *, content_type: ContentType = None) -> None:
    """Upload a document, and print the gateway's reply as JSON.

    It is never uploaded twice behind your back: if the reply is lost, the status is 5, and somebody
    has to look.
    """
    # Imported here, because only those who upload need it.
    from gateway_sdk.cli.document.send import upload_document  # noqa: PLC0415

    upload_document(ctx, file, content_type)


def update(
    ctx: typer.Context, document_id: DocumentId, file: File, *, content_type: ContentType = None
) -> None:
    """Replace the content of a document, and print the gateway's reply as JSON."""
    # Imported here, because only those who update need it.
    from gateway_sdk.cli.document.send import update_document  # noqa: PLC0415

    update_document(ctx, document_id, file, content_type)


def status(
    ctx: typer.Context,
    document_id: DocumentId,
    value: Annotated[
        str | None, typer.Argument(help="The new status, which is sent as text.")
    ] = None,
    *,
    file: Annotated[
        str | None, typer.Option(help='A file to send in place of a value; "-" is stdin.')
    ] = None,
    content_type: ContentType = None,
) -> None:
    """Change the status of a document, and print the gateway's reply as JSON.

    Which values there are, and in which shape, only your gateway knows.
    """
    if bool(value) == (file is not None):
        raise CommandError("give the new status: either a value, or --file", MISUSED)
    # Imported here, because only those who change it need it.
    from gateway_sdk.cli.document.send import change_status  # noqa: PLC0415

    change_status(ctx, document_id, value=value, file=file, content_type=content_type)
