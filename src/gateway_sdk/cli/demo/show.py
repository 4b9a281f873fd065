"""The demo from its first line to its last."""

import time
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gateway_sdk.cli.console import make_console
from gateway_sdk.cli.demo import job, summary
from gateway_sdk.cli.demo.files import (
    CHART_NAME,
    LINES_NAME,
    make_folder,
    write_lines,
    writing_into,
)
from gateway_sdk.cli.demo.findings import Findings, Plan
from gateway_sdk.cli.demo.table import make_table
from gateway_sdk.cli.demo.tokens import login_words, token_source
from gateway_sdk.cli.facts import print_facts
from gateway_sdk.cli.failure import FAILED, CommandError
from gateway_sdk.cli.run import run
from gateway_sdk.sandbox import Sandbox
from gateway_sdk.session import GatewaySession


def show(folder: Path, concurrency: int, *, by_hand: bool = False) -> None:
    """Log in, fetch, show and write.

    Args:
        folder: Where the files go.
        concurrency: Calls under way at once.
        by_hand: Whether the user logs in, with a browser.

    Raises:
        CommandError: the folder cannot be written, or a call failed that should not have.
        GatewayError: it failed before there was anything to show.
    """
    began = time.monotonic()
    make_folder(folder)
    console = make_console()
    console.print(summary.HEADING, style="bold", end="\n\n")
    fetching = _fetch(console, concurrency, by_hand=by_hand)
    _report(console, run(fetching), folder, began)


def _report(console: Console, findings: Findings, folder: Path, began: float) -> None:
    """Show and write what was found, the bad as well as the good."""
    console.print(make_table(findings, console.width))
    console.print(summary.caption(findings.plan), style="dim", end="\n\n")
    _write(console, findings, folder)
    seconds = time.monotonic() - began
    print_facts(console, summary.summary_facts(findings, folder, seconds))
    if not findings.worked:
        raise CommandError("calls failed that should not have: see above", FAILED)


async def _fetch(console: Console, concurrency: int, *, by_hand: bool) -> Findings:
    """Serve a sandbox on a free port, and log in and fetch over that socket."""
    async with (
        Sandbox().serve() as address,
        GatewaySession(
            address, access_token=token_source(address, by_hand=by_hand), tenant_id="demo"
        ) as gateway,
    ):
        plan = await job.make_plan(gateway, datetime.now(UTC).date())
        print_facts(console, summary.plan_facts(plan, address, login_words(by_hand=by_hand)))
        console.print()
        return await _fetch_with_progress(console, gateway, plan, concurrency)


async def _fetch_with_progress(
    console: Console, gateway: GatewaySession, plan: Plan, concurrency: int
) -> Findings:
    progress = Progress(
        TextColumn("Fetching"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with progress:
        task = progress.add_task("", total=len(plan.asked))
        return await job.fetch(
            gateway, plan, concurrency=concurrency, on_result=lambda: progress.advance(task)
        )


def _write(console: Console, findings: Findings, folder: Path) -> None:
    """Write the data, which are there, before the chart, which takes a moment."""
    with writing_into(folder), console.status("Drawing the chart"):
        write_lines(findings, folder / LINES_NAME)
        # Imported here, because it takes longer than all the calls.
        from gateway_sdk.cli.demo.chart import draw_chart  # noqa: PLC0415

        draw_chart(findings, folder / CHART_NAME)
