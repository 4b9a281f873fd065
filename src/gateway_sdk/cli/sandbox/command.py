"""The signature of `gateway sandbox`."""

from typing import Annotated

import typer


def sandbox(
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on. Any other than this machine's own lets everybody in who"
            " can reach it: the sandbox's token is public."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")
    ] = 8080,
    seed: Annotated[int, typer.Option(help="Repeats the same customers, orders and balances.")] = 0,
) -> None:
    """Run a gateway on this machine: all twelve operations, on real data, in memory.

    Ctrl-C stops it, and what was done to it is forgotten.
    """
    # Imported here, because it needs the extra [sandbox].
    from gateway_sdk.cli.sandbox.serve import serve  # noqa: PLC0415

    serve(host, port, seed)
