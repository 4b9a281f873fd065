"""The commands of journals: `gateway bulk export`, `unknown` and `settle`."""

import json
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from gateway_sdk import bulk
from gateway_sdk.cli.arguments import argument, check_place, option, read_json, switch, writing
from gateway_sdk.cli.output import AsCsv, AsJson, choose_form, show_records
from gateway_sdk.cli.process import CommandError, Status, printable, say
from gateway_sdk.errors import InvalidArgumentError

many = typer.Typer(rich_markup_mode=None)


def check_out(place: str) -> Path:
    out = Path(place)
    if out.suffix.lower() not in bulk.EXPORT_SUFFIXES:
        known = f"one of {', '.join(bulk.EXPORT_SUFFIXES)}: this chooses the format"
        raise CommandError(f"{printable(str(out))} must end with {known}")
    if out.suffix.lower() == ".parquet":
        import_module("pyarrow")
    return check_place(place)


Journal: TypeAlias = Annotated[Path, argument("RUN.db", "The journal of a run.")]


@many.command()
def export(
    journal: Journal,
    out: Annotated[Path, argument("FILE", "A .csv, .ndjson or .parquet file.", parser=check_out)],
    *,
    decimals: Annotated[
        bool, switch("--decimals", "In Parquet: exact decimals, not doubles.")
    ] = False,
    excel: Annotated[
        bool, switch("--excel", "In CSV: for Excel, without formulas; not for programs.")
    ] = False,
) -> None:
    """Write what the journal of a bulk run holds into a file.

    Rates are written as rows of base, symbol, date and rate; other values as one row per item, with
    the value as JSON. The journal may be that of a run that is under way.
    """
    written = write_file(journal, out, decimals=decimals, excel=excel)
    if written.failed:
        raise CommandError(f"{written.failed} items of the journal have no value", Status.UNCHANGED)
    check_shapes(written.other_shapes)


def write_file(
    journal: Path, out: Path, *, rates: bool | None = None, **options: Any
) -> bulk.Exported:
    try:
        with writing(out, Status.FAILED):
            written = bulk.export(journal, out, rates=rates, **options)
    except InvalidArgumentError as error:  # an option does not fit the file, or a rate its type
        status = Status.MISUSED if error.field else Status.FAILED
        raise CommandError(printable(str(error)), status) from None
    say(f"{printable(str(out))}: {written.rows} rows")
    return written


def check_shapes(others: int) -> None:
    if others:
        problem = f"replies of another shape than days with rates, left out: {others}"
        advice = "They are in the journal. Without the journal, they are fetched again."
        raise CommandError(f"{problem}\n{advice}", Status.UNCHANGED)


@many.command()
def unknown(journal: Journal, *, as_json: AsJson = False, as_csv: AsCsv = None) -> None:
    """List the items of a journal whose outcome is unknown.

    Each has a request that must not be made twice and may have been carried out. Look at the
    gateway, and say with `gateway bulk settle` what you have found. An item that has begun is under
    way, or its run died.
    """
    form = choose_form(as_json=as_json, as_csv=as_csv)
    show_records(
        [
            {
                "key": entry.key.hex(),
                "item": json.loads(entry.item or "null"),
                "state": str(entry.state),
                "operation": entry.failure and entry.failure.operation,
                "time": entry.time and entry.time.isoformat(timespec="seconds"),
            }
            for entry in bulk.unknown(journal)
        ],
        form,
    )


@many.command()
def settle(
    journal: Journal,
    key: Annotated[str, argument("KEY", "The key of an item that `gateway bulk unknown` lists.")],
    *,
    done: Annotated[
        str | None,
        option("FILE", 'It was done: a file with its reply as JSON; "-" is standard input.'),
    ] = None,
    not_done: Annotated[bool, switch("--not-done", "It was not done: the next run makes it.")] = (
        False
    ),
) -> None:
    """Say what became of an item of unknown outcome, after you have looked at the gateway.

    Later runs have the reply that you give, which may be null. Your decision is kept in the
    journal, with its time.
    """
    if (done is None) is not not_done:
        raise CommandError("give --done or --not-done")
    try:
        digest = bytes.fromhex(key)
    except ValueError:
        problem = f"{key!r} is no key: copy one from `gateway bulk unknown`"
        raise typer.BadParameter(problem, param_hint="KEY") from None
    found: Any = {"not_done": True} if done is None else {"done": read_json(done)}
    bulk.settle(journal, None, digest, **found)
    say("The next run makes it." if done is None else "It is settled: later runs have this reply.")
