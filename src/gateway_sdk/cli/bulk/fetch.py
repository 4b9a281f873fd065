"""Fetching many series into a journal."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import typer

from gateway_sdk.bulk import BulkResult, currencies_of
from gateway_sdk.cli.bulk.count import Count
from gateway_sdk.cli.bulk.plan import Plan, Query
from gateway_sdk.cli.bulk.progress import progress
from gateway_sdk.cli.bulk.rows import Rows, writing_rows
from gateway_sdk.cli.bulk.values import to_journal
from gateway_sdk.cli.failure import FAILED, MISUSED, CommandError, explain
from gateway_sdk.cli.output.files import check_place
from gateway_sdk.cli.output.printable import printable
from gateway_sdk.cli.output.stdout import say
from gateway_sdk.cli.reach import ask
from gateway_sdk.errors import (
    AuthError,
    ConnectionFailedError,
    ForbiddenError,
    GatewayError,
    JournalError,
    RedirectError,
    UnauthorizedError,
)
from gateway_sdk.session import GatewaySession

HOPELESS: Final = (AuthError, UnauthorizedError)
"""What happens to one call happens to all that follow."""

HOPELESS_AT_FIRST: Final = (ConnectionFailedError, ForbiddenError, RedirectError)
"""Likewise, as long as nothing has come: then it is about the gateway, and not about a series."""

NOTHING: Final = "there is nothing to fetch: the gateway lists no countries with other currencies"
THEN: Final = "The rest was left out: then give the same command again, with --retry-failed."


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How series are fetched, and where they go.

    Attributes:
        out: The journal.
        rows: A CSV file for the rates; None for none.
        deadline: Seconds for the whole run.
    """

    out: Path
    rows: Path | None
    concurrency: int | Literal["adaptive"]
    retry_failed: bool
    repair: bool
    deadline: float | None

    def check(self) -> None:
        """Make sure that the files can be where they are to be.

        Raises:
            CommandError: they cannot.
        """
        for path in filter(None, (self.out, self.rows)):
            check_place(path)
        if self.rows is not None and self.rows.resolve() == self.out.resolve():
            raise CommandError("--out and --rows are the same file: give two", MISUSED)


def fetch(ctx: typer.Context, plan: Plan, way: Way) -> None:
    """Fetch what the journal lacks, and say what came of it.

    Raises:
        CommandError: a file is not to be had, or a series is missing at the end.
        GatewayError: the gateway did not list its countries.
        KeyboardInterrupt: Ctrl-C; its text says how to go on.
    """
    way.check()
    count = Count(way.deadline)
    if plan.symbols is not None:
        count.total = plan.size(plan.symbols)
    try:
        with progress(count) as show:
            rows = ask(
                ctx,
                lambda gateway: _Run(gateway, plan, way, count, show).fetch(_job(ctx)),
                tells_waits=False,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_how_to_go_on(way, count)) from None
    except JournalError as error:
        status = FAILED if count.opened else MISUSED
        words = printable(str(error)).replace("repair=True", "--repair")
        raise CommandError(words, status) from error
    except GatewayError as error:
        if not count.asked:
            raise
        failure = explain(error)
        raise CommandError(f"{failure}\n{THEN}", failure.status) from error
    _tell(way, count, rows)


def _job(ctx: typer.Context) -> str | None:
    """Name the job of the sandbox, whose address is another each time; None for a gateway's own."""
    return "exchange rates of the sandbox" if ctx.find_root().params["sandbox"] else None


def _how_to_go_on(way: Way, count: Count) -> str:
    if count.total is None:
        return "Nothing was fetched."
    # Ones that have just been written, or are still to be read, are not counted.
    there = f"{printable(str(way.out))} has at least {count.there} of {count.total} series"
    return f"{there}: the same command goes on from there."


def _tell(way: Way, count: Count, rows: Rows | None) -> None:
    """Say what came, and what did not."""
    if count.total is not None:
        say(f"{printable(str(way.out))}: {count.summary()}")
    if rows is not None:
        rates = "1 rate" if rows.written == 1 else f"{rows.written} rates"
        say(f"{printable(str(way.rows))}: {rates}")
        if rows.other_shapes:
            say(f"Replies of another shape than days with rates, left out: {rows.other_shapes}")
    if complaint := count.complaint():
        raise complaint


@dataclass(frozen=True, slots=True)
class _Run:
    """One run with an open session."""

    gateway: GatewaySession
    plan: Plan
    way: Way
    count: Count
    show: Callable[[], None]

    async def fetch(self, job: str | None) -> Rows | None:
        """Fetch all, and count it; return what the rows were written with, if any."""
        results = self.gateway.currency.exchange_rate_series_bulk(
            self._queries(),
            concurrency=self.way.concurrency,
            # So that rows stand in the order of currencies and days.
            ordered=self.way.rows is not None,
            deadline=self.way.deadline,
            journal=self.way.out,
            job=job,
            retry_failed=self.way.retry_failed,
            repair=self.way.repair,
            dump=to_journal,
        )
        with writing_rows(self.way.rows) as rows:
            async with aclosing(results):
                async for result in results:
                    self._take(result)
                    if rows is not None:
                        rows.add(result)
        return rows

    async def _queries(self) -> AsyncGenerator[Query]:
        """Make the requests; begun only when the journal is open."""
        self.count.opened = True
        symbols = self.plan.symbols
        if symbols is None:
            symbols = currencies_of(await self.gateway.country_data.list_countries())
        self.count.total = self.plan.size(symbols)
        if not self.count.total:
            raise CommandError(NOTHING, FAILED)
        self.show()
        for query in self.plan.queries(symbols):
            yield query

    def _take(self, result: BulkResult[Query, Any]) -> None:
        self.count.add(result)
        self.show()
        error = result.error
        if error is None or result.from_journal:
            return
        if not isinstance(error, GatewayError):
            raise error  # a bug, and not a series that failed
        if isinstance(error, HOPELESS) or (
            isinstance(error, HOPELESS_AT_FIRST) and not self.count.fetched
        ):
            raise error
