"""The signature of `gateway demo`."""

from pathlib import Path
from typing import Annotated

import typer

from gateway_sdk.cli.extras import require


def demo(
    out: Annotated[
        Path,
        typer.Option(
            help="The folder for rates.jsonl and rates.png. It is made if it is not there, and"
            " files of an earlier run are replaced."
        ),
    ] = Path("gateway-demo"),
    concurrency: Annotated[int, typer.Option(min=1, help="Calls under way at once.")] = 20,
    *,
    browser: Annotated[
        bool, typer.Option("--browser", help="Log in yourself, with this machine's browser.")
    ] = False,
) -> None:
    """Show the whole SDK at work: a year of exchange rates for every country's currency.

    Starts a gateway on this machine, logs in there, lists its countries, fetches each currency's
    rates against the euro, many at once, and shows them: a table, a data file and a chart. It takes
    some seconds and needs no network. Calls that fail are counted and named.
    """
    # The chart comes last: better to hear now that it cannot be drawn.
    require("matplotlib")
    # Imported here, because it needs the extra [sandbox].
    from gateway_sdk.cli.demo.show import show  # noqa: PLC0415

    show(out, concurrency, by_hand=browser)
