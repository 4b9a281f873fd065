"""Errors as a ledger keeps them, and back."""

from typing import Any, Final

from gateway_sdk import errors
from gateway_sdk.bulk._observers import ItemObserver
from gateway_sdk.bulk.ledger import Failure, State
from gateway_sdk.errors import GatewayError
from gateway_sdk.operations import OPERATIONS
from gateway_sdk.outcome import Advice, Outcome

_KINDS: Final[dict[str, type[GatewayError]]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, GatewayError)
}
_REPEATABILITY: Final = {operation.name: operation.repeatability for operation in OPERATIONS}


def failure_of(error: Exception, observer: ItemObserver) -> Failure:
    """Return what a file may hold of an error: no texts of the user or the gateway."""
    name = type(error).__name__
    if not isinstance(error, GatewayError):
        outcome = observer.outcome.name if observer.has_calls else None
        # Only the user knows whether a repetition may succeed, and asks for it.
        return Failure(error=name, outcome=outcome, advice=observer.advice(Advice.REPEAT))
    ours = _KINDS.get(name) is type(error)
    return Failure(
        error=name,
        message=_writable(error.args[0]) if ours and error.args else None,
        operation=error.operation,
        outcome=(observer.outcome if observer.has_calls else error.outcome).name,
        status=getattr(error, "status", None),
        advice=observer.advice(error.advice),
    )


def state_of(failure: Failure) -> State:
    """Return the state of an item that failed."""
    is_unknown = failure.advice is Advice.CHECK and failure.outcome == Outcome.UNKNOWN.name
    return State.UNKNOWN if is_unknown else State.FAILED


def _writable(message: object) -> str:
    """Return a message as UTF-8 can hold it: the user may raise an error of ours with any text."""
    return str(message).encode("utf-8", "replace").decode()


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
