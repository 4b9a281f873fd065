"""What is logged under `gateway_sdk`: names, statuses and times, and nothing else."""

from gateway_sdk._watch import LOGGER
from gateway_sdk.observer import CallInfo, Observer
from gateway_sdk.outcome import Attempt, Outcome


class LogObserver(Observer):
    """Writes calls to the log: what is tried again at INFO, all the rest at DEBUG."""

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        """Log an attempt, with its status or what went wrong."""
        LOGGER.debug(
            "%s #%d: %s, %s, %.3f s",
            call.operation.name,
            call.number,
            attempt.status or attempt.error,
            attempt.outcome.name,
            attempt.elapsed,
        )

    def retry_scheduled(self, call: CallInfo, attempt: Attempt, seconds: float) -> None:
        """Log that a call is made again, and why."""
        LOGGER.info(
            "%s #%d: %s; again in %.2f s",
            call.operation.name,
            call.number,
            attempt.status or attempt.error,
            seconds,
        )

    def call_finished(
        self, call: CallInfo, outcome: Outcome, error: BaseException | None, elapsed: float
    ) -> None:
        """Log a call, with the method and path of its operation as the interface writes them."""
        operation = call.operation
        LOGGER.debug(
            "%s #%d (%s %s): %s, %s, %.3f s in all",
            operation.name,
            call.number,
            operation.method,
            operation.path,
            type(error).__name__ if error else "done",
            outcome.name,
            elapsed,
        )
