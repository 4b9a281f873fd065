"""Errors on their way into a journal, and out of it again."""

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
    """Say of an error what may stand in a file: no words of the user's or the gateway's."""
    name = type(error).__name__
    if not isinstance(error, GatewayError):
        outcome = watch.outcome.name if watch.was_told else None
        # Whether it may succeed the next time is known to the user only.
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
    """Make an error of what stands in a journal; one that is not ours becomes a `GatewayError`."""
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
    if not failure.safe_to_repeat:  # also where another call of the item is what must not be
        known["repeatability"] = Repeatability.ONCE
    error.__dict__.update(known)
    return error
