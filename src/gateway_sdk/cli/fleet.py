"""The commands `gateway fleet ...`: plans of a job, and the workers that do them."""

import json
import logging
import signal
import socket
import sys
from asyncio import Runner, SelectorEventLoop, get_running_loop, sleep
from collections.abc import AsyncGenerator, Coroutine, Iterator
from dataclasses import asdict
from pkgutil import resolve_name
from typing import Annotated, Any, Final, NoReturn, TypeAlias, TypeVar

import typer

from gateway_sdk.cli.arguments import argument, name_of, option, reading, switch, writing
from gateway_sdk.cli.output import counting_bar, to_json
from gateway_sdk.cli.process import CommandError, Status, printable, say, write_out
from gateway_sdk.cli.rates import OutFile
from gateway_sdk.errors import ConfigurationError
from gateway_sdk.fleet import Job, Status as PlanStatus

app = typer.Typer(rich_markup_mode=None)

T = TypeVar("T")

ADVICE: Final = "A job is written as MODULE:NAME, such as jobs:rates for `rates` in jobs.py."
LOOK: Final = 1.0  # seconds between two looks at the database


def parse_job(text: str) -> Job:
    if "" not in sys.path:
        sys.path.insert(0, "")  # the folder in which the command is given
    try:
        job = resolve_name(text if ":" in text else f"{text}:job")
    except ConfigurationError as error:  # of the job, not of an option or the environment
        raise CommandError(printable(str(error))) from error
    except (AttributeError, ImportError, ValueError) as error:
        why = printable(f"{text}: {error}")
        raise CommandError(f"cannot import {why} (--debug shows where)\n{ADVICE}") from error
    if not isinstance(job, Job):
        raise CommandError(f"{printable(text)} is no fleet.Job\n{ADVICE}")
    return job


TheJob: TypeAlias = Annotated[
    Job, argument("JOB", "The module and the name of a job, such as jobs:rates.", parser=parse_job)
]
PlanName: TypeAlias = Annotated[
    str, argument("PLAN", "The name of the plan, such as rates-2026-01.")
]


@app.command()
def init(job: TheJob) -> None:
    """Make the tables of the fleet in the database of the job, where they are missing."""
    say("The tables were made." if run(job.init()) else "The tables are there already.")


@app.command()
def plan(
    job: TheJob,
    plan: PlanName,
    items: Annotated[str, argument("FILE", 'JSON lines; "-" is standard input.')],
    chunk: Annotated[int, option("N", "Items of a chunk.", min=1, max=100_000)] = 250,
) -> None:
    """Store a plan, whose items are the lines of a file, and give it to the workers.

    It is safe to plan the same items again.
    """
    is_new = run(job.plan(plan, _lines(items), chunk=chunk))
    status = run(job.status(plan))
    text = f"{plan}: {status.items} items in {status.chunks} chunks"
    say(text if is_new else f"{text}, which are there already")


@app.command()
def worker(
    job: TheJob,
    *,
    check: Annotated[
        bool, switch("--check", "Only tell, by status 0 or 1, whether one is alive here.")
    ] = False,
) -> None:
    """Do the chunks of all plans of a job, until it is stopped.

    Start as many as you like, on any machine. After SIGTERM or Ctrl-C, calls in flight may end, and
    the rest is given back.
    """
    if not check:
        # Shows what the fleet warns of, such as a database that is away.
        logging.basicConfig(format="%(asctime)s %(message)s")
        try:
            run(_work(job))
        except ConfigurationError as error:
            if (error.setting or "").startswith("GATEWAY_"):
                raise
            raise CommandError(printable(str(error))) from error  # of the job's `session`
    elif not run(job.is_alive(host := socket.gethostname())):
        raise CommandError(f"no worker of {job.name} is alive on {host}", Status.FAILED)


@app.command()
def status(
    job: TheJob,
    plan: PlanName,
    *,
    watch: Annotated[
        bool, switch("--watch", "Show a bar until the plan is complete. Ctrl-C ends only the bar.")
    ] = False,
    as_json: Annotated[bool, switch("--json", "Print it as JSON.")] = False,
) -> None:
    """Show how far a plan is, and what its workers wait for.

    It ends with status 0 if every item is done, with 4 while something is missing, with 1 if items
    failed, and with 5 if it is unknown of some whether they were done.
    """
    seen = run(_watched(job, plan) if watch else job.status(plan))
    waiting = [{**asdict(one), "since": one.since.isoformat()} for one in seen.waiting]
    numbers = {**asdict(seen), "waiting": waiting, "missing": seen.missing}
    write_out(f"{to_json(numbers)}\n" if as_json else "".join(f"{it}\n" for it in _told(seen)))
    _end(seen)


