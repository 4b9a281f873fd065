"""What a run writes into its ledger and reads from it, and the errors of both."""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from gateway_sdk import errors
from gateway_sdk.bulk.results import Entry, Failure, Ledger, State
from gateway_sdk.errors import GatewayError, JournalError
from gateway_sdk.operations import OPERATIONS
from gateway_sdk.outcome import Advice, Outcome

_TURNS: Final = 2
"""Turns of the event loop before a batch is passed: calls that end together share it."""

_KINDS: Final[dict[str, type[GatewayError]]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, GatewayError)
}
_REPEATABILITY: Final = {operation.name: operation.repeatability for operation in OPERATIONS}

Said = tuple[Outcome | None, Advice, str]
"""Of an item that failed: its outcome, if a session reported a call, its advice, its writes."""

Answered = Callable[[Any], None]
"""Takes what the ledger has answered, or its error."""


@dataclass(eq=False)
class Recorder:
    """Asks the ledger of a run, if it has one, to write and to read: one batch after the other."""

    ledger: Ledger | None
    fail: Callable[[BaseException], None]
    unwritten: list[Entry] = field(default_factory=list[Entry])  # of items that have ended
    _asked: dict[str, list[tuple[Any, Answered]]] = field(
        default_factory=lambda: {"write": [], "read": []}
    )
    _working: asyncio.Task[None] | None = None
    _context: Context = field(default_factory=copy_context)  # not that of an item

    async def aclose(self) -> None:
        if self.ledger is not None:
            if self._working is not None:
                await asyncio.wait([self._working])
            await self._work()  # asyncio cancels that task too at the end of a program
            if again := [(entry, partial(self._keep, entry)) for entry in self.unwritten]:
                self.unwritten = []
                await self._pass(again, self.ledger.write)  # the disk may have room by now
            await self.ledger.aclose()

    def _keep(self, entry: Entry, answer: Any) -> None:
        if isinstance(answer, Exception):
            self.unwritten.append(entry)

    def tell_lost(self, error: BaseException | None) -> None:
        """Say in the error of the run what the next run will not know."""
        done = sum(it.once and it.state is State.DONE for it in self.unwritten)
        text = (
            f"items that were done, and that the next run calls unknown: {done}; only this run has "
            "yielded their results"
        )
        if done and isinstance(error, GatewayError):
            error.args = ("; ".join([*error.args[:1], text]),)
        elif done and error is not None:  # of a ledger of the user
            error.add_note(text)

    def ask(self, ask: str, what: Any, answered: Answered) -> None:
        self._asked[ask].append((what, answered))
        if self._working is None or self._working.done():
            loop = asyncio.get_running_loop()
            self._working = loop.create_task(self._work(), context=self._context)

    async def _work(self) -> None:
        while any(self._asked.values()):
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            for ask, batch in self._asked.items():
                if batch:
                    self._asked[ask] = []
                    await self._pass(batch, getattr(self.ledger, ask))

    async def _pass(self, batch: Sequence[tuple[Any, Answered]], ask: Callable[..., Any]) -> None:
        answers: list[Any] = []
        try:
            answers += await ask([what for what, _ in batch]) or [None] * len(batch)
        except asyncio.CancelledError:  # from within, or at the end of the program
            pass
        except Exception as error:  # noqa: BLE001 - it is that of each of them
            answers = [error] * len(batch)
        if len(answers) != len(batch):
            answers = [JournalError("the ledger has not answered for each item")] * len(batch)
        for (_, answered), answer in zip(batch, answers, strict=True):
            try:
                answered(answer)
            except BaseException as error:  # noqa: BLE001 - of the ledger, load, or a wrong answer
                self.fail(error)


def failure_of(error: Exception, said: Said) -> Failure:
    """Return what a file may hold of an error: no texts of the user or the gateway."""
    name = type(error).__name__
    is_ours = _KINDS.get(name) is type(error) and error.args
    outcome, advice, writes = said
    return Failure(
        error=name,
        # As UTF-8 can hold it: the user may raise an error of ours with any text.
        message=str(error.args[0]).encode("utf-8", "replace").decode() if is_ours else None,
        operation=error.operation if isinstance(error, GatewayError) else None,
        outcome=None if outcome is None else outcome.name,
        status=getattr(error, "status", None) if isinstance(error, GatewayError) else None,
        advice=advice,
        writes=writes or None,
    )


def error_of(failure: Failure) -> GatewayError:
    """Return the error for an entry of a ledger; a foreign error becomes a `GatewayError`."""
    kind = _KINDS.get(failure.error, GatewayError)
    message = failure.message or f"{failure.error}, in an earlier run"
    error: Any = kind.__new__(kind, message)
    error.args = (message,)
    error.operation = failure.operation
    error.outcome = Outcome[failure.outcome or "UNKNOWN"]
    error.repeatability = _REPEATABILITY.get(failure.operation or "")
    error.status = failure.status
    error.advice = failure.advice
    error.writes = failure.writes or ""
    made: GatewayError = error
    return made


def without_frames(error: Exception) -> Exception:
    """Return an error whose tracebacks are gone: they hold the frames, and all that these hold."""
    chain: list[BaseException] = [error]
    for link in chain:  # the loop adds to this list
        link.with_traceback(None)  # also of a frozen dataclass
        group: Any = link if isinstance(link, BaseExceptionGroup) else None
        more = (link.__cause__, link.__context__, *(group.exceptions if group else ()))
        chain += [other for other in more if other is not None and other not in chain]
    return error
