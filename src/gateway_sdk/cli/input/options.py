"""The arguments and options for what is sent."""

from typing import Annotated, TypeAlias

import typer

ContentType: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="The media type, such as application/pdf; else it follows from the file's name."
    ),
]
