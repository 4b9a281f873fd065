"""The commands `gateway fleet ...`: plans of a job, and the workers that do them."""

import asyncio
import json
import logging
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Coroutine, Iterator
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from gateway_sdk.cli.arguments import AsJson
from gateway_sdk.cli.commands.bulk import check_out
from gateway_sdk.cli.files import STDIN, name_of, standard_input
from gateway_sdk.cli.output.console import counting_bar, to_json
from gateway_sdk.cli.process import CommandError, Status, printable, require, say, write_out
from gateway_sdk.fleet import Job, Status as PlanStatus

T = TypeVar("T")

LOOK: Final = 1.0
"""Seconds between two looks at the database."""


def init(ctx: typer.Context, job: str) -> None:
    """Make the tables of the fleet in the database of the job, where they are missing."""
    made = _run(ctx, _job(job).init())
    say("The tables were made." if made else "The tables are there already.")


def plan(
    ctx: typer.Context,
    job: str,
    plan: str,
    items: str,
    chunk: Annotated[int, typer.Option(min=1, max=100_000)] = 250,
) -> None:
    """Store a plan, whose items are the lines of a file, and give it to the workers.

    It is safe to plan the same items again.

    Args:
        items (FILE): A file of JSON lines, one for each item; "-" is standard input.
        chunk (N): Items that a worker takes at a time.
    """
    found = _job(job)

    async def work() -> tuple[bool, PlanStatus]:
        stored = await found.plan(plan, _lines(items), chunk=chunk)
        return stored, await found.status(plan)

    stored, status = _run(ctx, work())
    text = f"{plan}: {status.items} items in {status.chunks} chunks"
    say(text if stored else f"{text}, which are there already")


def worker(ctx: typer.Context, job: str, *, check: bool = False) -> None:
    """Do the chunks of all plans of a job, until it is stopped.

    Start as many as you like, on any machine. After SIGTERM or Ctrl-C, calls in flight may end, and
    the rest is given back to the queue.

    Args:
        check: Only tell whether a worker on this machine is alive: status 0 or 1, for containers.
    """
    found = _job(job)
    if check:
        host = socket.gethostname()
        if not _run(ctx, found.is_alive(host)):
            raise CommandError(f"no worker of {job} is alive on {host}", Status.FAILED)
        return
    _log_to_stderr()
    _run(ctx, _work(found))


def status(
    ctx: typer.Context, job: str, plan: str, *, watch: bool = False, as_json: AsJson = False
) -> None:
    """Show how far a plan is, and what its workers wait for.

    It ends with status 0 if every item is done, with 4 while something is missing, with 1 if items
    failed, and with 5 if it is unknown of some whether they were done.

    Args:
        watch: Show a bar until the plan is complete. Ctrl-C ends only the bar.
        as_json: Print it as JSON.
    """
    found = _job(job)
    seen = _run(ctx, _watched(found, plan) if watch else found.status(plan))
    if as_json:
        write_out(f"{to_json(_plain(seen))}\n")
    else:
        write_out("".join(f"{line}\n" for line in _told(seen)))
    _end(seen)


def collect(ctx: typer.Context, job: str, plan: str, out: Path, *, partial: bool = False) -> None:
    """Write the results of a plan into a file, whole or not at all; its suffix is the format.

    The exit status is that of `gateway fleet status`.

    Args:
        out (FILE): The file, .csv, .ndjson or .parquet. Parquet needs the extra [parquet].
        partial: Write the results so far, even if some are missing.
    """
    check_out(out)
    found = _job(job)

    async def work() -> tuple[int, PlanStatus]:
        seen = await found.status(plan)
        if not seen.is_complete and not partial:
            raise CommandError(
                f"{seen.missing + seen.begun} of {seen.items} items have no result yet: wait for"
                " the workers, or give --partial",
                Status.UNCHANGED,
            )
        try:
            written = await found.collect(plan, out, partial=partial)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise CommandError(
                f"cannot write {printable(str(out))}: {why}", Status.FAILED
            ) from None
        return written.rows, await found.status(plan)

    rows, seen = _run(ctx, work())
    say(f"{printable(str(out))}: {rows} rows")
    for line in _told(seen):
        say(line)
    _end(seen)


def failed(ctx: typer.Context, job: str, plan: str) -> None:
    """List the items that failed, with their errors, as JSON lines."""
    _run(ctx, _listed(_job(job).failed(plan)))


def unknown(ctx: typer.Context, job: str, plan: str) -> None:
    """List the items that may have been done and are never sent again, as JSON lines.

    Check each of them at the gateway.
    """
    _run(ctx, _listed(_job(job).unknown(plan)))


def retry(
    ctx: typer.Context,
    job: str,
    plan: str,
    *,
    every: Annotated[bool, typer.Option("--all")] = False,
) -> None:
    """Do the items again that failed and may succeed now.

    Args:
        every: Also those that would fail again, unless something was changed.
    """
    count = _run(ctx, _job(job).retry(plan, every=every))
    say(f"{plan}: {count} items are done again")


