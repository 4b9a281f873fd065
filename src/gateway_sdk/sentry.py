"""Spans and breadcrumbs of calls for Sentry; needs the extra [sentry].

sentry_sdk.init(integrations=[GatewayIntegration()])
"""

from typing import Any

from gateway_sdk._python import makers
from gateway_sdk.errors import needing_extra
from gateway_sdk.observer import CallInfo, Observer
from gateway_sdk.outcome import Attempt, Outcome

with needing_extra("sentry", "gateway_sdk.sentry"):
    import sentry_sdk
    from sentry_sdk.integrations import Integration
    from sentry_sdk.scope import add_global_event_processor
    from sentry_sdk.tracing import Span
    from sentry_sdk.types import Event, Hint
    from sentry_sdk.utils import current_stacktrace

__all__ = ["GatewayIntegration"]


class GatewayIntegration(Integration):
    """Tells Sentry of each call and attempt of the sessions that are made after `init`.

    A span per call and a breadcrumb per attempt; in neither is a tenant, an identifier or content.
    The local variables of the SDK's frames, which hold them, are left out of events; those of your
    own frames are a matter of `include_local_variables`.
    """

    identifier = "gateway_sdk"

    @staticmethod
    def setup_once() -> None:
        """Add an observer to all sessions; Sentry calls it once in a process."""
        makers["sentry"] = _SentryObserver
        add_global_event_processor(_without_variables)


class _SentryObserver(Observer):
    def __init__(self) -> None:
        self._spans: dict[CallInfo, Span] = {}

    def call_started(self, call: CallInfo) -> None:
        if sentry_sdk.get_client().get_integration(GatewayIntegration) is not None:
            self._spans[call] = sentry_sdk.start_span(op="http.client", name=call.operation.name)

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        if call in self._spans:
            done = attempt.outcome.name
            data = {"status": attempt.status, "outcome": done, "error": attempt.error}
            sentry_sdk.add_breadcrumb(category="gateway", message=call.operation.name, data=data)

    def call_finished(
        self, call: CallInfo, outcome: Outcome, error: BaseException | None, elapsed: float
    ) -> None:
        del elapsed
        if (span := self._spans.pop(call, None)) is not None:
            span.set_data("gateway.outcome", outcome.name)
            has_failed = isinstance(error, Exception)  # else the caller gave up, if there is one
            span.set_status("internal_error" if has_failed else "cancelled" if error else "ok")
            span.finish()


def _without_variables(event: Event, hint: Hint) -> Event:
    del hint
    options = sentry_sdk.get_client().options
    has_stack = event.keys() & {"type", "exception", "stacktrace", "threads"}
    if options.get("attach_stacktrace") and not has_stack:
        # Sentry would attach it after this, with all variables.
        stack = current_stacktrace(options.get("include_local_variables", True))
        event["threads"] = {"values": [{"stacktrace": stack, "crashed": False, "current": True}]}
    # Messages have their stack in "threads".
    parts: list[Any] = [event.get("exception") or {}, event.get("threads") or {}]
    values: list[Any] = [value for part in parts for value in part.get("values") or ()]
    stacks: list[Any] = [value.get("stacktrace") or {} for value in values]
    frames: list[Any] = [frame for stack in stacks for frame in stack.get("frames", ())]
    for frame in frames:
        if str(frame.get("module")).partition(".")[0] == "gateway_sdk":
            frame.pop("vars", None)
    return event