@app.command()
def collect(
    job: TheJob,
    plan: PlanName,
    out: OutFile,
    *,
    partial: Annotated[bool, switch("--partial", "Write the results so far.")] = False,
) -> None:
    """Write the results of a plan into a file, whole or not at all; its suffix is the format.

    The exit status is that of `gateway fleet status`.
    """
    seen = run(job.status(plan))
    if not seen.is_complete and not partial:
        lacking = f"{seen.missing + seen.begun} of {seen.items} items have no result yet"
        advice = "Wait for the workers, or give --partial."
        raise CommandError(f"{lacking}\n{advice}", Status.UNCHANGED)
    with writing(out, Status.FAILED):
        rows = run(job.collect(plan, out, partial=partial)).rows
    say(f"{printable(str(out))}: {rows} rows")
    seen = run(job.status(plan))
    say("\n".join(_told(seen)))
    _end(seen)


@app.command()
def failed(job: TheJob, plan: PlanName) -> None:
    """List the items that failed, with their errors, as JSON lines."""
    run(_listed(job.failed(plan)))


@app.command()
def unknown(job: TheJob, plan: PlanName) -> None:
    """List the items that may have been done and are never sent again, as JSON lines.

    Check each of them at the gateway.
    """
    run(_listed(job.unknown(plan)))


@app.command()
def retry(
    job: TheJob,
    plan: PlanName,
    *,
    every: Annotated[
        bool, switch("--all", "Also those that would fail again, but no write that may be done.")
    ] = False,
) -> None:
    """Do the items again that failed and may succeed now."""
    say(f"{plan}: {run(job.retry(plan, every=every))} items are done again")


@app.command()
def delete(job: TheJob, plan: PlanName) -> None:
    """Delete a plan with its results."""
    run(job.delete(plan))
    say(f"{plan}: deleted")


def run(work: Coroutine[Any, Any, T]) -> T:
    with Runner(loop_factory=SelectorEventLoop) as runner:  # as psycopg needs on Windows
        return runner.run(work)


async def _work(job: Job) -> None:
    loop = get_running_loop()
    async with job.worker() as runner:

        def stop(*_: object) -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # again: at once
            loop.call_soon_threadsafe(runner.stop)

        # Not with the loop's own way, which Windows lacks.
        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        say(f"A worker of {job.name} has begun.")
        await runner.run()
    say("The worker has ended.")


async def _watched(job: Job, plan: str) -> PlanStatus:
    seen = await job.status(plan)
    with counting_bar("Done") as show:
        while not seen.is_complete:
            notes = [f"{seen.failed} failed"] if seen.failed else []
            notes += [f"waits: {printable(one.reason)}" for one in seen.waiting[:1]]
            show(seen.items - seen.missing, seen.items, *notes)
            await sleep(LOOK)
            seen = await job.status(plan)
    return seen


async def _listed(rows: AsyncGenerator[dict[str, Any], None]) -> None:
    async for row in rows:
        write_out(f"{to_json(row, indent=None)}\n")


def _told(seen: PlanStatus) -> Iterator[str]:
    yield f"done     {seen.done} of {seen.items}"
    if seen.failed:
        yield f"failed   {seen.failed}: `gateway fleet failed` lists them"
    if seen.unknown:
        yield f"unknown  {seen.unknown}: `gateway fleet unknown` lists them"
    if seen.begun:
        yield f"begun    {seen.begun}: may be under way, and are not sent twice"
    if not seen.is_complete:
        at_work = f"{seen.working} of them in work by {seen.workers} workers"
        yield f"missing  {seen.missing}, in {seen.open_chunks} chunks; {at_work}"
    for one in seen.waiting:
        since = f"{one.since.astimezone():%Y-%m-%d %H:%M:%S}"
        yield f"waits    {one.workers} workers since {since}: {printable(one.reason)}"


def _end(seen: PlanStatus) -> NoReturn:
    ended = Status.UNKNOWN if seen.unknown else Status.FAILED if seen.failed else 0
    raise typer.Exit(ended if seen.is_complete else Status.UNCHANGED)


def _lines(path: str) -> Iterator[Any]:
    with reading(path) as file:
        for number, line in enumerate(file, 1):
            try:
                yield json.loads(line)  # it knows a byte order mark
            except (RecursionError, ValueError):  # also of what is not UTF-8
                raise CommandError(f"line {number} of {name_of(path)} is not JSON") from None
