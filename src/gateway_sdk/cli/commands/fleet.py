"""The commands `gateway bulk plan`, `submit`, `worker`, `status`, `unknown` and `collect`."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from gateway_sdk.cli.files import STDIN, name_of, standard_input
from gateway_sdk.cli.output.console import counting_bar
from gateway_sdk.cli.process import CommandError, Status, printable, say, write_out
from gateway_sdk.errors import GatewayError
from gateway_sdk.fleet import Job, Plan, PlanStatus
from gateway_sdk.fleet._worker import settle

T = TypeVar("T")

LOOK: Final = 1.0
"""Seconds between two looks at the store."""

CHUNKS_AT_ONCE: Final = 2
"""While the last calls of a chunk end, the next one has begun."""


def plan(
    ctx: typer.Context,
    job: str,
    items: str,
    chunk: Annotated[int, typer.Option(min=1, max=100_000)] = 250,
) -> None:
    """Store the plan of a job, whose items are the lines of a file.

    The job is an object of a Python file, which all machines have: jobs:rates is the object rates
    of jobs.py in this folder. It is safe to plan the same items again.

    Args:
        items (FILE): A file of JSON lines, one for each item; "-" is standard input.
        chunk (N): Items that a worker takes at a time.
    """
    planned = _with_plan(ctx, job, _itself, make=lambda made: made.plan(_lines(items), chunk=chunk))
    record = planned.record
    say(f"{record.name}: {record.items} items in {record.chunks} chunks")


def submit(
    ctx: typer.Context, job: str, *, broker: str = "broker", retry_failed: bool = False
) -> None:
    """Send a message to the queue for each chunk in which something is missing.

    It is safe to submit again at any time.

    Args:
        retry_failed: Also send the chunks of what failed and may be repeated.
    """
    used = _broker(job, broker)

    async def work(planned: Plan) -> int:
        if retry_failed:
            await planned.retry_failed()
        try:
            return await _submitted(planned, used)
        except GatewayError:
            raise
        except Exception as error:  # noqa: BLE001 - each broker has errors of its own
            # Without its text, which may show a password.
            raise CommandError(
                f"the broker does not take messages ({type(error).__name__}): start it, and give"
                " the same command again",
                Status.UNCHANGED,
            ) from None

    say(f"{_with_plan(ctx, job, work)} chunks submitted")


async def _submitted(planned: Plan, broker: Any) -> int:
    await broker.startup()
    try:
        return await planned.submit(broker)
    finally:
        await broker.shutdown()


def worker(
    ctx: typer.Context,
    job: str,
    *,
    broker: str = "broker",
    workers: Annotated[int, typer.Option(min=1)] = 1,
    here: bool = False,
) -> None:
    """Run chunks that the queue delivers, with the worker of taskiq, until it is stopped.

    After SIGTERM or Ctrl-C, calls in flight end, and the rest of a chunk is given back to the
    queue.

    With --here there is no queue: this process runs what is missing, and ends. Use it to try a job,
    or if one machine is enough.

    Args:
        workers (N): Processes.
        here: Run what is missing in this process, without a queue.
    """
    if here:
        _run_here(ctx, job)
        return
    _broker(job, broker)  # reports a wrong name before taskiq starts
    _refuse_settings(ctx)
    module = f"{_module_of(job)}:{broker}"
    options = ("--workers", str(workers), "--max-async-tasks", str(CHUNKS_AT_ONCE))
    # In place of this process, so that signals reach it.
    os.execv(sys.executable, [sys.executable, "-m", "taskiq", "worker", module, *options])  # noqa: S606


def status(ctx: typer.Context, job: str) -> None:
    """Show what the store knows of a plan.

    In a terminal, a bar shows the progress until the plan is complete. Ctrl-C ends only the bar.
    """
    _tell(_with_plan(ctx, job, _watch))


def unknown(ctx: typer.Context, job: str) -> None:
    """List items that may have been sent and are never sent again, as JSON lines.

    Check each of them at the gateway.
    """

    async def work(planned: Plan) -> None:
        async for record in planned.unknown():
            failure = record.failure and record.failure.error
            line = {"index": record.index, "item": json.loads(record.item), "error": failure}
            write_out(f"{json.dumps(line)}\n")

    _with_plan(ctx, job, work)


def collect(ctx: typer.Context, job: str, out: Path, *, partial: bool = False) -> None:
    """Write all results of a plan into one Parquet file.

    Args:
        out (FILE): The file, such as rates.parquet.
        partial: Write the results so far, even if some are missing.
    """

    async def work(planned: Plan) -> int:
        try:
            return await planned.collect(out, partial=partial)
        except OSError as error:
            problem = f"cannot write {printable(str(out))}: {error.strerror}"
            raise CommandError(problem, Status.FAILED) from None

    rows = _with_plan(ctx, job, work)
    say(f"{printable(str(out))}: {rows} rows")


async def _itself(planned: Plan) -> Plan:
    return planned


def _with_plan(
    ctx: typer.Context,
    job: str,
    work: Callable[[Plan], Awaitable[T]],
    make: Callable[[Job], Awaitable[Plan]] = Job.load,
) -> T:
    _refuse_settings(ctx)
    found = _job(job)

    async def working() -> T:
        async with found:
            return await work(await make(found))

    return asyncio.run(working())


def _refuse_settings(ctx: typer.Context) -> None:
    given = ctx.find_root().params
    for name in ("sandbox", "base_url", "tenant", "profile"):
        if given[name]:
            option = name.replace("_", "-")
            raise CommandError(
                f"--{option} has no effect here: the gateway is that of the job, by default that of"
                " GATEWAY_BASE_URL",
            )


def _module_of(job: str) -> str:
    return job.partition(":")[0].removesuffix(".py")


def _named(job: str, name: str) -> Any:
    module = _module_of(job)
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
    if not hasattr(found, name):
        problem = f"the module {module} has no {printable(name)}"
        raise CommandError(f"{problem}\n{module}:NAME names a job, and --broker NAME its broker.")
    return getattr(found, name)


def _broker(job: str, name: str) -> Any:
    found = _named(job, name)
    if not hasattr(found, "startup"):
        problem = f"{printable(name)} of {_module_of(job)} is no broker"
        raise CommandError(f"{problem}\n--broker names another object of the module.")
    return found


def _job(text: str) -> Job:
    found = _named(text, text.partition(":")[2] or "job")
    if not isinstance(found, Job):
        raise CommandError(f"{printable(text)} is not a fleet.Job")
    return found


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


def _run_here(ctx: typer.Context, job: str) -> None:
    """Run what is missing in this process; SIGTERM lets calls in flight end, as Ctrl-C does."""
    found = _job(job)

    async def work(planned: Plan) -> PlanStatus:
        await planned.retry_broken()
        async with found.worker() as runner:
            settle()
            running = asyncio.create_task(runner.run_missing(planned))
            with suppress(NotImplementedError):  # on Windows
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
            try:
                await running
            except asyncio.CancelledError:
                this = asyncio.current_task()
                if this is not None and this.cancelling():  # Ctrl-C
                    raise
        return await planned.status()

    left = _with_plan(ctx, job, work)
    _tell(left)
    if not left.is_complete:
        raise CommandError(
            "something is missing: the same command goes on from there", Status.UNCHANGED
        )


async def _watch(planned: Plan) -> PlanStatus:
    found = await planned.status()
    before = _ended(found)
    with counting_bar("Done") as show:
        while sys.stderr.isatty() and not found.is_complete:
            failed = sum(found.failed.values())
            notes = (f"{failed} failed" if failed else "", found.waiting)
            ended = _ended(found)
            show(ended, found.items, ended - before, *filter(None, notes))
            await asyncio.sleep(LOOK)
            found = await planned.status()
    return found


def _ended(found: PlanStatus) -> int:
    return found.items - found.missing - found.begun


def _tell(found: PlanStatus) -> None:
    lines = [f"done     {found.done} of {found.items}"]
    lines += [f"failed   {count}: {reason}" for reason, count in sorted(found.failed.items())]
    if found.unknown:
        lines.append(f"unknown  {found.unknown}: `gateway bulk unknown` lists them")
    if found.begun:
        lines.append(f"begun    {found.begun}: may be under way, and are not sent twice")
    if found.missing:
        lines.append(f"missing  {found.missing}, in chunks under way: {found.running}")
    if found.waiting:
        lines.append(found.waiting)
    lines += [f"chunk {one.chunk}: {printable(one.message)}" for one in found.broken]
    write_out("".join(f"{line}\n" for line in lines))
