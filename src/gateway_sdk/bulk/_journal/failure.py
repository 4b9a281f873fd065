"""Converts errors to entries of a journal, and back."""

from typing import Any, Final

from gateway_sdk import errors
from gateway_sdk.bulk._journal.line import Failure
from gateway_sdk.bulk._watch import ItemWatch
from gateway_sdk.errors import GatewayError
from gateway_sdk.operations import OPERATIONS
from gateway_sdk.outcome import Outcome, Repeatability

_KINDS: Final[dict[str, type[GatewayError]]] = {
    name: getattr(errors, name) for name in errors.__all__
}
_REPEATABILITY: Final = {operation.name: operation.repeatability for operation in OPERATIONS}


def written(error: Exception, watch: ItemWatch) -> Failure:
    """Return what a file may hold of an error: no texts of the user or the gateway."""
    name = type(error).__name__
    if not isinstance(error, GatewayError):
        outcome = watch.outcome.name if watch.was_told else None
        # Only the user knows whether a repetition may succeed.
        return Failure(error=name, outcome=outcome, safe_to_repeat=watch.may_repeat)
    ours = _KINDS.get(name) is type(error)
    return Failure(
        error=name,
        message=str(error.args[0]) if ours and error.args else None,
        operation=error.operation,
        outcome=(watch.outcome if watch.was_told else error.outcome).name,
        status=getattr(error, "status", None),
        safe_to_repeat=watch.may_repeat and error.safe_to_repeat,
        retryable=watch.may_repeat and error.retryable,
    )


def remade(failure: Failure) -> GatewayError:
    """Return the error for an entry of a journal; a foreign error becomes a `GatewayError`."""
    kind = _KINDS.get(failure.error, GatewayError)
    message = failure.message or f"{failure.error}, in an earlier run"
    error = kind.__new__(kind, message)
    error.args = (message,)
    known: dict[str, Any] = {
        "operation": failure.operation,
        "outcome": Outcome[failure.outcome or "UNKNOWN"],
        "repeatability": _REPEATABILITY.get(failure.operation or ""),
        "status": failure.status,
        "transient": failure.retryable,
    }
    if not failure.safe_to_repeat:  # perhaps because of another call of the item
        known["repeatability"] = Repeatability.ONCE
    error.__dict__.update(known)
    return error