def delete(ctx: typer.Context, job: str, plan: str) -> None:
    """Delete a plan with its results."""
    _run(ctx, _job(job).delete(plan))
    say(f"{plan}: deleted")


def _run(ctx: typer.Context, work: Coroutine[Any, Any, T]) -> T:
    given = ctx.find_root().params
    for name in ("sandbox", "base_url", "tenant", "profile"):
        if given[name]:
            work.close()
            option = name.replace("_", "-")
            raise CommandError(
                f"--{option} has no effect here: the gateway is that of the job, by default that of"
                " GATEWAY_BASE_URL",
            )
    return asyncio.run(work)


async def _work(job: Job) -> None:
    loop = asyncio.get_running_loop()
    async with job.worker() as runner:

        def stop(*_: object) -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # again: at once
            loop.call_soon_threadsafe(runner.stop)

        # Not with the loop's own way, which Windows lacks.
        before = [(one, signal.signal(one, stop)) for one in (signal.SIGTERM, signal.SIGINT)]
        say(f"A worker of {job.name} has begun.")
        try:
            await runner.run()
        finally:
            for one, handler in before:
                signal.signal(one, handler)
    say("The worker has ended.")


def _log_to_stderr() -> None:
    """Show what the fleet warns of, such as a database that is away."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    for name in ("gateway_sdk.fleet", "gateway_sdk.bulk"):
        logging.getLogger(name).addHandler(handler)
    # They tell the same, with each attempt to connect and each job.
    for name in ("psycopg.pool", "procrastinate"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


async def _watched(job: Job, plan: str) -> PlanStatus:
    seen = await job.status(plan)
    before = seen.items - seen.missing
    with counting_bar("Done") as show:
        while not seen.is_complete:
            notes = [f"{seen.failed} failed"] if seen.failed else []
            notes += [f"waits: {printable(one.reason)}" for one in seen.waiting[:1]]
            ended = seen.items - seen.missing
            show(ended, seen.items, ended - before, *notes)
            await asyncio.sleep(LOOK)
            seen = await job.status(plan)
    return seen


async def _listed(rows: AsyncGenerator[dict[str, Any], None]) -> None:
    async for row in rows:
        write_out(f"{to_json(row, indent=None)}\n")


def _plain(seen: PlanStatus) -> dict[str, Any]:
    waiting = [{**asdict(one), "since": one.since.isoformat()} for one in seen.waiting]
    return {**asdict(seen), "waiting": waiting, "missing": seen.missing}


def _told(seen: PlanStatus) -> Iterator[str]:
    yield f"done     {seen.done} of {seen.items}"
    if seen.failed:
        yield f"failed   {seen.failed}: `gateway fleet failed` lists them"
    if seen.unknown:
        yield f"unknown  {seen.unknown}: `gateway fleet unknown` lists them"
    if seen.begun:
        yield f"begun    {seen.begun}: may be under way, and are not sent twice"
    if not seen.is_complete:
        yield (
            f"missing  {seen.missing}, in {seen.open_chunks} chunks; {seen.working} of them in"
            f" work by {seen.workers} workers"
        )
    for one in seen.waiting:
        since = f"{one.since.astimezone():%Y-%m-%d %H:%M:%S}"
        yield f"waits    {one.workers} workers since {since}: {printable(one.reason)}"


def _end(seen: PlanStatus) -> None:
    if not seen.is_complete:
        raise typer.Exit(Status.UNCHANGED)
    if seen.unknown:
        raise typer.Exit(Status.UNKNOWN)
    if seen.failed:
        raise typer.Exit(Status.FAILED)


def _job(text: str) -> Job:
    require("psycopg")
    module, _, name = text.partition(":")
    module, name = module.removesuffix(".py"), name or "job"
    if not all(part.isidentifier() for part in module.split(".")):
        raise CommandError("a job is written as MODULE:NAME, such as jobs:rates")
    if "" not in sys.path:
        sys.path.insert(0, "")  # the folder in which the command is given
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        problem = f"there is no module {module} in this folder"
        advice = "A job is written as MODULE:NAME, such as jobs:rates for `rates` in jobs.py."
        raise CommandError(f"{problem}\n{advice}") from None
    job = getattr(found, name, None)
    if not isinstance(job, Job):
        raise CommandError(f"the module {module} has no fleet.Job of the name {printable(name)}")
    return job


def _lines(path: str) -> Iterator[Any]:
    try:
        with standard_input() if path == STDIN else Path(path).open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield json.loads(line)  # it knows a byte order mark
                except (RecursionError, ValueError):  # also of what is not UTF-8
                    raise CommandError(f"line {number} of {name_of(path)} is not JSON") from None
    except OSError as error:
        raise CommandError(f"cannot read {name_of(path)}: {error.strerror}") from None
