"""Items, values and errors as a ledger keeps them, and back."""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final, cast

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from gateway_sdk import errors
from gateway_sdk.bulk._item import ItemRun
from gateway_sdk.bulk.ledger import Entry, Failure, State
from gateway_sdk.errors import GatewayError
from gateway_sdk.operations import OPERATIONS
from gateway_sdk.outcome import Advice, Outcome

_LONGEST_INTEGER: Final = 4300
"""Digits that `from_json` reads, as Python does."""

_LEVELS: Final = 100
"""Half of the nested arrays and objects that `from_json` reads."""

_KINDS: Final[dict[str, type[GatewayError]]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, GatewayError)
}
_REPEATABILITY: Final = {operation.name: operation.repeatability for operation in OPERATIONS}


def value_text(value: Any) -> str:
    """Write a value as JSON that can be read; the error otherwise may show the value."""
    text = to_json(value, by_alias=True, inf_nan_mode="strings").decode()
    # Only such a text can have a too long integer, or be too deep; others need not be tried.
    if len(text) > _LONGEST_INTEGER or text.count("[") + text.count("{") > _LEVELS:
        from_json(text)
    return text


def item_text(item: Any) -> str | None:
    """Write an item for readers; None if it is not JSON, because its key identifies it."""
    try:
        return None if _holds_generator(item) else value_text(item)
    except Exception:  # noqa: BLE001 - the item's class may raise anything
        return None


def _holds_generator(value: Any) -> bool:
    """Tell whether a value holds a generator: writing it would use it up before the call does."""
    if value is None or isinstance(value, str | int | float):
        return False
    inner: Iterable[Any] = ()
    if isinstance(value, Mapping):
        inner = value.values()
    elif isinstance(value, list | tuple):
        inner = cast("Iterable[Any]", value)
    elif isinstance(value, BaseModel):
        inner = vars(value).values()
    elif is_dataclass(value):
        inner = [getattr(value, column.name, None) for column in fields(value)]
    return isinstance(value, Generator) or any(map(_holds_generator, inner))


def entry_of(run: ItemRun[Any, Any], value: str | None) -> Entry:
    failure = None if run.error is None else _failure_of(run.error, run)
    state = State.DONE
    if failure is not None:
        is_unknown = failure.advice is Advice.CHECK and failure.outcome == Outcome.UNKNOWN.name
        state = State.UNKNOWN if is_unknown else State.FAILED
    return Entry(
        key=run.digest or b"",
        state=state,
        once=run.sends_once,
        item=item_text(run.item),
        value=value,
        failure=failure,
        attempts=run.attempts,
        elapsed=run.elapsed,
    )


def _failure_of(error: Exception, run: ItemRun[Any, Any]) -> Failure:
    """Return what a file may hold of an error: no texts of the user or the gateway."""
    name = type(error).__name__
    if not isinstance(error, GatewayError):
        outcome = run.outcome.name if run.has_calls else None
        # Only the user knows whether a repetition may succeed, and asks for it.
        return Failure(error=name, outcome=outcome, advice=run.advice(Advice.REPEAT))
    is_ours = _KINDS.get(name) is type(error) and error.args
    return Failure(
        error=name,
        # As UTF-8 can hold it: the user may raise an error of ours with any text.
        message=str(error.args[0]).encode("utf-8", "replace").decode() if is_ours else None,
        operation=error.operation,
        outcome=(run.outcome if run.has_calls else error.outcome).name,
        status=getattr(error, "status", None),
        advice=run.advice(error.advice),
    )


def error_of(failure: Failure) -> GatewayError:
    """Return the error for an entry of a ledger; a foreign error becomes a `GatewayError`."""
    kind = _KINDS.get(failure.error, GatewayError)
    message = failure.message or f"{failure.error}, in an earlier run"
    error = kind.__new__(kind, message)
    error.args = (message,)
    known: dict[str, Any] = {
        "operation": failure.operation,
        "outcome": Outcome[failure.outcome or "UNKNOWN"],
        "repeatability": _REPEATABILITY.get(failure.operation or ""),
        "status": failure.status,
        "_advice": failure.advice,
    }
    error.__dict__.update(known)
    return error
